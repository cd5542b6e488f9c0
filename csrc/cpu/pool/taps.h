// Windows of at most four taps, of eight, or of 3 x 3, over planes that lie side by side: every
// vector of outputs is joined and finished in registers, and stored where it belongs.
#pragma once

#include "cpu/isa/processor.h"
#include "cpu/memory/sink.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/value_pool.h"
#include "cpu/pool/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Outputs of a row that one task takes.
inline int64_t part_of_row(const PoolPlan& p) {
  const int64_t column = p.batch[1] * int64_t(size_of(p.dtype));
  return even_part(p.axis[2].out, std::max<int64_t>(1, tuning::pool::kTaskBytes / column));
}

/// A task for each row of outputs, or for a part of it where that is long.
inline TaskSpace tap_tasks(const PoolPlan& p) {
  TaskSpace space = make_tasks(p, Lane::none, 1);
  const int64_t n = part_of_row(p);
  space.dim[kSpaceDim + 2] = {(p.axis[2].out + n - 1) / n, 0, p.y.space[2] * n, 0, 0};
  space.dim[kBatchDim + 1] = TaskDim{};
  return space;
}

template <class Op, class Finish>
class TapPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V;
  static constexpr int64_t kStep = kLanes<V>, kItem = sizeof(T), kMostJoined = 9;
  static constexpr int64_t kSinkBytes = tuning::pool::kSinkBytes;
  static constexpr int64_t kNear = tuning::pool::kNearBytes, kLong = tuning::pool::kLongBytes;

 public:
  explicit TapPool(const Base& base)
      : Base(base),
        streamed_(is_streamed(plan.outputs() * kItem)),
        fetches_(is_read_ahead(plan) && (is_told_of_pixels() || !has_long_rows())),
        part_(part_of_row(plan)),
        near_(fetches_ && has_long_rows()),
        fetched_((near_ ? window_step() : newly_covered(plan.axis[1]) * pixels_step()) / vectors()),
        sink_(y, streamed_) {}

  void operator()(const Task& task) {
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    rows_.find(plan, x + task.x, task.space(1));
    if (fetches_) find_streams();
    const PoolAxis& w = plan.axis[2];
    const int64_t first = task.space(2) * part_, end = std::min(first + part_, w.out);
    const Interior whole = interior_of(w, first, end);
    for (int64_t o = first; o < end;) {
      const int64_t n = o == whole.from && whole.to > o ? whole.to - o : 1;
      windows(o, n, task.y + (o - first) * plan.y.space[2]);
      o += n;
    }
  }

 private:
  /// Windows next to each other that see as many taps, and where their outputs go.
  struct Run {
    int64_t windows, taps, rows, x_step, y_step, lanes;
    const T* at[kMostJoined];  // column by column
    T* to;
    int64_t from = 0;  // elements from `at` to the first window
    int64_t next = 0;  // bytes from where the streams begin to what is fetched for it
  };

  int64_t vectors() const { return (plan.batch[1] + kStep - 1) / kStep; }
  /// Bytes from a window to the next.
  int64_t window_step() const { return plan.axis[2].stride * plan.x.space[2] * kItem; }
  /// Bytes of a row that a window is the first to cover.
  int64_t pixels_step() const { return newly_covered(plan.axis[2]) * plan.x.space[2] * kItem; }

  /// Windows of two columns that share none, in rows that are together longer than what can be
  /// fetched at once; two lines of a row make a vector of outputs.
  bool has_long_rows() const {
    const PoolAxis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
    const int64_t rows = d.window * h.window;
    return w.window == 2 && w.stride >= 2 && (rows == 2 || rows == 4) && d.stride >= d.window &&
           h.stride >= h.window && window_step() >= vectors() && window_step() <= 128 * vectors() &&
           rows * w.out * window_step() > kLong;
  }

  /// Of 16 bits, and of fewer bytes, pixels take no less where a processor foresees them.
  bool is_told_of_pixels() const {
    const int64_t pixel = plan.x.space[2] * kItem;
    return kItem < 4 || pixel < 128 || processor.is_told_of_pieces(pixel);
  }

  /// Where what is fetched with the outputs begins: the rows of taps, or what follows them from
  /// front to back, for each of their planes.
  void find_streams() {
    const int64_t next = near_ ? 0 : plan.axis[1].stride * plan.x.space[1];
    streams_ = 0;
    for (int64_t r = 0; r < rows_.count; r += near_ ? 1 : rows_.taps[1].count)
      stream_[streams_++] = reinterpret_cast<const char*>(rows_.at[r] + next);
  }

  /// Aims at what is fetched for windows from output o on. Near: kNear bytes on in all streams
  /// together, and behind the ends of rows in those of the next task, where the run is cut.
  void aim(int64_t o, Run& run) const {
    const int64_t step = fetched_ * vectors();
    run.next = o * step;
    if (!near_ || streams_ == 0) return;
    const int64_t ahead = (kNear / streams_ + step - 1) / step, left = plan.axis[2].out - o;
    run.next += ahead * step;
    if (ahead < left)
      run.windows = std::min(run.windows, left - ahead);
    else
      run.next += plan.axis[1].stride * plan.x.space[1] * kItem - plan.axis[2].out * step;
  }

  /// Outputs [o, o + n) of a row, which see as many taps; they stand from element `at` of y on.
  void windows(int64_t o, int64_t n, int64_t at) {
    const PoolAxis& w = plan.axis[2];
    const AxisTaps taps = axis_taps(w, o);
    const int64_t pitch = plan.x.space[2];
    Run run{n, 0, rows_.count, w.stride * pitch, plan.y.space[2], plan.batch[1], {}, nullptr};
    for (int64_t k = 0; k < taps.count; ++k)
      for (int64_t r = 0; r < rows_.count; ++r)
        run.at[run.taps++] = rows_.at[r] + (taps.begin + k * w.dilation) * pitch;
    const auto last = finish.of_count(plan.include_padding ? rows_.inside() * double(taps.inside)
                                                           : double(run.taps));
    const bool sinks = streamed_ && run.lanes <= Sink<T>::kPiece;
    int64_t most = n;
    if (sinks) most = run.y_step == run.lanes ? 1 + (kSinkBytes - 1) / (run.lanes * kItem) : 1;
    for (int64_t i = 0; i < n; i += run.windows, at += run.windows * run.y_step) {
      run.windows = std::min(most, n - i);
      aim(o + i, run);
      run.to = sinks ? sink_.room(at, run.windows * run.lanes) : y + at;
      join(run, last);
      run.from += run.windows * run.x_step;
    }
  }

  template <class Last>
  void join(const Run& run, const Last& last) const {
    // One row, or one column, is a single chain; so is what is joined in any order.
    const int64_t rows = Op::kRepeats || run.rows == run.taps ? 1 : run.rows;
    if (run.taps == 4) return join_of<4>(rows, run, last);
    if (run.taps == 8) return join_of<8>(rows, run, last);
    if constexpr (!Op::kRepeats)
      if (run.taps == 9 && rows == 3) return join_of<9>(rows, run, last);
    if (run.taps > 0) return join_of<0>(rows, run, last);
    for (int64_t n = 0; n < run.windows; ++n)
      for (int64_t i = 0; i < run.lanes; i += kStep)
        op.store(run.to + n * run.y_step + std::min(i, run.lanes - kStep), all_lanes(Op::none()));
  }

  template <int kTaps, class Last>
  void join_of(int64_t rows, const Run& run, const Last& last) const {
    if constexpr (!Op::kRepeats) {
      if (kTaps == 0 && rows > 1) return join_windows<0, 0>(run, last);
      if (kTaps > 0 && rows == 2) return join_windows<kTaps, 2>(run, last);
      if (kTaps == 8 && rows == 4) return join_windows<kTaps, 4>(run, last);
      if (kTaps == 9) return join_windows<kTaps, 3>(run, last);
    }
    join_windows<kTaps, 1>(run, last);
  }

  /// kTaps and kRows: how many they are, or 0 for those given.
  template <int kTaps, int kRows, class Last>
  [[gnu::noinline]] void join_windows(const Run& run, Last last) const {
    const Op op = this->op;
    const int64_t taps = kTaps ? kTaps : run.taps, lanes = run.lanes;
    const int64_t rows = kRows ? kRows : run.rows;
    const T* at[kMostJoined];
    const char* stream[kMostJoined];
    std::copy_n(run.at, kMostJoined, at);
    std::copy_n(stream_, kMostJoined, stream);
    // Four or eight taps are two halves alike, nine are three thirds.
    constexpr int kPart = kTaps == 9 ? 3 : kTaps / 2;
    const int64_t part = kTaps > 0 ? at[kPart] - at[0] : 0;
    T* to = run.to;
    int64_t from = run.from, next = run.next;
    const int64_t ahead = streams_ > 0 ? fetched_ : 0;
    const bool near = kTaps > 0 && near_, two = kTaps == 8 && streams_ > 1;
    for (int64_t n = run.windows; n > 0; --n, to += run.y_step, from += run.x_step)
      for (int64_t j = 0; j < lanes; j += kStep) {
#pragma GCC unroll 8
        for (int64_t s = 0; near && s < kTaps / 2; ++s) {
          __builtin_prefetch(stream[s] + next, 0, 3);
          __builtin_prefetch(stream[s] + next + 64, 0, 3);
        }
        for (int64_t b = 0; !near && b < ahead; b += 64) {
          __builtin_prefetch(stream[0] + next + b, 0, 2);
          if (two) __builtin_prefetch(stream[1] + next + b, 0, 2);
        }
        next += ahead;
        const int64_t i = std::min(j, lanes - kStep);
        const auto tap = [&](int64_t k) __attribute__((always_inline)) {
          if constexpr (kTaps > 0)
            return op.load(at[k % kPart] + (from + i + k / kPart * part));
          else
            return op.load(at[k] + (from + i));
        };
        const auto column = [&](int64_t k) __attribute__((always_inline)) {
          auto v = tap(k);
#pragma GCC unroll 4
          for (int64_t r = 1; r < rows; ++r) v = Op::join(v, tap(k + r));
          return v;
        };
        auto v = column(0);
#pragma GCC unroll 8
        for (int64_t k = rows; k < taps; k += rows) v = Op::join(v, column(k));
        op.store(to + i, last(v));
      }
  }

  const bool streamed_, fetches_;
  const int64_t part_;
  const bool near_;
  const int64_t fetched_;  // bytes of each stream for a vector of outputs
  StripRows<T> rows_;
  int64_t streams_ = 0;
  const char* stream_[kMostJoined] = {};
  Sink<T> sink_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
