// A sum of many numbers that loses nothing worth mentioning.
#pragma once

#include "core/hd.h"
#include "core/scalar.h"
#include "math/moments.h"

namespace cudml {

/// Of floats, in double.
template <class A>
struct Total {
  double sum = 0;

  HD void add(double v) { sum += v; }
  HD void add(const Total& other) { sum += other.sum; }
  HD double value() const { return sum; }
};

/// Of doubles: what each addition rounds off is kept.
template <>
struct Total<double> {
  double sum = 0, lost = 0;

  HD void add(double v) {
    const double both = sum + v, part = both - sum;
    lost += (sum - (both - part)) + (v - part);
    sum = both;
  }
  HD void add(const Total& other) {
    add(other.sum);
    lost += other.lost;
  }
  /// Without the rest where infinities have made it NaN.
  HD double value() const { return is_finite(sum) ? sum + lost : sum; }
};

/// A sum as an element, rounded once but where two steps are within a sum's error: sums of floats
/// become 16-bit floats by way of float.
template <class T>
HD T store_total(double sum) {
  return store_as<T>(static_cast<Acc<T>>(sum));
}

}  // namespace cudml
