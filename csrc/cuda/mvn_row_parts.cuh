// Rows that stay on chip: how their elements are shared among threads, read, summed and written.
#pragma once

#include "cuda/mvn_args.cuh"

namespace cudml::cuda {

/// One access: what a thread moves at once.
template <class T>
using RowSlot = Vector<T, kVector<T>>;

/// The strides of one tensor inside a row of up to two dimensions. Where is_linear, position i is i
/// elements from the row's first and every access is an aligned vector.
struct MvnRowStrides {
  int32_t outer = 0, inner = 0;
  bool is_linear = false;
};

/// How a row lies: position i is i / inner steps of the outer dimension and i % inner of the inner.
/// Which thread takes which positions depends on the row's length alone, so that neither layout nor
/// alignment changes the order of a sum.
struct MvnRowShape {
  uint32_t length = 0;
  float inverse_length = 1;
  FastDiv inner;
  bool is_whole = true;  // accesses do not cross from one step of the outer dimension to the next
  MvnRowStrides x, y, scale, bias;

  MvnRowShape(const MvnPlan& plan, const MvnPointers& p);

  /// Whether rows pass through shared memory, where accesses are vectors, on their way in or out.
  HD bool is_staged() const { return !x.is_linear || !y.is_linear; }

  __device__ __forceinline__ int64_t offset(const MvnRowStrides& s, uint32_t i) const {
    const uint32_t outer = inner.quotient(i);
    return int32_t(outer) * s.outer + int32_t(i - outer * inner.divisor) * s.inner;
  }
};

inline MvnRowStrides mvn_row_strides(const MvnPlan& plan, int64_t MvnAxis::* stride,
                                     const void* data) {
  const int rank = plan.reduced_rank;
  MvnRowStrides s;
  if (rank > 0) s.inner = int32_t(plan.reduced[rank - 1].*stride);
  if (rank > 1) s.outer = int32_t(plan.reduced[0].*stride);
  s.is_linear = are_accesses_packed(plan, stride, data, false);
  return s;
}

inline MvnRowShape::MvnRowShape(const MvnPlan& plan, const MvnPointers& p)
    : length(uint32_t(plan.group_size)),
      inverse_length(float(1.0 / double(plan.group_size))),
      inner(uint32_t(plan.reduced_rank > 0 ? plan.reduced[plan.reduced_rank - 1].size : 1)),
      is_whole(plan.reduced_rank < 2 || inner.divisor % uint32_t(mvn_vector(plan.dtype)) == 0),
      x(mvn_row_strides(plan, &MvnAxis::x, p.x)),
      y(mvn_row_strides(plan, &MvnAxis::y, p.y)),
      scale(mvn_row_strides(plan, &MvnAxis::scale, p.scale)),
      bias(mvn_row_strides(plan, &MvnAxis::bias, p.bias)) {}

/// How scale and bias stand to the elements of a row.
enum class RowParameters : uint8_t {
  same,    // one of each for the row
  packed,  // stored as x is and next to each other as x's elements are, or absent
  any,
};

/// Scale and bias of some accesses, fetched before any of them is needed.
template <int kN>
struct ParameterSlots {
  Carrier scale[kN], bias[kN];
};

/// Scale or bias of one access where no vector holds them. Not inlined: it would be copied for each
/// of a thread's accesses.
template <class T, class A = Acc<T>>
__device__ __noinline__ Values<A, kVector<A>> load_apart(Parameter<T> p, int64_t base,
                                                         int32_t outer, int32_t inner, FastDiv size,
                                                         uint32_t i) {
  Values<A, kVector<A>> values;
#pragma unroll
  for (int e = 0; e < kVector<A>; ++e) {
    const uint32_t steps = size.quotient(i + e);
    values.v[e] =
        p.at(base + int32_t(steps) * outer + int32_t(i + e - steps * size.divisor) * inner);
  }
  return values;
}

/// One thread's view of one row.
template <class T, bool kActivates, RowParameters kParameters>
struct MvnRow {
  using A = Acc<T>;
  static constexpr int kN = kVector<T>;
  using Slot = RowSlot<T>;

