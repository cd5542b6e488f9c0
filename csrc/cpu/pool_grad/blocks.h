// Blocks of a pooling gradient: a part of a plane, in lines that let every element of one phase be
// computed alike.
#pragma once

#include <memory>
#include <numeric>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One spatial axis in cells, the steps of the window: position c of the input stands in cell
/// (c + start) / stride at phase (c + start) % stride, window o begins cell o, and its tap k stands
/// `k * dilation / stride` cells further on. A block is `step` cells; its lines have `reach` more
/// on either side, the cells that windows of the block, and windows that reach into it, touch.
struct BlockAxis {
  const PoolAxis* axis;
  int64_t first, cells, reach, step, blocks;

  explicit BlockAxis(const PoolAxis& a) : axis(&a) {
    first = a.start / a.stride;
    cells = (a.start + a.in - 1) / a.stride - first + 1;
    reach = (a.window - 1) * a.dilation / a.stride;
    cut(cells);
  }
  void cut(int64_t most) {
    blocks = (cells + most - 1) / std::max<int64_t>(1, most);
    step = (cells + blocks - 1) / blocks;
    blocks = (cells + step - 1) / step;
  }
  int64_t size() const { return step + 2 * reach; }
};

/// Elements [from, to).
struct Span {
  int64_t from, to;
};

/// The cells of one block along one axis.
struct BlockCells {
  const PoolAxis* axis;
  int64_t first, count, reach;  // `first` belongs to the block itself, lines begin `reach` before

  BlockCells(const BlockAxis& b, int64_t block)
      : axis(b.axis),
        first(b.first + block * b.step),
        count(std::min(b.step, b.first + b.cells - first)),
        reach(b.reach) {}

  /// Cells of a line whose position at `phase` lies in the input.
  Span elements(int64_t phase) const {
    const int64_t s = axis->stride, low = axis->start - phase, high = low + axis->in - 1;
    const int64_t from = low <= 0 ? 0 : (low + s - 1) / s, to = high < 0 ? 0 : high / s + 1;
    return within(from, to, count + 2 * reach);
  }
  /// Windows of a line that exist; those of the first count + reach cells are of interest.
  Span windows() const { return within(0, axis->out, count + reach); }
  /// The input's position at cell i of a line.
  int64_t position(int64_t i, int64_t phase) const {
    return (first - reach + i) * axis->stride + phase - axis->start;
  }
  int64_t window(int64_t i) const { return first - reach + i; }

 private:
  Span within(int64_t from, int64_t to, int64_t size) const {
    const int64_t begin = std::clamp<int64_t>(from - first + reach, 0, size);
    return {begin, std::clamp<int64_t>(to - first + reach, begin, size)};
  }
};

/// A tap: the phase of its element, and by how much it follows the window in the lines.
struct BlockTap {
  int64_t phase, offset;
};

struct BlockShape {
  static constexpr int64_t kElements = tuning::pool_grad::kBlockElements;  // of all phases
  static constexpr int64_t kMostTaps = tuning::pool_grad::kMostBlockTaps, kMostCovers = 32,
                           kMostPhases = 64;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  BlockAxis axis[3];
  int64_t pitch[3], phase_size;  // distance of neighbouring cells; elements of one phase
  int64_t phases, taps, covers;  // covers: windows over one element, at most
  BlockTap tap[kMostTaps];

  static bool fits(const PoolGradPlan& plan) {
    int64_t phases = 1, taps = 1, smallest = 1;
    for (const PoolAxis& a : plan.forward.axis) {
      if (a.stride > 8 || a.window > kMostTaps) return false;
      phases *= a.stride;
      taps *= a.window;
      smallest *= a.stride * (1 + 2 * ((a.window - 1) * a.dilation / a.stride));
    }
    return taps <= kMostTaps && phases <= kMostPhases && smallest <= kElements / 4 &&
           taps_of_phase(plan.forward) <= kMostCovers;
  }

