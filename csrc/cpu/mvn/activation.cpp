// Activations over rows of the computing type, in loops that know their kind.
#include "cpu/mvn/activation.h"

namespace cudml::cpu::CUDML_ISA {

template <class A>
void activate_row(const Activation& f, A* row, int64_t n) {
  const A a = static_cast<A>(f.a), b = static_cast<A>(f.b);
  switch (f.kind) {
#define ENTRY(kind, ...)                                                                     \
  case ActivationKind::kind:                                                                 \
    if constexpr (ActivationKind::kind != ActivationKind::identity)                          \
      for (int64_t i = 0; i < n; ++i) row[i] = activate<ActivationKind::kind>(a, b, row[i]); \
    return;
    CUDML_ACTIVATIONS(ENTRY)
    ENTRY(constant)
#undef ENTRY
  }
}

template void activate_row<float>(const Activation&, float*, int64_t);
template void activate_row<double>(const Activation&, double*, int64_t);

}  // namespace cudml::cpu::CUDML_ISA