  const MvnArgs<T>& args;
  const MvnRowShape& shape;
  const MvnOffsets& group;
  bool exists;
  uint32_t thread, threads;
  uint32_t slots;         // whole accesses of the row; a row that does not exist has none
  A scale = 1, bias = 0;  // of the row, where they do not vary

  __device__ __forceinline__ MvnRow(const MvnArgs<T>& args, const MvnRowShape& shape,
                                    const MvnOffsets& group, bool exists, uint32_t thread,
                                    uint32_t threads)
      : args(args),
        shape(shape),
        group(group),
        exists(exists),
        thread(thread),
        threads(threads),
        slots(exists ? shape.length / kN : 0) {}

  /// Must precede results.
  __device__ __forceinline__ void fetch_operands() {
    if (kParameters != RowParameters::same || !exists) return;
    scale = args.scale.at(group.scale);
    bias = args.bias.at(group.bias);
  }

  /// The number of this thread's s-th access.
  __device__ __forceinline__ uint32_t slot(uint32_t s) const { return s * threads + thread; }

  /// What accesses leave over: at most one element for each thread, at position tail().
  __device__ __forceinline__ uint32_t tail() const { return shape.length / kN * kN + thread; }
  __device__ __forceinline__ bool has_tail() const { return exists && tail() < shape.length; }

  __device__ __forceinline__ T load(uint32_t i) const {
    return args.x[group.x + shape.offset(shape.x, i)];
  }

  /// Brings the row's accesses to `stage`, neighbours by neighbouring threads. A barrier of the
  /// row's threads must follow.
  __device__ __forceinline__ void fill(Slot* stage) const {
    T* to = reinterpret_cast<T*>(stage);
#pragma unroll 2
    for (uint32_t i = thread; i < slots * kN; i += threads) to[i] = load(i);
  }
  /// Takes them from there to y, after such a barrier.
  __device__ __forceinline__ void drain(const Slot* stage) const {
    const T* from = reinterpret_cast<const T*>(stage);
#pragma unroll 2
    for (uint32_t i = thread; i < slots * kN; i += threads)
      args.y[group.y + shape.offset(shape.y, i)] = from[i];
  }

  /// The accesses of a row that is linear in x, or y.
  __device__ __forceinline__ const Slot* x_slots() const {
    return reinterpret_cast<const Slot*>(args.x + group.x);
  }
  __device__ __forceinline__ Slot* y_slots() const {
    return reinterpret_cast<Slot*>(args.y + group.y);
  }