  /// Taps of a window on elements of one phase, at most.
  static int64_t taps_of_phase(const PoolPlan& f) {
    int64_t n = 1;
    for (const PoolAxis& a : f.axis) {
      const int64_t step = a.stride / std::gcd(a.stride, a.dilation);
      n *= (a.window + step - 1) / step;
    }
    return n;
  }

  explicit BlockShape(const PoolGradPlan& p)
      : plan(p),
        f(p.forward),
        axis{BlockAxis(f.axis[0]), BlockAxis(f.axis[1]), BlockAxis(f.axis[2])} {
    phases = f.axis[0].stride * f.axis[1].stride * f.axis[2].stride;
    covers = taps_of_phase(f);
    cut_axes();
    pitch[2] = 1;
    pitch[1] = axis[2].size();
    pitch[0] = axis[1].size() * pitch[1];
    phase_size = axis[0].size() * pitch[0];
    place_taps();
  }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    for (int i = 0; i < 3; ++i) space.dim[kSpaceDim + i].size = axis[i].blocks;
    return space;
  }

  /// Cells of a line from window (0, 0, 0) of the block to its last one, and one more.
  int64_t extent(const BlockCells* c, bool with_reach) const {
    int64_t last = 0;
    for (int i = 0; i < 3; ++i) last += (c[i].count + (with_reach ? c[i].reach : 0) - 1) * pitch[i];
    return last + 1;
  }

 private:
  /// Whole rows where they leave room for some more rows that windows reach into, then as many rows
  /// and slices as fit.
  void cut_axes() {
    constexpr int64_t kFewest[2] = {tuning::pool_grad::kFewestSlices,
                                    tuning::pool_grad::kFewestRows};
    int64_t room = kElements;
    for (int i = 2; i >= 0; --i) {
      const int64_t s = f.axis[i].stride;
      int64_t others = 1;
      for (int j = 0; j < i; ++j)
        others *= f.axis[j].stride * (fewest(axis[j], kFewest[j]) + 2 * axis[j].reach);
      axis[i].cut(std::max<int64_t>(1, room / others / s - 2 * axis[i].reach));
      room = std::max<int64_t>(1, room / (axis[i].size() * s));
    }
  }

  static int64_t fewest(const BlockAxis& a, int64_t n) {
    return a.reach > 0 ? std::min(n, a.cells) : 1;
  }

  void place_taps() {
    taps = 0;
    const PoolAxis *z = &f.axis[0], *y = &f.axis[1], *x = &f.axis[2];
    for (int64_t a = 0; a < z->window; ++a)
      for (int64_t b = 0; b < y->window; ++b)
        for (int64_t c = 0; c < x->window; ++c) {
          const int64_t at[3] = {a * z->dilation, b * y->dilation, c * x->dilation};
          BlockTap& t = tap[taps++] = {0, 0};
          for (int i = 0; i < 3; ++i) {
            t.phase = t.phase * f.axis[i].stride + at[i] % f.axis[i].stride;
            t.offset += at[i] / f.axis[i].stride * pitch[i];
          }
        }
  }
};

/// One block at a time: its place, and the ways between memory and lines.
template <class T, class Sum>
class BlockIo {
 public:
  BlockIo(const BlockShape& shape, const T* grad, T* result)
      : shape_(shape), f_(shape.f), grad_(grad), result_(result) {
    int64_t elements = int64_t(sizeof(T));
    for (const PoolAxis& a : f_.axis) elements *= a.in;
    elements *= f_.batch[0] * f_.batch[1];
    is_streamed_ = cudml::cpu::is_streamed(elements);
  }

 protected:
  struct Cells {
    BlockCells axis[3];
    Cells(const BlockShape& s, const Task& t)
        : axis{{s.axis[0], t.space(0)}, {s.axis[1], t.space(1)}, {s.axis[2], t.space(2)}} {}
  };

