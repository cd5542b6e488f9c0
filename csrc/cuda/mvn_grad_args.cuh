// What the kernels of normalization's gradients are given, and one element on its way from grad
// to w.
#pragma once

#include "core/fast_div.h"
#include "core/operands.h"
#include "cuda/epilogue.cuh"
#include "cuda/given_value.cuh"
#include "cuda/mvn_grad_kernels.h"
#include "math/moments.h"
#include "math/slope.h"
#include "math/total.h"

namespace cudml::cuda {

/// Where a position stands in each tensor, in elements, and in which cell.
struct MvnGradPlace {
  int64_t x = 0, grad = 0, dx = 0, scale = 0, bias = 0, cell = 0;

  HD void add(const MvnGradPlace& step, int64_t steps) {
    x += steps * step.x;
    grad += steps * step.grad;
    dx += steps * step.dx;
    scale += steps * step.scale;
    bias += steps * step.bias;
    cell += steps * step.cell;
  }
};

inline MvnGradPlace step_of(const MvnGradAxis& a, int64_t cell) {
  return {a.x, a.grad, a.dx, a.scale, a.bias, cell};
}

/// Positions of some dimensions, the last one fastest.
struct MvnGradWalk {
  int rank = 0;
  bool is_small = true;  // every size is below 2^31
  int64_t count = 1;
  int64_t size[kMaxRank];
  FastDiv divisor[kMaxRank];
  MvnGradPlace step[kMaxRank];

  void add(int64_t axis_size, const MvnGradPlace& axis_step) {
    size[rank] = axis_size;
    count *= axis_size;
    is_small &= axis_size < int64_t{1} << 31;
    if (is_small) divisor[rank] = FastDiv(uint32_t(axis_size));
    step[rank++] = axis_step;
  }

  __device__ MvnGradPlace at(int64_t index) const {
    MvnGradPlace place;
    const bool is_near = is_small && index < int64_t{1} << 31;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const int64_t rest =
          is_near ? int64_t(divisor[d].quotient(uint32_t(index))) : index / size[d];
      place.add(step[d], index - rest * size[d]);
      index = rest;
    }
    if (rank > 0) place.add(step[0], index);
    return place;
  }
};

/// z = ((x - pivot) - delta) * factor; dx = factor * (w - mean_w - z * mean_wz).
template <class A>
struct MvnGradState {
  Normalizer<A> normal;
  A mean_w = 0, mean_wz = 0;
};

/// grad * f'(v). Not inlined: the switch is large.
template <class A>
__device__ __noinline__ A pass_value(ActivationKind kind, A a, A b, A grad, A v) {
  switch (kind) {
#define ENTRY(kind, ...) \
  case ActivationKind::kind: return passed<ActivationKind::kind>(a, b, grad, v);
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
    default: return grad;
  }
}

template <ActivationKind kKind, class A, int kN>
__device__ __forceinline__ void pass_all(A a, A b, Values<A, kN>& grad, Values<A, kN>& v) {
  if constexpr (kIsOneByOne<kKind, A>) {
#pragma unroll 1
    for (int i = 0; i < kN; ++i) {
      move_up(grad, passed<kKind>(a, b, grad.v[0], v.v[0]));
      move_up(v, v.v[0]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) grad.v[i] = passed<kKind>(a, b, grad.v[i], v.v[i]);
  }
}

/// The same of some values, for one call.
template <class A>
__device__ __noinline__ Values<A, kActivated<A>> pass_values(ActivationKind kind, A a, A b,
                                                             Values<A, kActivated<A>> grad,
                                                             Values<A, kActivated<A>> v) {
  switch (kind) {
#define ENTRY(kind, ...) \
  case ActivationKind::kind: pass_all<ActivationKind::kind>(a, b, grad, v); break;
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
    default: break;
  }
  return grad;
}

template <class A>
struct MvnGradElement {
  A z, h, w;
};

template <class T>
struct MvnGradArgs {
  using A = Acc<T>;

  const T *x, *grad;
  T* dx;
  Parameter<T> scale, bias;
  ActivationKind activation;
  A a, b;
  bool reads_x, takes_product;

  MvnGradArgs(const MvnGradPlan& plan, const Operands& o)
      : x(static_cast<const T*>(o.inputs[0])),
        grad(static_cast<const T*>(o.inputs[1])),
        dx(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        scale(plan.has_scale ? o.inputs[2] : nullptr, plan.scale_dtype, 1),
        bias(plan.has_bias ? o.inputs[3] : nullptr, plan.bias_dtype, 0),
        activation(plan.activation.kind),
        a(static_cast<A>(plan.activation.a)),
        b(static_cast<A>(plan.activation.b)),
        reads_x(plan.reads_x()),
        takes_product(plan.use_variance && (plan.has_own_sums() || plan.has_sums)) {}

  __device__ MvnGradElement<A> element(const MvnGradPlace& at, const Normalizer<A>& normal) const {
    MvnGradElement<A> e;
    const A s = scale.at(at.scale);
    e.z = reads_x ? normal(load_as_acc(x[at.x])) : A(0);
    e.h = load_as_acc(grad[at.grad]);
    if (activation != ActivationKind::identity)
      e.h = pass_value<A>(activation, a, b, e.h, fused(e.z, s, bias.at(at.bias)));
    e.w = scale.data ? e.h * s : e.h;
    return e;
  }

  /// h takes the place of grad.
  template <int kN>
  __device__ __forceinline__ void pass(const A (&z)[kN], const A (&scales)[kN],
                                       const A (&biases)[kN], A (&grad)[kN]) const {
    constexpr int kStep = kActivated<A>;
    static_assert(kN % kStep == 0);
#pragma unroll
    for (int i = 0; i < kN; i += kStep) {
      Values<A, kStep> g, v;
#pragma unroll
      for (int j = 0; j < kStep; ++j) {
        g.v[j] = grad[i + j];
        v.v[j] = fused(z[i + j], scales[i + j], biases[i + j]);
      }
      g = pass_values<A>(activation, a, b, g, v);
#pragma unroll
      for (int j = 0; j < kStep; ++j) grad[i + j] = g.v[j];
    }
  }

  /// dx of one element.
  __device__ __forceinline__ A dx_of(A z, A w, const MvnGradState<A>& state) const {
    const A rest = w - state.mean_w;
    return state.normal.factor * (takes_product ? fused(-z, state.mean_wz, rest) : rest);
  }

  __device__ T result(const MvnGradElement<A>& e, const MvnGradState<A>& state) const {
    return store_as<T>(dx_of(e.z, e.w, state));
  }
};

}  // namespace cudml::cuda
