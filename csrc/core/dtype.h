// The element types: one table from which enum, names, C++ types and dispatch follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/check.h"
#include "core/scalar.h"

namespace cudml {

// name, C++ type that stores one element
#define CUDML_DTYPES(ENTRY) \
  ENTRY(float32, float)     \
  ENTRY(float16, Float16)   \
  ENTRY(bfloat16, BFloat16) \
  ENTRY(float64, double)    \
  ENTRY(uint8, uint8_t)     \
  ENTRY(uint16, uint16_t)   \
  ENTRY(uint32, uint32_t)   \
  ENTRY(uint64, uint64_t)   \
  ENTRY(int8, int8_t)       \
  ENTRY(int16, int16_t)     \
  ENTRY(int32, int32_t)     \
  ENTRY(int64, int64_t)

enum class Dtype : uint8_t {
#define ENTRY(name, type) name,
  CUDML_DTYPES(ENTRY)
#undef ENTRY
};

template <class T>
inline constexpr Dtype dtype_of = [] {
#define ENTRY(name, type) \
  if constexpr (std::is_same_v<T, type>) return Dtype::name;
  CUDML_DTYPES(ENTRY)
#undef ENTRY
}();

constexpr size_t size_of(Dtype dtype) {
  switch (dtype) {
#define ENTRY(name, type) \
  case Dtype::name: return sizeof(type);
    CUDML_DTYPES(ENTRY)
#undef ENTRY
  }
  return 0;
}

constexpr const char* name_of(Dtype dtype) {
  switch (dtype) {
#define ENTRY(name, type) \
  case Dtype::name: return #name;
    CUDML_DTYPES(ENTRY)
#undef ENTRY
  }
  return "";
}

constexpr bool is_float(Dtype dtype) { return dtype <= Dtype::float64; }

template <class... Ts>
struct Types {};

using FloatTypes = Types<float, Float16, BFloat16, double>;
using AllTypes = Types<float, Float16, BFloat16, double, uint8_t, uint16_t, uint32_t, uint64_t,
                       int8_t, int16_t, int32_t, int64_t>;

/// Throws TypeError. No template and not inline, so that no instruction set has a copy of its own.
[[noreturn]] void refuse_dtype(Dtype dtype);

/// Calls fn.operator()<T>() with the T of `Types` that stands for `dtype`.
template <class... Ts, class Fn>
void visit(Dtype dtype, Types<Ts...>, Fn&& fn) {
  const bool found = ((dtype == dtype_of<Ts> && (fn.template operator()<Ts>(), true)) || ...);
  if (!found) refuse_dtype(dtype);
}

}  // namespace cudml
