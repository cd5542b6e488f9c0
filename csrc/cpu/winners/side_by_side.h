// Winners of one window for each of many neighbouring planes.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/winners/winner_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window for each of many neighbouring planes.
template <class T>
class LaneWinners : WinnerPool<T> {
  using Base = WinnerPool<T>;
  using Base::plan, Base::put_tap, Base::x;
  using typename Base::K;

 public:
  using Total = Winner;
  static constexpr Lane kLane = Lane::batch;
  static constexpr int64_t kChunk = tuning::winners::kLanesAtOnce, kRun = 1 << 20;
  static constexpr bool kHasOrder = false;
  explicit LaneWinners(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return first_winner(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total totals[kChunk];
    if (box.taps > 0) piece(task, box, 0, box.taps, totals);
    store(task, box, totals);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* totals) const {
    K best[kChunk], tap[kChunk], keys[kChunk];
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t taps = std::min(kRun, end - f);
      for (int64_t i = 0; i < task.n; ++i) tap[i] = -1;
      for (int64_t i = 0; i < task.n; ++i) best[i] = 0;
      for (int64_t t = 0; t < taps; ++t, at.advance(1)) {
        key_row(keys, x + task.x + at.offset(), 1, task.n);
        offer(keys, 1, K(t), best, tap, task.n);
        pace.add(task.n);
      }
      for (int64_t i = 0; i < task.n; ++i) {
        const Total run{best[i], f + tap[i]};
        totals[i] = first ? run : combine(totals[i], run);
      }
      f += taps;
    }
  }

  void store(const Task& task, const Box& box, const Total* totals) const {
    Task at = task;
    for (int64_t i = 0; i < task.n; ++i) {
      put_tap(box, box.taps ? totals[i].tap : 0, at);
      at.x += plan.x.batch[1];
      at.y += plan.y.batch[1];
      at.indices += plan.indices.batch[1];
      at.flat += plan.flat.batch[1];
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
