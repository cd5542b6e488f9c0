// Gradient of max pooling for planes that lie side by side: blocks of elements of many planes,
// whose windows find their winners row by row and are handed out as soon as a row of elements has
// all.
#pragma once

#include <memory>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/max_lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// How a plan is cut into blocks of `step` elements along each axis, of `lanes` planes; pixels of a
/// block stand `pitch` apart.
struct LaneShape {
  static constexpr int64_t kMostTaps = tuning::pool_grad::kMostBlockTaps,
                           kMostReach = tuning::pool_grad::kMostReach;
  static constexpr int64_t kMostLaneBytes = tuning::pool_grad::kBlockLaneBytes,
                           kRowBytes = tuning::pool_grad::kStagedBytes,
                           kWindowBytes = tuning::pool_grad::kBlockWindowBytes;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  int64_t lanes, pitch;
  int64_t step[3], blocks[3];
  int64_t windows[3];                          // of a block, at most, with those that do not exist
  int64_t key_rows, keys, window_row, covers;  // keys: of a row; window_row: places
  bool is_direct, is_streamed;                 // results go by whole vectors, past the caches

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    int64_t taps = 1, covers = 1;
    for (const PoolAxis& a : f.axis) {
      if (a.window > kMostTaps || (a.window - 1) * a.dilation > kMostReach) return false;
      taps *= a.window;
      covers *= std::min(a.window, (a.window - 1) * a.dilation / a.stride + 1);
    }
    return taps <= kMostTaps && covers <= LaneCovers<float>::kMost;
  }

  explicit LaneShape(const PoolGradPlan& p, const void* result) : plan(p), f(p.forward) {
    const int64_t bytes = size_of(f.dtype), vector = kVectorBytes / bytes;
    lanes = even_part(f.batch[1], kMostLaneBytes / bytes);
    lanes = std::min(f.batch[1], (lanes + 64 / bytes - 1) / (64 / bytes) * (64 / bytes));
    pitch = (lanes + vector - 1) / vector * vector;
    cut(2, std::max<int64_t>(1, kRowBytes / (pitch * bytes)));
    window_row = windows[2] * pitch;
    const int64_t rows = kWindowBytes / (window_row * std::max<int64_t>(8, 2 * bytes));
    cut(0, f.axis[0].window > f.axis[0].stride ? 3 * f.axis[0].stride : f.axis[0].stride);
    cut(1, std::max<int64_t>(4, rows / windows[0]) * f.axis[1].stride);
    const int64_t others = std::max<int64_t>(0, windows[2] - 2);  // that may exist besides one
    keys = (others * f.axis[2].stride + reach(2) + 1) * pitch + 2 * vector;
    key_rows = f.axis[0].window * (reach(1) + 1);
    place(result, bytes);
  }

  int64_t reach(int i) const { return (f.axis[i].window - 1) * f.axis[i].dilation; }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, true, lanes);
    for (int i = 0; i < 3; ++i) space.dim[kSpaceDim + i].size = blocks[i];
    return space;
  }

 private:
  void cut(int i, int64_t most) {
    const PoolAxis& a = f.axis[i];
    step[i] = even_part(a.in, most);
    blocks[i] = (a.in + step[i] - 1) / step[i];
    windows[i] = (step[i] - 1 + reach(i)) / a.stride + 2;
  }

  void place(const void* result, int64_t bytes) {
    const PoolStrides& r = plan.result;
    int64_t elements = f.batch[0] * f.batch[1], places = lanes;
    for (int i = 0; i < 3; ++i) elements *= f.axis[i].in;
    is_streamed = cudml::cpu::is_streamed(elements * bytes);
    for (int i = 0; i < 3; ++i) places |= f.axis[i].in > 1 ? r.space[i] : 0;
    for (int i = 0; i < f.outer_rank; ++i) places |= plan.result_outer[i];
    places |= f.batch[0] > 1 ? r.batch[0] : 0;
    is_direct = f.batch[1] % lanes == 0 && lanes == pitch &&
                (!is_streamed || (places * bytes % 64 == 0 && bytes_to_line(result) == 0));
  }
};

/// One of them: elements [from, to) along each axis, the windows over them, and the first window
/// along a row that has a place, existing or not.
struct LaneBlock {
  const Task& task;
  int64_t from[3], to[3], first;
  Reach over[3];
  bool has_windows = true;

  LaneBlock(const LaneShape& s, const Task& t) : task(t) {
    for (int i = 0; i < 3; ++i) {
      from[i] = t.space(i) * s.step[i];
      to[i] = std::min(s.f.axis[i].in, from[i] + s.step[i]);
      over[i] = reach_of(s.f.axis[i], from[i], to[i] - 1);
      has_windows &= over[i].first <= over[i].last;
    }
    const PoolAxis& a = s.f.axis[2];
    const int64_t behind = from[2] + a.start - s.reach(2);
    first = behind >= 0 ? behind / a.stride : -((a.stride - 1 - behind) / a.stride);
  }

