// Max pooling without indices on the CPU.
#include "cpu/pool/parts.h"
#include "cpu/pool/strip_values.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements that are compared as integers of their size S. Types of one size share their code.
template <class T>
MaxOfIntegers<std::make_signed_t<T>> integers_of() {
  using S = std::make_signed_t<T>;
  MaxOfIntegers<S> op;
  if constexpr (std::is_unsigned_v<T>) op.turn = std::make_unsigned_t<S>(1) << (sizeof(T) * 8 - 1);
  return op;
}

/// `infinity` holds the bits of +infinity.
MaxOfIntegers<int16_t> halves_of(uint16_t infinity) {
  MaxOfIntegers<int16_t> op;
  op.magnitude = 0x7fff;
  op.turn = uint16_t(0x7fff - infinity);
  return op;
}

}  // namespace

void max_values(const PoolPlan& plan, const void* x, void* y) {
  visit(plan.dtype, AllTypes{}, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      pool_values(plan, MaxOf<T>{}, MaxFinish{}, x, y);
    else if constexpr (kIsHalf<T>)
      pool_values(plan, halves_of(std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80), MaxFinish{}, x, y);
    else
      pool_values(plan, integers_of<T>(), MaxFinish{}, x, y);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
