// Gradients through activations, over rows of the computing type, in loops that know their kind.
#include "cpu/mvn_grad/passed.h"

#include "math/slope.h"

namespace cudml::cpu::CUDML_ISA {

template <class A>
void pass_row(const Activation& f, A* h, const A* grad, const A* v, int64_t n) {
  const A a = static_cast<A>(f.a), b = static_cast<A>(f.b);
  switch (f.kind) {
#define ENTRY(kind, ...)                                        \
  case ActivationKind::kind:                                    \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) h[i] = \
        passed<ActivationKind::kind>(a, b, grad[i], v[i]);      \
    return;
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
    default: return;
  }
}

template void pass_row<float>(const Activation&, float*, const float*, const float*, int64_t);
template void pass_row<double>(const Activation&, double*, const double*, const double*, int64_t);

}  // namespace cudml::cpu::CUDML_ISA
