// Single elements in and out of the type they are computed in, by the conversions of vectors.
#pragma once

#include "cpu/simd/convert.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
inline Acc<T> load_float(const T* p) {
  if constexpr (std::is_same_v<T, Float16>)
    return widen_one(*p);
  else
    return load_as_acc(*p);
}

template <class T>
inline void store_float(T* p, Acc<T> value) {
  if constexpr (std::is_same_v<T, Float16>)
    *p = narrow_one(value);
  else
    *p = store_as<T>(value);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
