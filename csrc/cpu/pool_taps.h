// Windows of at most four taps, or of eight, over planes that lie side by side: every vector of
// outputs is joined and finished in registers, and stored where it belongs.
#pragma once

#include "cpu/pool_windows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op, class Finish>
class TapPool : ValuePool<Op, Finish> {
  using Base = ValuePool<Op, Finish>;
  using Base::finish, Base::op, Base::plan, Base::x, Base::y;
  using typename Base::T, typename Base::V;
  static constexpr int64_t kStep = kLanes<V>, kItem = sizeof(T);
  /// More taps are joined with less work along the rows first.
  static constexpr int64_t kMostTaps = 8;
  static constexpr int64_t kTaskBytes = 16384, kSinkBytes = 2048;

 public:
  static bool suits(const PoolPlan& p) {
    return p.x.batch[1] == 1 && p.y.batch[1] == 1 && p.batch[1] >= kStep && p.axis[2].out > 1 &&
           (most_taps(p, 3) <= 4 || most_taps(p, 3) == kMostTaps);
  }

  /// A task for each row of outputs, or for a part of it where that is long.
  static TaskSpace tasks(const PoolPlan& p) {
    TaskSpace space = make_tasks(p, Lane::none, 1);
    const int64_t n = part_of_row(p);
    space.dim[kSpaceDim + 2] = {(p.axis[2].out + n - 1) / n, 0, p.y.space[2] * n, 0, 0};
    space.dim[kBatchDim + 1] = TaskDim{};
    return space;
  }

  TapPool(const Base& base, bool streamed)
      : Base(base),
        streamed_(streamed),
        fetches_(is_streamed(input_bytes(plan))),
        part_(part_of_row(plan)),
        sink_(y, streamed) {}

  void operator()(const Task& task) {
    rows_.taps[0] = axis_taps(plan.axis[0], task.space(0));
    rows_.find(plan, x + task.x, task.space(1));
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
    int64_t windows, taps, x_step, y_step, lanes;
    const T* at[kMostTaps];
    T* to;
    const char* next;      // what is read soon, `ahead` bytes for every window
    int64_t ahead, plane;  // plane: bytes from there to the second plane of windows, or 0
  };

  static int64_t part_of_row(const PoolPlan& p) {
    return even_part(p.axis[2].out, std::max<int64_t>(1, kTaskBytes / (p.batch[1] * kItem)));
  }

  /// Outputs [o, o + n) of a row, which see as many taps; they stand from element `at` of y on.
  void windows(int64_t o, int64_t n, int64_t at) {
    const PoolAxis &h = plan.axis[1], &w = plan.axis[2];
    const AxisTaps taps = axis_taps(w, o);
    const int64_t pitch = plan.x.space[2];
    Run run{n, 0, w.stride * pitch, plan.y.space[2], plan.batch[1], {}, y + at, nullptr, 0, 0};
    for (int64_t r = 0; r < rows_.count; ++r)
      for (int64_t k = 0; k < taps.count; ++k)
        run.at[run.taps++] = rows_.at[r] + (taps.begin + k * w.dilation) * pitch;
    const auto last = finish.of_count(plan.include_padding ? rows_.inside() * double(taps.inside)
                                                           : double(run.taps));
    if (fetches_ && run.taps > 0) {  // rows that the next task covers newly, from front to back
      const PoolAxis& d = plan.axis[0];
      run.ahead = h.stride * w.stride * pitch * kItem;
      run.plane = d.stride > 1 ? d.dilation * plan.x.space[0] * kItem : 0;
      run.next =
          reinterpret_cast<const char*>(rows_.at[0] + h.stride * plan.x.space[1]) + o * run.ahead;
    }
    const int64_t step = run.y_step * kItem, bytes = run.lanes * kItem;
    const bool in_lines = ((bytes_to_line(run.to) | step | bytes) & 63) == 0;
    if (!streamed_ || bytes > Sink<T>::kPiece * kItem) return join(run, last);
    if (in_lines && run.taps == 4) return join_windows<4, true>(run, last);
    const bool side_by_side = run.y_step == run.lanes;
    const int64_t most = side_by_side ? std::max<int64_t>(1, kSinkBytes / bytes) : 1;
    for (int64_t i = 0; i < n; i += most, at += most * run.y_step) {
      run.windows = std::min(most, n - i);
      run.to = sink_.room(at, run.windows * run.lanes);
      join(run, last);
      for (int64_t k = 0; k < run.taps; ++k) run.at[k] += most * run.x_step;
      run.next += most * run.ahead;
    }
  }

  template <class Last>
  void join(const Run& run, const Last& last) const {
    if (run.taps == 4) return join_windows<4, false>(run, last);
    if (run.taps == 8) return join_windows<8, false>(run, last);
    if (run.taps > 0) return join_windows<0, false>(run, last);
    for (int64_t n = 0; n < run.windows; ++n)
      for (int64_t i = 0; i < run.lanes; i += kStep)
        op.store(run.to + n * run.y_step + std::min(i, run.lanes - kStep), all_lanes(Op::none()));
  }

  template <int kTaps, bool kPast, class Last>
  [[gnu::noinline]] void join_windows(const Run& run, Last last) const {
    const Op op = this->op;
    const int64_t taps = kTaps ? kTaps : run.taps, lanes = run.lanes;
    const T* at[kMostTaps];
    std::copy_n(run.at, kMostTaps, at);
    T* to = run.to;
    const char* next = run.next;
    const int64_t ahead = run.ahead / ((lanes + kStep - 1) / kStep), plane = run.plane;
    const auto put = [&](int64_t i) {
      auto v = op.load(at[0] + i);
#pragma GCC unroll 8
      for (int64_t k = 1; k < taps; ++k) v = Op::join(v, op.load(at[k] + i));
      v = last(v);
      if constexpr (kPast)
        store_past(op, to + i, v);
      else
        op.store(to + i, v);
    };
    for (int64_t n = run.windows; n > 0; --n, to += run.y_step) {
      int64_t i = 0;
      for (; i + kStep <= lanes; i += kStep) {
        for (int64_t j = 0; j < ahead; j += 64) {
          __builtin_prefetch(next + j, 0, 2);
          if constexpr (kTaps == kMostTaps) __builtin_prefetch(next + plane + j, 0, 2);
        }
        next += ahead;
        put(i);
      }
      if (i < lanes) put(lanes - kStep);
#pragma GCC unroll 8
      for (int64_t k = 0; k < taps; ++k) at[k] += run.x_step;
    }
  }

  const bool streamed_, fetches_;
  const int64_t part_;
  StripRows<T> rows_;
  Sink<T> sink_;
};

template <class Op, class Finish>
void pool_taps(const ValuePool<Op, Finish>& base) {
  const TaskSpace space = TapPool<Op, Finish>::tasks(base.plan);
  const bool streamed = is_streamed(base.plan.outputs() * int64_t(sizeof(*base.y)));
  parallel_for(space.count(), work_bytes(base.plan), [&](int64_t begin, int64_t end) {
    TapPool<Op, Finish> taps(base, streamed);
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { taps(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
