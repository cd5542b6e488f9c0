// Max pooling without indices on the CPU.
#include "cpu/pool/parts.h"
#include "cpu/pool/values.h"

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

/// Calls fn(op) with how elements of a type are compared.
template <class Fn>
void with_maximum(Dtype dtype, const Fn& fn) {
  visit(dtype, AllTypes{}, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      fn(MaxOf<T>{});
    else if constexpr (kIsHalf<T>)
      fn(halves_of(std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80));
    else
      fn(integers_of<T>());
  });
}

}  // namespace

void max_values(const PoolPlan& plan, ValuePath path, const void* x, void* y) {
  with_maximum(plan.dtype, [&](auto op) { pool_values(plan, path, op, MaxFinish{}, x, y); });
}

}  // namespace cudml::cpu::CUDML_ISA
