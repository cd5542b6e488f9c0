// Vectors of elements: what one load or store instruction moves.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <tuple>

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

/// The registers of a vector that is on its way. Elements of sixteen bits would be taken apart at
/// the next branch, which waits for them; whole registers are not looked into until they are
/// needed.
template <int kBytes>
using CarrierOf = std::tuple_element_t<std::countr_zero(unsigned(kBytes)),
                                       std::tuple<uint8_t, uint16_t, uint32_t, uint2, uint4>>;
using Carrier = CarrierOf<16>;

template <class T, class C>
__device__ __forceinline__ Vector<T, int(sizeof(C) / sizeof(T))> unpacked(const C& carrier) {
  return std::bit_cast<Vector<T, int(sizeof(C) / sizeof(T))>>(carrier);
}

/// Address p must be a multiple of the vector's size.
template <int kN, class T>
__device__ __forceinline__ Vector<T, kN> load_vector(const T* p) {
  return *reinterpret_cast<const Vector<T, kN>*>(p);
}

template <int kN, class T>
__device__ __forceinline__ void store_vector(T* p, const Vector<T, kN>& vector) {
  *reinterpret_cast<Vector<T, kN>*>(p) = vector;
}

/// The same for 16 bytes of global memory beside a branch that stores elements one by one, or the
/// same ones: the compiler would join a store of its own with those, and take the vector apart.
template <class T>
__device__ __forceinline__ void store_whole(T* p, const Vector<T, kVector<T>>& vector) {
#ifdef __CUDA_ARCH__
  const auto v = std::bit_cast<Carrier>(vector);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
#else
  store_vector(p, vector);
#endif
}

}  // namespace cudml::cuda