  /// Cells from window (0, 0, 0) to the block's own cell (0, 0, 0).
  int64_t origin() const {
    int64_t offset = 0;
    for (int i = 0; i < 3; ++i) offset += shape_.axis[i].reach * shape_.pitch[i];
    return offset;
  }

  /// Calls fill(line, span, a, b) for every line of windows; spans are empty where there are none.
  /// Elements outside of the span become 0.
  template <class Fill>
  void fill_windows(const Cells& cells, Sum* lines, const Fill& fill) const {
    const BlockCells* c = cells.axis;
    const Span all[3] = {c[0].windows(), c[1].windows(), c[2].windows()};
    const int64_t length = c[2].count + c[2].reach;
    for (int64_t z = 0; z < c[0].count + c[0].reach; ++z)
      for (int64_t y = 0; y < c[1].count + c[1].reach; ++y) {
        Sum* const line = lines + z * shape_.pitch[0] + y * shape_.pitch[1];
        const bool exists = is_in(z, all[0]) && is_in(y, all[1]);
        const Span span = exists ? all[2] : Span{0, 0};
        clear(line, Sum{0}, length, span);
        if (span.from < span.to) fill(line, span, c[0].window(z), c[1].window(y));
      }
  }

  /// The same for every line of input elements, of every phase, row after row as they stand in
  /// memory; fill(line, span, z, y, x) with the position of the span's first element.
  template <class K, class Fill>
  void fill_elements(const Cells& cells, K* lines, K empty, const Fill& fill) const {
    const BlockCells* c = cells.axis;
    const int64_t sz = f_.axis[0].stride, sy = f_.axis[1].stride, sx = f_.axis[2].stride;
    for (int64_t i = 0; i < (c[0].count + 2 * c[0].reach) * sz; ++i)
      for (int64_t j = 0; j < (c[1].count + 2 * c[1].reach) * sy; ++j) {
        const int64_t z = c[0].position(i / sz, i % sz), y = c[1].position(j / sy, j % sy);
        const bool exists = z >= 0 && z < f_.axis[0].in && y >= 0 && y < f_.axis[1].in;
        K* line = lines + (i % sz * sy + j % sy) * sx * shape_.phase_size +
                  i / sz * shape_.pitch[0] + j / sy * shape_.pitch[1];
        for (int64_t p = 0; p < sx; ++p, line += shape_.phase_size) {
          const Span span = exists ? c[2].elements(p) : Span{0, 0};
          clear(line, empty, c[2].count + 2 * c[2].reach, span);
          if (span.from < span.to) fill(line, span, z, y, c[2].position(span.from, p));
        }
      }
  }

  static void load_sums(Sum* line, const T* src, int64_t step, int64_t n) {
    if (std::is_same_v<T, Sum> && step == 1) return copy_bytes(line, src, n * int64_t(sizeof(T)));
    load_grads<T>(line, src, step, n);
  }

  /// Where the gradients of the windows of `span` in row (a, b) begin.
  const T* grads_of(const Task& task, const Cells& cells, Span span, int64_t a, int64_t b) const {
    const PoolStrides& g = f_.y;
    return grad_ + task.y + a * g.space[0] + b * g.space[1] +
           cells.axis[2].window(span.from) * g.space[2];
  }

  /// Writes the block's elements, those of phase p from phase[p] on, where cell (0, 0, 0) of the
  /// block itself stands.
  void emit(const Task& task, const Cells& cells, const Sum* const* phase, LineStream& out) const {
    const BlockCells* c = cells.axis;
    const Span z = own(c[0]), y = own(c[1]), x = own(c[2]);
    const int64_t sz = f_.axis[0].stride, sy = f_.axis[1].stride;
    const PoolStrides& r = shape_.plan.result;
    for (int64_t a = z.from; a < z.to; ++a)
      for (int64_t b = y.from; b < y.to; ++b) {
        const int64_t at_z = a + f_.axis[0].start, at_y = b + f_.axis[1].start;
        const int64_t line =
            (at_z / sz - c[0].first) * shape_.pitch[0] + (at_y / sy - c[1].first) * shape_.pitch[1];
        const Sum* const* row = phase + (at_z % sz * sy + at_y % sy) * f_.axis[2].stride;
        T* const dst = result_ + task.x + a * r.space[0] + b * r.space[1] + x.from * r.space[2];
        const int64_t first = x.from + f_.axis[2].start - c[2].first * f_.axis[2].stride;
        emit_row(row, line, first, x.to - x.from, dst, out);
      }
  }

