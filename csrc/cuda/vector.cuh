// Vectors of elements: what one load or store instruction moves.
#pragma once

#include <cuda_runtime.h>

#include "core/scalar.h"

namespace cudml::cuda {

/// kN elements side by side, aligned to their size in bytes, which is at most 16.
template <class T, int kN>
struct alignas(sizeof(T) * kN) Vector {
  static_assert(sizeof(T) * kN <= 16);
  T v[kN];
};

/// How many elements of T 16 bytes hold.
template <class T>
inline constexpr int kVector = 16 / int(sizeof(T));

/// Address p must be a multiple of the vector's size.
template <int kN, class T>
__device__ __forceinline__ Vector<T, kN> load_vector(const T* p) {
  return *reinterpret_cast<const Vector<T, kN>*>(p);
}

template <int kN, class T>
__device__ __forceinline__ void store_vector(T* p, const Vector<T, kN>& vector) {
  *reinterpret_cast<Vector<T, kN>*>(p) = vector;
}

}  // namespace cudml::cuda
