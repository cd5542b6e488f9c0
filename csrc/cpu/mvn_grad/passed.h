// Gradients through activations, over rows of the computing type.
#pragma once

#include "math/activation.h"

namespace cudml::cpu::CUDML_ISA {

/// h[i] = grad[i] * f'(v[i]); A is float or double. h may be v.
template <class A>
void pass_row(const Activation& f, A* h, const A* grad, const A* v, int64_t n);

}  // namespace cudml::cpu::CUDML_ISA
