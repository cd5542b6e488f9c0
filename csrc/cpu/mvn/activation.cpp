// Activations over rows of the computing type, in loops that know their kind; the commonest of
// those that take an exponential by explicit vectors.
#include "cpu/mvn/activation.h"

#include "cpu/simd/gelu.h"
#include "cpu/simd/swish.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// An element's bits are the same wherever it stands in a row.
template <class Value>
[[gnu::noinline]] void activate_vectors(float* row, int64_t n, const Value value) {
  for (int64_t i = 0; i < n; i += kFloats)
    with_lanes(n - i, [&](auto m) { store_narrow(row + i, value(load_wide(row + i, m)), m); });
}

/// Whether vectors are there for an activation.
constexpr bool has_vectors(ActivationKind kind) {
  using enum ActivationKind;
  return kind == gelu || kind == swish || kind == sigmoid;
}

void activate_by_kind(const Activation& f, float* row, int64_t n) {
  using enum ActivationKind;
  if (f.kind == gelu) return activate_vectors(row, n, [](Floats x) { return gelu_of(x); });
  if (f.kind == sigmoid)
    return activate_vectors(row, n, [](Floats x) { return SigmoidParts(x).value(x); });
  const Swish apply(f);
  activate_vectors(row, n, [&apply](Floats x) {
    Floats v[1] = {x};
    apply(v);
    return v[0];
  });
}

}  // namespace

template <class A>
void activate_row(const Activation& f, A* row, int64_t n) {
  if constexpr (std::is_same_v<A, float>)
    if (has_vectors(f.kind)) return activate_by_kind(f, row, n);
  const A a = static_cast<A>(f.a), b = static_cast<A>(f.b);
  switch (f.kind) {
#define ENTRY(kind, ...)                                                                     \
  case ActivationKind::kind:                                                                 \
    if constexpr (ActivationKind::kind != ActivationKind::identity &&                        \
                  !(std::is_same_v<A, float> && has_vectors(ActivationKind::kind)))          \
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
