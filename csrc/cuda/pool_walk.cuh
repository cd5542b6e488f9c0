// Outputs and windows of pooling as a thread sees them, in 32 or 64 bits.
#pragma once

#include "core/fast_div.h"
#include "cuda/pool_launch.cuh"
#include "cuda/vector.cuh"

namespace cudml::cuda {

/// What a kernel reads of a plan, offsets and coordinates in Int.
template <class Int>
struct PoolShape {
  PoolAxisOf<Int> axis[3];
  PoolStridesOf<Int> x, y, indices, flat;
  Int x_step[3], flat_step[3];  // from tap to tap
  int64_t first_flat = 0;       // the index of the first element of this launch (D-MAX-1)
  uint32_t p = 2;
  bool include_padding = false, wide_indices = false;
};

template <class Int>
PoolStridesOf<Int> strides_as(const PoolStrides& s) {
  return {{Int(s.batch[0]), Int(s.batch[1])}, {Int(s.space[0]), Int(s.space[1]), Int(s.space[2])}};
}

template <class Int>
PoolShape<Int> shape_of(const PoolCall& call) {
  const PoolPlan& p = call.plan;
  PoolShape<Int> shape;
  for (int i = 0; i < 3; ++i) {
    const PoolAxis& a = p.axis[i];
    shape.axis[i] = {Int(a.in),    Int(a.out), Int(a.window),  Int(a.stride),
                     Int(a.start), Int(a.end), Int(a.dilation)};
    // A step that leaves the input is never made, and might not fit.
    shape.x_step[i] = a.dilation < a.in ? Int(a.dilation * p.x.space[i]) : Int{0};
    shape.flat_step[i] = a.dilation < a.in ? Int(a.dilation * p.flat.space[i]) : Int{0};
  }
  shape.x = strides_as<Int>(p.x);
  shape.y = strides_as<Int>(p.y);
  shape.indices = strides_as<Int>(p.indices);
  shape.flat = strides_as<Int>(p.flat);
  shape.first_flat = call.first_flat;
  shape.p = p.p;
  shape.include_padding = p.include_padding;
  shape.wide_indices = p.index_dtype != Dtype::uint32;
  return shape;
}

/// Coordinates of an output.
template <class Int>
struct PoolPlaceOf {
  Int batch[2], space[3];

  __device__ __forceinline__ Int plane(const PoolStridesOf<Int>& s) const {
    return batch[0] * s.batch[0] + batch[1] * s.batch[1];
  }
  __device__ __forceinline__ Int offset(const PoolStridesOf<Int>& s) const {
    return plane(s) + space[0] * s.space[0] + space[1] * s.space[1] + space[2] * s.space[2];
  }
};

/// How the number of an output falls apart into coordinates: neighbouring threads take neighbouring
/// columns, or planes where those are closer together. `lane` and `plane` share the inner batch
/// dimension; one of them is 1.
struct OutputOrder {
  FastDiv lane, width, height, depth, plane;

  __device__ __forceinline__ PoolPlaceOf<int32_t> place(uint32_t n) const {
    PoolPlaceOf<int32_t> at;
    uint32_t rest = n;
    const auto take = [&rest](const FastDiv& size) {
      const uint32_t quotient = size.quotient(rest), taken = rest - quotient * size.divisor;
      rest = quotient;
      return int32_t(taken);
    };
    const int32_t in_lane = take(lane);
    at.space[2] = take(width);
    at.space[1] = take(height);
    at.space[0] = take(depth);
    at.batch[1] = in_lane + take(plane);
    at.batch[0] = int32_t(rest);
    return at;
  }
};

inline OutputOrder order_of(const PoolPlan& plan) {
  const auto planes = FastDiv(uint32_t(plan.batch[1]));
  const bool lanes = planes_are_closest(plan);
  const auto outputs = [&](int i) { return FastDiv(uint32_t(plan.axis[i].out)); };
  return {lanes ? planes : FastDiv(1), outputs(2), outputs(1), outputs(0),
          lanes ? FastDiv(1) : planes};
}

/// The real taps of one window: a box of count[0] x count[1] x count[2] taps whose first one stands
/// at `x` and `flat`. Per axis, `inside` taps lie in the padded extent.
template <class Int>
struct PoolWindow {
  Int count[3], inside[3], x_step[3], flat_step[3];
  Int x, flat;

