// Max pooling with indices on the CPU by the path that is told: the first of the largest taps, in
// visiting order.
#include "cpu/winners/winners.h"

#include "cpu/pool/maxima.h"
#include "cpu/winners/lane_taps.h"
#include "cpu/winners/plain.h"
#include "cpu/winners/plain_pairs.h"
#include "cpu/winners/planes.h"
#include "cpu/winners/shape.h"
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

/// A path of strips, for elements it has loops for.
template <template <class> class Pool, bool kHas = true, class T>
void run_strips(const WinnerPool<T>& w) {
  if constexpr (kHas) {
    const auto lanes = lanes_of<T>();
    using Op = std::remove_const_t<decltype(lanes)>;
    using E = typename Op::Element;
    const StripShape shape = winner_shape(w.plan);
    run_pools<Pool<Op>>(w.plan, strip_tasks(w.plan, shape), w.plan, lanes, shape,
                        reinterpret_cast<const E*>(w.x), reinterpret_cast<E*>(w.y), w.indices);
  }
}

/// The lanes of planes side by side: of 16-bit floats as bits, which their values are, too.
template <class T>
auto neighbours_of() {
  if constexpr (kIsHalf<T>)
    return HalfLanes{std::is_same_v<T, Float16> ? int16_t{0x7c00} : int16_t{0x7f80}};
  else
    return lanes_of<T>();
}

template <class T>
void run_lane_taps(const WinnerPool<T>& w) {
  if constexpr (kHasWideVectors || kIsHalf<T>) {
    const auto op = neighbours_of<T>();
    using Op = std::remove_const_t<decltype(op)>;
    using E = typename Op::Element;
    const E* x = reinterpret_cast<const E*>(w.x);
    E* y = reinterpret_cast<E*>(w.y);
    if (w.plan.index_dtype == Dtype::uint32)
      LaneTapWinners<Op, uint32_t>(w.plan, op, x, y, w.indices).run();
    else
      LaneTapWinners<Op, int64_t>(w.plan, op, x, y, w.indices).run();
  }
}

void run_planes(const PoolPlan& plan, const void* x, void* y, void* indices) {
  with_maximum(plan.dtype, AllTypes{}, [&]<class Op>(const Op& op) {
    using E = typename Op::Element;
    const WinnerPool<E> base{plan, static_cast<const E*>(x), static_cast<E*>(y), indices};
    const TaskSpace space = make_tasks(plan, Lane::batch, tuning::pool::kPlanesAtOnce);
    run_pools<PlaneWinners<Op>>(plan, space, op, base);
  });
}

}  // namespace

void max_winners(const PoolPlan& plan, WinnerPath path, const void* x, void* y, void* indices) {
  if (path == WinnerPath::planes) return run_planes(plan, x, y, indices);
  visit(plan.dtype, AllTypes{}, [&]<class T>() {
    constexpr bool kIsFolded = kIsFloat<T> && sizeof(T) <= 4;
    constexpr bool kIsPlain = kIsFolded && (kHasWideVectors || sizeof(T) == 4);
    const WinnerPool<T> base{plan, static_cast<const T*>(x), static_cast<T*>(y), indices};
    switch (path) {
      case WinnerPath::plain_pairs: return run_strips<PlainPairWinners, kIsPlain>(base);
      case WinnerPath::pairs: return run_strips<PairWinners, kIsFolded>(base);
      case WinnerPath::lane_taps: return run_lane_taps(base);
      case WinnerPath::strips: return run_strips<LineWinners>(base);
      case WinnerPath::side_by_side: return run_windows(LaneWinners<T>(base), plan);
      default: return run_windows(WindowWinners<T>(base), plan);
    }
  });
}

}  // namespace cudml::cpu::CUDML_ISA
