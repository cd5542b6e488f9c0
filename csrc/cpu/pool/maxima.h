// How elements of each type are compared for their maximum.
#pragma once

#include "cpu/pool/reduce.h"

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
inline MaxOfIntegers<int16_t> halves_of(uint16_t infinity) {
  MaxOfIntegers<int16_t> op;
  op.magnitude = 0x7fff;
  op.turn = uint16_t(0x7fff - infinity);
  return op;
}

/// Calls fn(op) with how elements of a type, one of `types`, are compared.
template <class Among, class Fn>
void with_maximum(Dtype dtype, Among types, const Fn& fn) {
  visit(dtype, types, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      fn(MaxOf<T>{});
    else if constexpr (kIsHalf<T>)
      fn(halves_of(std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80));
    else
      fn(integers_of<T>());
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
