// Activations over rows of the computing type.
#pragma once

#include "math/activation.h"

namespace cudml::cpu::CUDML_ISA {

/// row[i] = f(row[i]); A is float or double.
template <class A>
void activate_row(const Activation& f, A* row, int64_t n);

}  // namespace cudml::cpu::CUDML_ISA