  /// The end of the elements that windows up to number o along an axis have all over them.
  int64_t end_of(int i, const PoolAxis& a, int64_t o, int64_t begin) const {
    if (o >= over[i].last) return to[i];
    return std::clamp((o + 1) * a.stride - a.start, begin, to[i]);
  }
};

template <class T>
class MaxLanes : LaneBlocks<T, LaneShape> {
  using Base = LaneBlocks<T, LaneShape>;
  using Base::f_, Base::grad_, Base::result_, Base::s_, Base::x_;
  using K = RowKey<T>;
  using Tap = LaneTap<T>;
  using Sum = Acc<T>;

 public:
  using Base::Base;

  void run() const {
    Base::template run_blocks<Room>([&](const Task& task, Room& room) { block(task, room); });
  }

 private:
  static constexpr K kNone = std::numeric_limits<K>::min();  // below every key

  struct Room {
    std::unique_ptr<char[]> bytes;
    K *keys, *none;
    Tap* winners;
    Sum* grads;
    T* line;
    LineStream out;

    explicit Room(const LaneShape& s) {
      const int64_t keys_bytes = (s.key_rows + 1) * s.keys * int64_t(sizeof(K));
      const int64_t windows = s.windows[0] * s.windows[1] * s.window_row;
      bytes.reset(new char[size_t(64 + keys_bytes + windows * 2 * int64_t(sizeof(Sum)) +
                                  s.step[2] * s.pitch * int64_t(sizeof(T)))]);
      char* at = bytes.get() + bytes_to_line(bytes.get());
      none = reinterpret_cast<K*>(at);
      std::fill_n(none, s.keys, kNone);
      keys = none + s.keys;
      winners = reinterpret_cast<Tap*>(at + keys_bytes);
      grads = reinterpret_cast<Sum*>(winners + windows);
      line = reinterpret_cast<T*>(grads + windows);
    }
  };

  void block(const Task& task, Room& room) const {
    const LaneBlock b(s_, task);
    if (!b.has_windows) return emit(b, b.from[0], b.to[0], b.from[1], b.to[1], room);
    for (int64_t o = b.over[0].first, z = b.from[0]; o <= b.over[0].last; ++o) {
      const int64_t z_end = b.end_of(0, f_.axis[0], o, z);
      int64_t y = b.from[1], loaded = 0;
      for (int64_t p = b.over[1].first; p <= b.over[1].last; ++p) {
        loaded = search(b, o, p, loaded, room);
        const int64_t y_end = b.end_of(1, f_.axis[1], p, y);
        emit(b, z, z_end, y, y_end, room);
        y = y_end;
      }
      z = z_end;
    }
  }

  int64_t place_of(const LaneBlock& b, int64_t o, int64_t p) const {
    return ((o - b.over[0].first) * s_.windows[1] + p - b.over[1].first) * s_.window_row;
  }

