// Statistics that are data, as normalizing reads them.
#pragma once

#include "math/moments.h"

namespace cudml {

/// A mean with its low part (D-GRAD-18).
template <class A>
HD void split_mean(double mean, A& pivot, A& delta) {
  pivot = static_cast<A>(mean);
  const double rest = mean - double(pivot);
  delta = is_finite(rest) ? static_cast<A>(rest) : A(0);
}

template <class A>
HD A factor_of(double variance, double epsilon) {
  return static_cast<A>(1 / std::sqrt(variance + epsilon));
}

}  // namespace cudml