  /// Writes kCount accesses from the thread's s-th on, which are x[0], x[1] …
  template <int kCount>
  __device__ __forceinline__ void write(Slot* to, const Slot* x, uint32_t s,
                                        const Normalizer<A>& n) const {
    ParameterSlots<kCount> parameters;
    if constexpr (kParameters == RowParameters::packed) {
      fetch_ahead(args.scale, group.scale, s, parameters.scale);
      fetch_ahead(args.bias, group.bias, s, parameters.bias);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (slot(s + i) < slots)
        to[slot(s + i)] = result(x[i], slot(s + i), n, parameters.scale[i], parameters.bias[i]);
  }

  __device__ __forceinline__ Slot result(const Slot& x, uint32_t k, const Normalizer<A>& n,
                                         const Carrier& scales, const Carrier& biases) const {
    A v[kN];
    widen(x, v);
#pragma unroll
    for (int e = 0; e < kN; ++e) v[e] = n(v[e]);
    if constexpr (kParameters != RowParameters::same) {
      A s[kN], b[kN];
      if constexpr (kParameters == RowParameters::packed) {
        widen(unpacked<T>(scales), s);
        widen(unpacked<T>(biases), b);
      } else {
        fetch_slot(args.scale, shape.scale, group.scale, k * kN, s);
        fetch_slot(args.bias, shape.bias, group.bias, k * kN, b);
      }
#pragma unroll
      for (int e = 0; e < kN; ++e) v[e] = fused(v[e], s[e], b[e]);
    } else {
#pragma unroll
      for (int e = 0; e < kN; ++e) v[e] = fused(v[e], scale, bias);
    }
    if constexpr (kActivates) args.activate(v);
    return narrow<T>(v);
  }

  /// The single element at position i.
  __device__ __forceinline__ void store(T x, uint32_t i, const Normalizer<A>& n) const {
    A s = scale, b = bias;
    if constexpr (kParameters != RowParameters::same) {
      s = args.scale.at(group.scale + shape.offset(shape.scale, i));
      b = args.bias.at(group.bias + shape.offset(shape.bias, i));
    }
    A v[1] = {fused(n(load_as_acc(x)), s, b)};
    if constexpr (kActivates) args.activate(v);
    args.y[group.y + shape.offset(shape.y, i)] = store_as<T>(v[0]);
  }

 private:
  /// A packed parameter's values for kCount accesses from the thread's s-th on.
  template <int kCount>
  __device__ __forceinline__ void fetch_ahead(const Parameter<T>& p, int64_t base, uint32_t s,
                                              Carrier (&out)[kCount]) const {
    if (!p.data) {
      A absent[kN];
#pragma unroll
      for (int e = 0; e < kN; ++e) absent[e] = p.absent;
#pragma unroll
      for (int i = 0; i < kCount; ++i) out[i] = std::bit_cast<Carrier>(narrow<T>(absent));
      return;
    }
    const auto* from = reinterpret_cast<const Carrier*>(static_cast<const T*>(p.data) + base);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (slot(s + i) < slots) out[i] = from[slot(s + i)];
  }

  /// The parameter's values for the access that begins at position i.
  __device__ __forceinline__ void fetch_slot(const Parameter<T>& p, const MvnRowStrides& strides,
                                             int64_t base, uint32_t i, A (&out)[kN]) const {
    const Access access = access_of(strides.is_linear, strides.inner, shape.is_whole);
    const int64_t from = base + (strides.is_linear ? int64_t(i) : shape.offset(strides, i));
    fetch(p, access, from, out, [&](A(&values)[kN]) {
#pragma unroll
      for (int e = 0; e < kN; e += kVector<A>) {
        const auto some = load_apart(p, base, strides.outer, strides.inner, shape.inner, i + e);
#pragma unroll
        for (int j = 0; j < kVector<A>; ++j) values[e + j] = some.v[j];
      }
    });
  }
};

template <class T, int kN>
__device__ __forceinline__ Acc<T> slot_sum(const Vector<T, kN>& slot) {
  Acc<T> v[kN];
  widen(slot, v);
  Acc<T> even = v[0], odd = v[1];
#pragma unroll
  for (int e = 2; e < kN; e += 2) {
    even += v[e];
    odd += v[e + 1];
  }
  return even + odd;
}

/// Sums about a pivot. One thread's are short enough for A; elements in turn add to one of two, so
/// that additions need not wait for each other.
template <class A>
struct PivotSums {
  A sum[2] = {}, square[2] = {};

  template <class T, int kN>
  __device__ __forceinline__ void add(const Vector<T, kN>& slot, A pivot) {
    A v[kN];
    widen(slot, v);
#pragma unroll
    for (int e = 0; e < kN; ++e) add(v[e], pivot, e % 2);
  }
  __device__ __forceinline__ void add(A x, A pivot, int which = 0) {
    const A d = x - pivot;
    sum[which] += d;
    square[which] += d * d;
  }
  __device__ __forceinline__ TwoSums wide() const {
    return {double(sum[0]) + double(sum[1]), double(square[0]) + double(square[1])};
  }
};

}  // namespace cudml::cuda
