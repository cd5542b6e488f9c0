// Max pooling with indices on the CPU by the path that is told: the first of the largest taps, in
// visiting order.
#include "cpu/winners/winners.h"

#include "cpu/winners/plain.h"
#include "cpu/winners/side_by_side.h"
#include "cpu/winners/strips.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The lanes that hold elements T. Types of one size share their code.
template <class T>
auto lanes_of() {
  if constexpr (kIsFloat<T>) {
    return WinnerLanes<T>{};
  } else {
    WinnerIntegers<std::make_signed_t<T>> op;
    using U = std::make_unsigned_t<T>;
    if constexpr (std::is_unsigned_v<T>) op.flip = U(1) << (sizeof(T) * 8 - 1);
    return op;
  }
}

template <class T>
StripShape strips_of(const PoolPlan& plan) {
  return winner_shape<decltype(lanes_of<T>())>(plan);
}

}  // namespace

bool winners_have(const PoolPlan& plan, WinnerPath path) {
  if (path == WinnerPath::side_by_side) return fits_lanes(plan);
  bool has = true;
  if (path == WinnerPath::strips)
    visit(plan.dtype, AllTypes{}, [&]<class T>() { has = strips_of<T>(plan).fits(); });
  return has;
}

void max_winners(const PoolPlan& plan, WinnerPath path, const void* x, void* y, void* indices) {
  visit(plan.dtype, AllTypes{}, [&]<class T>() {
    if (path == WinnerPath::strips)
      return winners_of_strips(plan, lanes_of<T>(), strips_of<T>(plan), x, y, indices);
    const WinnerPool<T> base{plan, static_cast<const T*>(x), static_cast<T*>(y), indices};
    if (path == WinnerPath::side_by_side) return run_windows(LaneWinners<T>(base), plan);
    run_windows(WindowWinners<T>(base), plan);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
