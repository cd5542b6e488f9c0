// Gradients through activations, over rows of the computing type: by explicit vectors where the
// slope takes an exponential or more than compilers vectorise, elsewhere in loops that know their
// kind.
#include "cpu/mvn_grad/passed.h"

#include "cpu/simd/gelu.h"
#include "cpu/simd/slopes.h"
#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// slope(v) is NaN where v is. An element's bits are the same wherever it stands in a row.
template <class Slope>
[[gnu::noinline]] void pass_vectors(float* h, const float* grad, const float* v, int64_t n,
                                    const Slope slope) {
  for (int64_t i = 0; i < n; i += kFloats)
    with_lanes(n - i, [&](auto m) {
      const Floats x = load_wide(v + i, m), product = load_wide(grad + i, m) * slope(x);
      if constexpr (requires { slope.blocks(x); })
        store_narrow(h + i, slope.blocks(x) ? Floats{} : product, m);
      else
        store_narrow(h + i, product, m);
    });
}

/// Whether explicit vectors of the slope are there.
constexpr bool has_vectors(ActivationKind kind) {
  using enum ActivationKind;
  return kind == gelu || kind == swish || kind == sigmoid || kind == tanh || kind == scaled_tanh ||
         kind == softplus || kind == parametric_softplus || kind == elu || kind == scaled_elu ||
         kind == hard_sigmoid || kind == hard_swish;
}

void pass_by_kind(const Activation& f, float* h, const float* grad, const float* v, int64_t n) {
  using enum ActivationKind;
  const auto a = float(f.a), b = float(f.b);
  const auto pass = [&](const auto& slope) { pass_vectors(h, grad, v, n, slope); };
  switch (f.kind) {
    case gelu: return pass([](Floats x) { return gelu_slope_of(x); });
    case swish: return pass(SwishSlope{broadcast(a)});
    case sigmoid: return pass(BellSlope{1, 1, 1});
    case tanh: return pass(BellSlope{1, 2, 1});
    case scaled_tanh: return pass(BellSlope{b, 2, a});
    case softplus: return pass(SigmoidSlope{a, 1, 1});
    case parametric_softplus: return pass(SigmoidSlope{b, b, a});
    case elu: return pass(EluSlope{a, 1});
    case hard_sigmoid: return pass(HardSigmoidSlope{a, b});
    case hard_swish: return pass(HardSwishSlope{a, b});
    default: return pass(EluSlope{a, b});
  }
}

}  // namespace

template <class A>
void pass_row(const Activation& f, A* h, const A* grad, const A* v, int64_t n) {
  if constexpr (std::is_same_v<A, float>)
    if (has_vectors(f.kind)) return pass_by_kind(f, h, grad, v, n);
  const A a = static_cast<A>(f.a), b = static_cast<A>(f.b);
  switch (f.kind) {
#define ENTRY(kind, ...)                                                            \
  case ActivationKind::kind:                                                        \
    if constexpr (!(std::is_same_v<A, float> && has_vectors(ActivationKind::kind))) \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) h[i] =                   \
          passed<ActivationKind::kind>(a, b, grad[i], v[i]);                        \
    return;
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
    default: return;
  }
}

template void pass_row<float>(const Activation&, float*, const float*, const float*, int64_t);
template void pass_row<double>(const Activation&, double*, const double*, const double*, int64_t);

}  // namespace cudml::cpu::CUDML_ISA
