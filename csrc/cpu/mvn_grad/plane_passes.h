// How a gradient passes through an activation, by vectors: h = grad * f'(v) of v = d * factor +
// shift, where d is x less a pivot.
#pragma once

#include "cpu/simd/lanes.h"
#include "cpu/simd/slopes.h"
#include "math/activation.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The gradient passes as it is.
struct Through {
  template <class V>
  V operator()(const V& grad, const V&) const {
    return grad;
  }
};

/// Activations of two straight pieces: the gradient passes where v = d * factor + shift is above a
/// threshold, elsewhere a part of it or nothing.
template <class A>
struct Gate {
  using V = Vector<A>;
  using Bits = Vector<IntegerLike<A>>;
  V threshold, slope, factor, shift;
  Bits passing;  // no bits where what is not above it is blocked

  /// Whether an activation is such a one.
  static bool suits(const Activation& f) {
    using enum ActivationKind;
    return f.kind == relu || f.kind == leaky_relu || f.kind == thresholded_relu;
  }

  Gate(const Activation& f, A of_d, A rest)
      : threshold(all_lanes<A>(f.kind == ActivationKind::thresholded_relu ? A(f.a) : A(0))),
        slope(all_lanes<A>(f.kind == ActivationKind::leaky_relu ? A(f.a) : A(0))),
        factor(all_lanes<A>(of_d)),
        shift(all_lanes<A>(rest)),
        passing(Bits{} - (f.kind == ActivationKind::leaky_relu ? 1 : 0)) {}

  [[gnu::always_inline]] V operator()(const V& grad, const V& d) const {
    const V v = fused(d, factor, shift);
    const V low = same_bits<V>(same_bits<Bits>(V(grad * slope)) & passing);
    const V h = v > threshold ? grad : low;
    return v == v ? h : v;
  }
};

/// Through v * sigmoid(a * v), for the a that the quick slope suits.
struct SwishPass {
  Floats a, factor, shift;

  static bool suits(const Activation& f) {
    return f.kind == ActivationKind::swish && QuickSwishSlope::suits(f.a);
  }

  SwishPass(const Activation& f, float of_d, float rest)
      : a(broadcast(float(f.a))), factor(broadcast(of_d)), shift(broadcast(rest)) {}

  /// a * v.
  [[gnu::always_inline]] Floats product(Floats d) const { return a * fused(d, factor, shift); }

  [[gnu::always_inline]] Floats operator()(Floats grad, Floats d) const {
    Floats v[1] = {product(d)};
    QuickSwishSlope{}(v);
    return grad * v[0];
  }
};

/// A vector of a slice: d = x - pivot, and the gradient or h.
template <class A>
struct PlaneTerm {
  Vector<A> d, h;
};

/// Through v * sigmoid(a * v) where a * v = d * factor + shift, of some terms.
struct PlaneSwishPass {
  Floats factor, shift;

  PlaneSwishPass(float of_d, float rest) : factor(broadcast(of_d)), shift(broadcast(rest)) {}

  template <int kCount>
  [[gnu::always_inline]] void operator()(PlaneTerm<float> (&terms)[kCount]) const {
    Floats slope[kCount];
#pragma GCC unroll 2
    for (int k = 0; k < kCount; ++k) slope[k] = fused(terms[k].d, factor, shift);
    QuickSwishSlope{}(slope);
#pragma GCC unroll 2
    for (int k = 0; k < kCount; ++k) terms[k].h *= slope[k];
  }
};

/// Turns the gradient into h.
template <class A, class Pass, int kCount>
[[gnu::always_inline]] inline void pass_terms(const Pass& pass, PlaneTerm<A> (&terms)[kCount]) {
  if constexpr (std::is_same_v<Pass, PlaneSwishPass>)
    pass(terms);
  else
#pragma GCC unroll 2
    for (PlaneTerm<A>& term : terms) term.h = pass(term.h, term.d);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