  __device__ __forceinline__ bool is_empty() const {
    return count[0] == 0 || count[1] == 0 || count[2] == 0;
  }
};

template <class Int>
__device__ __forceinline__ PoolWindow<Int> window_at(const PoolShape<Int>& s,
                                                     const PoolPlaceOf<Int>& at) {
  PoolWindow<Int> w;
  w.x = at.plane(s.x);
  w.flat = at.plane(s.flat);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const PoolAxisOf<Int>& a = s.axis[i];
    const TapsOf<Int> t = taps_at(a, at.space[i]);
    w.count[i] = t.real();
    w.inside[i] = t.inside;
    w.x_step[i] = s.x_step[i];
    w.flat_step[i] = s.flat_step[i];
    if (t.real() == 0) continue;
    const Int begin = at.space[i] * a.stride - a.start + t.first * a.dilation;
    w.x += begin * s.x.space[i];
    w.flat += begin * s.flat.space[i];
  }
  return w;
}

/// Calls each(offset in x, flat index) for the taps of a window in visiting order. kUnroll is 1
/// where code should rather be short than fast.
template <int kUnroll, class Int, class Each>
__device__ __forceinline__ void each_tap(const PoolWindow<Int>& w, const Each& each) {
  for (Int a = 0; a < w.count[0]; ++a)
    for (Int b = 0; b < w.count[1]; ++b) {
      const Int x = w.x + a * w.x_step[0] + b * w.x_step[1];
      const Int flat = w.flat + a * w.flat_step[0] + b * w.flat_step[1];
#pragma unroll(kUnroll)
      for (Int c = 0; c < w.count[2]; ++c) each(x + c * w.x_step[2], flat + c * w.flat_step[2]);
    }
}

/// What an average divides by.
template <class V, class Int>
__device__ __forceinline__ V divisor_of(const PoolWindow<Int>& w, bool include_padding) {
  const auto counted = [&](int i) { return include_padding ? w.inside[i] : w.count[i]; };
  return V(int64_t{counted(0)} * counted(1)) * V(counted(2));
}

/// Writes the index of an element of the launch, or all bits where `flat` is -1 (D-MAX-4).
template <class Int>
__device__ __forceinline__ void store_index(const PoolShape<Int>& s, void* indices, Int at,
                                            Int flat) {
  const int64_t index = flat < 0 ? -1 : s.first_flat + flat;
  if (s.wide_indices)
    static_cast<int64_t*>(indices)[at] = index;
  else
    static_cast<uint32_t*>(indices)[at] = uint32_t(index);
}

/// Writes n <= kN elements `step` apart; `vectors` says that kN of them are packed and aligned as
/// far as vectors need.
template <int kN, class T>
__device__ __forceinline__ void store_row(T* to, int32_t step, const T (&row)[kN], int32_t n,
                                          bool vectors) {
  constexpr int kWidth = kN < kVector<T> ? kN : kVector<T>;
  if (vectors && n >= kN) {
#pragma unroll
    for (int i = 0; i < kN; i += kWidth) {
      Vector<T, kWidth> v;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) v.v[j] = row[i + j];
      store_vector<kWidth>(to + i, v);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i)
    if (i < n) to[i * step] = row[i];
}

/// store_index for n <= kN neighbours.
template <int kN>
__device__ __forceinline__ void store_indices(const PoolShape<int32_t>& s, void* indices,
                                              int32_t at, int32_t step, const int32_t (&flat)[kN],
                                              int32_t n, bool vectors) {
  const auto store = [&]<class Index>(Index* to) {
    Index row[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) row[i] = flat[i] < 0 ? Index(-1) : Index(s.first_flat + flat[i]);
    store_row(to, step, row, n, vectors);
  };
  if (s.wide_indices)
    store(static_cast<int64_t*>(indices) + at);
  else
    store(static_cast<uint32_t*>(indices) + at);
}

}  // namespace cudml::cuda