 private:
  static bool is_in(int64_t i, Span s) { return i >= s.from && i < s.to; }

  template <class K>
  static void clear(K* line, K value, int64_t length, Span span) {
    std::fill(line, line + span.from, value);
    std::fill(line + span.to, line + length, value);
  }

  static void store_sums(T* dst, int64_t step, const Sum* line, int64_t n) {
    if (std::is_same_v<T, Sum> && step == 1) return copy_bytes(dst, line, n * int64_t(sizeof(T)));
    store_grads<T>(dst, step, line, n);
  }

  /// Positions of the input that the block's own cells hold.
  static Span own(const BlockCells& c) {
    const PoolAxis& a = *c.axis;
    return {std::max<int64_t>(0, c.first * a.stride - a.start),
            std::min(a.in, (c.first + c.count) * a.stride - a.start)};
  }

  /// n neighbours of a row, the first of them element `first` of its cells.
  void emit_row(const Sum* const* row, int64_t line, int64_t first, int64_t n, T* dst,
                LineStream& out) const {
    constexpr int64_t kMost = LineStream::kShort / int64_t(sizeof(T));
    const int64_t step = shape_.plan.result.space[2];
    if (!is_streamed_ || step != 1) return put(row, line, first, n, dst, step);
    out.seek(dst);
    for (int64_t i = 0; i < n; i += kMost) {
      const int64_t m = std::min(kMost, n - i), bytes = m * int64_t(sizeof(T));
      put(row, line, first + i, m, reinterpret_cast<T*>(out.reserve()), 1);
      out.commit(bytes);
    }
  }

  void put(const Sum* const* row, int64_t line, int64_t first, int64_t n, T* dst,
           int64_t step) const {
    const int64_t s = f_.axis[2].stride;
    if (s == 1) return store_sums(dst, step, row[0] + line + first, n);
    if constexpr (std::is_same_v<T, Sum>) {
      if (step == 1) return join_phases(row, line, first, n, dst);
    }
    constexpr int64_t kMost = 512;
    Sum joined[kMost];
    for (int64_t i = 0; i < n; i += kMost) {
      const int64_t m = std::min(kMost, n - i);
      join_phases(row, line, first + i, m, joined);
      store_grads<T>(dst + i * step, step, joined, m);
    }
  }

  [[gnu::noinline]] void join_phases(const Sum* const* row, int64_t line, int64_t first, int64_t n,
                                     Sum* __restrict joined) const {
    const int64_t s = f_.axis[2].stride;
    const auto from = [&](int64_t e) { return row[e % s] + line + e / s; };
    int64_t i = 0;
    if (s == 2) {
      if (first % 2 != 0 && n > 0) joined[i++] = *from(first);
      const Sum* even = row[0] + line + (first + i) / 2;
      const Sum* odd = row[1] + line + (first + i) / 2;
      const int64_t pairs = (n - i) / 2;
      for (int64_t j = 0; j < pairs; ++j) {
        joined[i + 2 * j] = even[j];
        joined[i + 2 * j + 1] = odd[j];
      }
      i += 2 * pairs;
    }
    // Phase by phase, as a division for each element takes longer than all else.
    for (const int64_t end = std::min(n, i + s); i < end; ++i) {
      const Sum* next = from(first + i);
      for (int64_t j = i; j < n; j += s) joined[j] = *next++;
    }
  }

 protected:
  const BlockShape& shape_;
  const PoolPlan& f_;
  const T* grad_;
  T* result_;
  bool is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
