// The merge of two parts' count, mean and sum of squares, each operation rounded by itself.
#pragma once

#include "core/hd.h"

namespace cudml {

/// Count, mean and sum of squares about it.
template <class T>
struct Statistics {
  T count, mean, m2;
};

#if defined(__CUDA_ARCH__)
// What nvcc does not fuse.
HD float rounded_product(float a, float b) { return __fmul_rn(a, b); }
HD double rounded_product(double a, double b) { return __dmul_rn(a, b); }
#else
template <class T>
HD T rounded_product(T a, T b) {
  return a * b;
}
#endif

/// The merge of Chan, Golub and LeVeque, T by T; a part of nothing leaves the other as it is.
template <class T>
HD Statistics<T> merged(const Statistics<T>& a, const Statistics<T>& b) {
  const T n = a.count + b.count, d = b.mean - a.mean;
  const T mean = a.mean + rounded_product(d, b.count / n);
  const T weight = rounded_product(a.count, b.count) / n;
  const T m2 = (a.m2 + b.m2) + rounded_product(rounded_product(d, d), weight);
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  return {n, mean, m2};
}

}  // namespace cudml
