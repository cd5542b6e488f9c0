// Vectors of float and double, and which of their lanes count.
#pragma once

#include <cmath>

#include "core/scalar.h"
#include "cpu/simd/copy.h"
#include "math/fused.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Floats = Vector<float>;
using HalfFloats = Vector<float, kVectorBytes / 2>;
using Doubles = Vector<double>;
using LaneIndices = Vector<int32_t>;
constexpr int64_t kFloats = kLanes<float>, kDoubles = kLanes<double>;

/// Which lanes of a vector stand for elements: all of them, or the first n.
struct Whole {};
struct Partial {
  int64_t n;
};

/// Calls fn(lanes) for the next of n elements.
template <class Fn>
inline void with_lanes(int64_t n, const Fn& fn) {
  if (n >= kFloats)
    fn(Whole{});
  else
    fn(Partial{n});
}

inline Floats broadcast(float value) { return all_lanes(value); }

// What is done with vectors is done with single numbers, too.
using cudml::fused;
inline double root(double v) { return std::sqrt(v); }
inline double as_doubles(float v) { return v; }
inline float as_floats(double v) { return static_cast<float>(v); }

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