  /// Winners and gradients of row (o, p) of the windows. Rows of keys up to `loaded` are there; the
  /// result says up to where they are now.
  int64_t search(const LaneBlock& b, int64_t o, int64_t p, int64_t loaded, Room& room) const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1], &x = f_.axis[2];
    const int64_t top = p * y.stride - y.start, ring = s_.reach(1) + 1,
                  front = o * z.stride - z.start;
    const int64_t end = std::min(y.in, top + ring);
    const K* taps[LaneShape::kMostTaps];
    int64_t count = 0;
    for (int64_t i = 0; i < z.window; ++i) {
      const int64_t slice = front + i * z.dilation;
      const bool is_slice = slice >= 0 && slice < z.in;
      K* const rows = room.keys + i * ring * s_.keys;
      for (int64_t r = std::max({loaded, top, int64_t{0}}); is_slice && r < end; ++r)
        load_keys(b, slice, r, rows + r % ring * s_.keys);
      for (int64_t j = 0; j < y.window; ++j) {
        const int64_t r = top + j * y.dilation;
        const bool is_row = is_slice && r >= 0 && r < y.in;
        const K* const row = is_row ? rows + r % ring * s_.keys : room.none;
        for (int64_t k = 0; k < x.window; ++k) taps[count++] = row + k * x.dilation * s_.pitch;
      }
    }
    const int64_t at = place_of(b, o, p), ahead = (b.over[2].first - b.first) * s_.pitch;
    const int64_t n = b.over[2].last - b.over[2].first + 1;
    std::fill_n(room.winners + at, s_.window_row, Tap{-1});
    find_winners(
        LaneWindows<T>{taps, count, x.stride * s_.pitch, n, s_.pitch, room.winners + at + ahead});
    const T* const grad =
        grad_ + b.task.y + o * f_.y.space[0] + p * f_.y.space[1] + b.over[2].first * f_.y.space[2];
    load_lane_grads<T>({grad, f_.y.space[2], n}, b.task.n, f_.y.batch[1], f_.y.space[1],
                       room.grads + at + ahead, s_.pitch);
    return std::max(loaded, end);
  }

  /// Keys of a row from the first tap of the first window that exists to the last of the last.
  void load_keys(const LaneBlock& b, int64_t slice, int64_t row, K* keys) const {
    const PoolAxis& x = f_.axis[2];
    const int64_t first = b.over[2].first * x.stride - x.start;
    const int64_t end = b.over[2].last * x.stride - x.start + s_.reach(2) + 1;
    const int64_t from = std::clamp<int64_t>(0, first, end), to = std::clamp(x.in, from, end);
    std::fill(keys, keys + (from - first) * s_.pitch, kNone);
    std::fill(keys + (to - first) * s_.pitch, keys + (end - first) * s_.pitch, kNone);
    const T* const at =
        x_ + b.task.flat + slice * f_.x.space[0] + row * f_.x.space[1] + from * f_.x.space[2];
    load_lane_keys<T>({at, f_.x.space[2], to - from}, b.task.n, keys + (from - first) * s_.pitch,
                      s_.pitch);
  }

  void emit(const LaneBlock& b, int64_t z, int64_t z_end, int64_t y, int64_t y_end,
            Room& room) const {
    for (; z < z_end; ++z)
      for (int64_t row = y; row < y_end; ++row) emit_row(b, z, row, room);
  }

  /// Windows that have taps on an element's row, by the first of these.
  struct RowCovers {
    int64_t place[LaneCovers<T>::kMost], number[LaneCovers<T>::kMost], count = 0;
  };

  RowCovers rows_over(const LaneBlock& b, int64_t z, int64_t y) const {
    const PoolAxis &za = f_.axis[0], &ya = f_.axis[1];
    RowCovers rows;
    if (!b.has_windows) return rows;
    const Covers o = covers_of(za, z), p = covers_of(ya, y);
    const int64_t slices = (o.last - o.first) / o.step, lines = (p.last - p.first) / p.step;
    for (int64_t i = o.first + slices * o.step; o.first <= o.last && i >= o.first; i -= o.step)
      for (int64_t j = p.first + lines * p.step; p.first <= p.last && j >= p.first; j -= p.step) {
        const int64_t slice = (z + za.start - i * za.stride) / za.dilation;
        const int64_t line = (y + ya.start - j * ya.stride) / ya.dilation;
        rows.place[rows.count] = place_of(b, i, j);
        rows.number[rows.count++] = (slice * ya.window + line) * f_.axis[2].window;
      }
    return rows;
  }

  void emit_row(const LaneBlock& b, int64_t z, int64_t y, Room& room) const {
    const RowCovers rows = rows_over(b, z, y);
    const int64_t step = s_.plan.result.space[2], n = b.to[2] - b.from[2];
    T* const dst = result_ + b.task.x + z * s_.plan.result.space[0] + y * s_.plan.result.space[1] +
                   b.from[2] * step;
    const Pixels<T> to{s_.is_direct ? dst : room.line, s_.is_direct ? step : s_.pitch, n};
    const int64_t ahead = std::min(y + s_.reach(1) + 1, f_.axis[1].in - 1);
    const T* const next =
        x_ + b.task.flat + z * f_.x.space[0] + ahead * f_.x.space[1] + b.from[2] * f_.x.space[2];
    for (int64_t phase = 0; phase < std::min(n, f_.axis[2].stride); ++phase)
      emit_phase(b, rows, phase, to, next, room);
    if (s_.is_direct) return;
    const int64_t run = step == s_.pitch && b.task.n == step ? n : 1;  // pixels without gaps
    const int64_t bytes = run * b.task.n * int64_t(sizeof(T));
    for (int64_t c = 0; c < n; c += run) {
      if (!s_.is_streamed) {
        copy_bytes(dst + c * step, room.line + c * s_.pitch, bytes);
        continue;
      }
      room.out.seek(dst + c * step);
      room.out.copy(room.line + c * s_.pitch, bytes);
    }
  }

  /// Elements of a row that are the stride apart: all of them are the same taps of windows. `next`
  /// begins the row of x that the following windows need.
  void emit_phase(const LaneBlock& b, const RowCovers& rows, int64_t phase, const Pixels<T>& row,
                  const T* next, const Room& room) const {
    const PoolAxis& x = f_.axis[2];
    LaneCovers<T> covers;
    for (int64_t r = 0; r < rows.count; ++r)
      for (int64_t k = 0; k < x.window; ++k) {
        const int64_t from = b.from[2] + phase + x.start - k * x.dilation;
        if (from % x.stride != 0) continue;
        const int64_t place = rows.place[r] + (from / x.stride - b.first) * s_.pitch;
        covers.winner[covers.count] = room.winners + place;
        covers.grad[covers.count] = room.grads + place;
        covers.number[covers.count++] = Tap(rows.number[r] + k);
      }
    const Pixels<T> to{row.at + phase * row.step, x.stride * row.step,
                       (row.count - phase + x.stride - 1) / x.stride};
    const Pixels<const T> ahead{next + phase * f_.x.space[2], x.stride * f_.x.space[2], to.count};
    if (s_.is_direct && s_.is_streamed)
      hand_out<true>(covers, s_.pitch, to, ahead);
    else
      hand_out<false>(covers, s_.pitch, to, ahead);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
