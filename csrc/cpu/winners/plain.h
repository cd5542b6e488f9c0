// Winners of one window after the other; takes any plan.
#pragma once

#include "cpu/winners/winner_pool.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One window at a time; takes any plan. A run of taps is searched for its winner only where its
/// maximum says that there is one.
template <class T>
class WindowWinners : WinnerPool<T> {
  using Base = WinnerPool<T>;
  using Base::plan, Base::put_tap, Base::x;
  using typename Base::K;

 public:
  using Total = Winner;
  static constexpr Lane kLane = Lane::none;
  static constexpr int64_t kChunk = 1;
  static constexpr bool kHasOrder = false;
  explicit WindowWinners(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return first_winner(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total total{};
    if (box.taps > 0) piece(task, box, 0, box.taps, &total);
    store(task, box, &total);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* total) const {
    K keys[kRowElements];
    TapCursor at(box, f);
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kRowElements, end - f, at.left_in_row()});
      key_row(keys, x + task.x + at.offset(), box.x_step[2], n);
      const K best = join_span(MaxOfIntegers<K>{}, keys, n);
      if (first || wins<int64_t>(total->key, best)) {
        int64_t i = 0;
        while (keys[i] != best) ++i;
        *total = {best, f + i};
      }
      at.advance(n);
      f += n;
      pace.add(n);
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    put_tap(box, total->tap, task);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
