// What parts of cells add up to, while the cells' statistics are known or not.
#pragma once

#include "cuda/mvn_grad_generic.cuh"
#include "cuda/mvn_grad_parts.h"

namespace cudml::cuda {

/// Quotients of numbers of any size.
struct MvnGradSplit {
  int64_t divisor;
  FastDiv fast;

  explicit MvnGradSplit(int64_t d) : divisor(d), fast(uint32_t(d < INT32_MAX ? d : 1)) {}

  __device__ __forceinline__ int64_t quotient(int64_t n) const {
    return (n | divisor) < INT32_MAX ? int64_t(fast.quotient(uint32_t(n))) : n / divisor;
  }
};

/// Sums over one part of y and y^2, of h and h * y; where scale changes inside a part, w takes the
/// place of h. y is x - pivot as long as the statistics are not known, later z: the pivot is NaN
/// then.
struct MvnGradPart {
  double y = 0, square = 0, h = 0, hy = 0;
  float pivot = 0;
  uint32_t count = 0;  // elements

  __device__ __forceinline__ bool has_z() const { return pivot != pivot; }

  /// The same about another pivot. No difference is left alone, as infinite sums have to be.
  __device__ __forceinline__ void move(float to) {
    const double d = double(pivot) - double(to);
    pivot = to;
    if (d == 0) return;
    square += (2 * y + d * count) * d;
    y += d * count;
    hy += d * h;
  }

  __device__ __forceinline__ double hz(const Normalizer<float>& normal) const {
    if (has_z()) return hy;
    const double shift = (double(pivot) - double(normal.pivot)) - double(normal.delta);
    return double(normal.factor) * (hy + shift * h);
  }

  /// Whether sums about the pivot tell those of z: infinities leave no sign, and no zero.
  __device__ __forceinline__ bool tells_z(const Normalizer<float>& normal) const {
    return is_finite(h) && is_finite(hy) && is_finite(normal.pivot) && is_finite(normal.delta) &&
           is_finite(normal.factor);
  }
};
static_assert(sizeof(MvnGradPart) == kMvnGradPartBytes);

/// Which sums a pass over the parts makes.
enum class MvnGradPass : uint8_t {
  moments,   // of y alone
  together,  // all four, about pivots
  products,  // of h and h * z
  rest,      // the same for the parts of which `together` does not tell them
};

/// Sums of a thread's elements, some of them in float at a time: two of each, so that additions
/// need not wait for each other.
struct MvnGradThreadSums {
  float y[2] = {}, square[2] = {}, h[2] = {}, hy[2] = {};

  template <int kN>
  __device__ __forceinline__ void add(const float (&values)[kN], const float (&with)[kN],
                                      bool has_moments) {
    if (has_moments) {
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        y[e % 2] += values[e];
        square[e % 2] = fused(values[e], values[e], square[e % 2]);
      }
    }
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      h[e % 2] += with[e];
      hy[e % 2] = fused(with[e], values[e], hy[e % 2]);
    }
  }

  __device__ __forceinline__ void drain(MvnGradPart& part) {
    part.y += double(y[0] + y[1]);
    part.square += double(square[0] + square[1]);
    part.h += double(h[0] + h[1]);
    part.hy += double(hy[0] + hy[1]);
    *this = {};
  }
};

}  // namespace cudml::cuda
