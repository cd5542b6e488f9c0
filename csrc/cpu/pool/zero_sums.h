// Whether sums of powers that are 0 are those of zeros alone: what is small enough loses its power
// to underflow, and such windows have to be summed again. Behind a ReLU many windows hold zeros.
#pragma once

#include <atomic>
#include <cmath>

#include "cpu/pool/strip_tasks.h"
#include "cpu/simd/lanes.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Looks at all of x, once, as soon as windows that were summed again have taken about as long.
/// Threads ask it side by side.
template <class T>
class ZeroSums {
 public:
  using V = Acc<T>;

  ZeroSums(const PoolPlan& plan, const T* x)
      : x_(x), count_(end_of_x(plan, x) - x), taps_(most_taps(plan, 3)), least_(least_of(plan.p)) {
    if (std::is_same_v<T, Float16> && least_ <= V(kLeastHalf)) {
      state_ = State::exact;
    } else if (count_ / 8 > input_bytes(plan) / int64_t(sizeof(T))) {
      state_ = State::unknown;  // x is a small part of the memory between its ends
    }
  }

  /// Whether they are, for one more such window; false as long as it is not known.
  bool are_exact() const {
    const State state = state_.load(std::memory_order_relaxed);
    return state == State::exact || (state == State::asked && look());
  }

 private:
  enum class State { asked, exact, unknown };
  static constexpr bool kIsWide = sizeof(V) == 8;
  static constexpr double kLeastHalf = 0x1p-24;  // the least positive element of 16 bits

  /// A power of two whose p-th power does not underflow, and so that of no larger element.
  static V least_of(uint32_t p) { return std::ldexp(V{1}, -int((kIsWide ? 1022 : 126) / p)); }

  [[gnu::noinline]] bool look() const {
    constexpr int64_t kTap = 64;  // elements in the time of a tap that is read again
    if (read_.fetch_add(taps_, std::memory_order_relaxed) < count_ / kTap) return false;
    State asked = State::asked;
    if (!state_.compare_exchange_strong(asked, State::unknown)) return asked == State::exact;
    if (has_small()) return false;
    state_ = State::exact;
    return true;
  }

  /// Whether an element is smaller and not 0; what lies in gaps may be taken for one.
  bool has_small() const {
    constexpr int64_t kStep = kLanes<V>, kBlock = 64 * kStep;
    const auto is_small = [&](const auto& v) {
      const auto size = v < 0 ? -v : v;
      return (size < least_) & (size != 0);
    };
    Pace pace;
    int64_t i = 0;
    for (; i + kBlock <= count_; i += kBlock) {
      auto found = is_small(load_floats(x_ + i));
      for (int64_t k = kStep; k < kBlock; k += kStep) found |= is_small(load_floats(x_ + i + k));
      for (int64_t lane = 0; lane < kStep; ++lane)
        if (found[lane]) return true;
      pace.add(kBlock);
    }
    for (; i < count_; ++i)
      if (is_small(load_as_acc(x_[i]))) return true;
    return false;
  }

  const T* const x_;
  const int64_t count_, taps_;  // elements of x with its gaps, of a window
  const V least_;
  mutable std::atomic<State> state_{State::asked};
  mutable std::atomic<int64_t> read_{0};
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
