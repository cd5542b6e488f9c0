// What follows normalization: scale, bias, activation.
#pragma once

#include "core/dtype.h"
#include "cuda/convert.cuh"
#include "cuda/vector.cuh"
#include "math/activation.h"

namespace cudml::cuda {

/// Scale or bias: stored as T or as what T is computed in; one value where it is absent.
template <class T>
struct Parameter {
  const void* data = nullptr;
  bool is_wide = false;
  Acc<T> absent = 0;

  Parameter() = default;
  HD Parameter(const void* given, Dtype dtype, Acc<T> value_if_absent)
      : data(given), is_wide(dtype == dtype_of<Acc<T>>), absent(value_if_absent) {}

  __device__ __forceinline__ Acc<T> at(int64_t offset) const {
    if (!data) return absent;
    return is_wide ? static_cast<const Acc<T>*>(data)[offset]
                   : load_as_acc(static_cast<const T*>(data)[offset]);
  }
};

/// How kVector elements next to each other along one dimension get their scale or bias.
enum class Access : uint8_t {
  packed,  // one aligned vector, or two
  same,    // one value
  apart,   // one by one
};

HD Access access_of(bool is_packed, int64_t stride, bool is_whole) {
  if (is_packed) return Access::packed;
  return stride == 0 && is_whole ? Access::same : Access::apart;
}

template <class A, int kN>
struct Values {
  A v[kN];
};

/// The values that begin at `from`; apart(out) brings them where they are read one by one.
template <class T, int kN, class Apart>
__device__ __forceinline__ void fetch(const Parameter<T>& p, Access access, int64_t from,
                                      Acc<T> (&out)[kN], const Apart& apart) {
  using A = Acc<T>;
  if (!p.data || access == Access::same) {
    const A value = p.at(from);
#pragma unroll
    for (int e = 0; e < kN; ++e) out[e] = value;
  } else if (access == Access::apart) {
    apart(out);
  } else if (p.is_wide) {
#pragma unroll
    for (int e = 0; e < kN; e += kVector<A>) {
      const auto part = load_vector<kVector<A>>(static_cast<const A*>(p.data) + from + e);
#pragma unroll
      for (int j = 0; j < kVector<A>; ++j) out[e + j] = part.v[j];
    }
  } else {
    widen(load_vector<kN>(static_cast<const T*>(p.data) + from), out);
  }
}

/// How many values one call of `activate_values` takes, all of them in registers.
template <class A>
inline constexpr int kActivated = 16 / int(sizeof(A));

/// Whether an activation takes so much code, or is asked for so seldom, that a loop goes through
/// the values; side by side they need not wait for each other.
template <ActivationKind kKind, class A>
inline constexpr bool kIsOneByOne = [] {
  using enum ActivationKind;
  switch (kKind) {
    case elu:
    case celu:
    case scaled_elu:
    case tanh:
    case scaled_tanh:
    case softplus:
    case parametric_softplus:
    case softsign: return true;
    case sigmoid:
    case gelu:
    case swish: return sizeof(A) > 4;
    default: return false;
  }
}();

/// The values move up and make room for a last one: so a loop over them can stay one without
/// indexing registers.
template <class A, int kN>
__device__ __forceinline__ void move_up(Values<A, kN>& x, A last) {
#pragma unroll
  for (int j = 0; j + 1 < kN; ++j) x.v[j] = x.v[j + 1];
  x.v[kN - 1] = last;
}

template <ActivationKind kKind, class A, int kN>
__device__ __forceinline__ void activate_all(A a, A b, Values<A, kN>& x) {
  if constexpr (kIsOneByOne<kKind, A>) {
#pragma unroll 1
    for (int i = 0; i < kN; ++i) move_up(x, activate<kKind>(a, b, x.v[0]));
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) x.v[i] = activate<kKind>(a, b, x.v[i]);
  }
}

/// One activation of some values. Not inlined: the switch is large, and a call for several values
/// costs little beside what most activations do.
template <class A>
__device__ __noinline__ Values<A, kActivated<A>> activate_values(ActivationKind kind, A a, A b,
                                                                 Values<A, kActivated<A>> x) {
  switch (kind) {
#define ENTRY(kind, ...) \
  case ActivationKind::kind: activate_all<ActivationKind::kind>(a, b, x); break;
    CUDML_ACTIVATIONS(ENTRY)
    ENTRY(constant)
#undef ENTRY
  }
  return x;
}

/// The activation with its parameters in the type of the computation.
template <class A>
struct Activate {
  ActivationKind kind = ActivationKind::identity;
  A a = 0, b = 0;

  Activate() = default;
  explicit Activate(const Activation& f)
      : kind(f.kind), a(static_cast<A>(f.a)), b(static_cast<A>(f.b)) {}

  /// kN values; a single one travels in company.
  template <int kN>
  __device__ __forceinline__ void operator()(A (&x)[kN]) const {
    constexpr int kStep = kActivated<A>;
    if (kind == ActivationKind::identity) return;
#pragma unroll
    for (int i = 0; i < kN; i += kStep) {
      Values<A, kStep> some;
#pragma unroll
      for (int j = 0; j < kStep; ++j) some.v[j] = i + j < kN ? x[i + j] : A(0);
      some = activate_values<A>(kind, a, b, some);
#pragma unroll
      for (int j = 0; j < kStep; ++j)
        if (i + j < kN) x[i + j] = some.v[j];
    }
  }
};

}  // namespace cudml::cuda
