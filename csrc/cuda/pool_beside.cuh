// A vector of a row and the elements beside it, as windows over neighbouring columns need them.
#pragma once

#include "cuda/convert.cuh"

namespace cudml::cuda {

/// kOwn aligned elements, and where kLeft and kRight are 1 the one before and the one behind;
/// packed while they are on their way.
template <int kOwn, int kLeft, int kRight, class T>
struct BesideVector {
  static constexpr int kCount = kLeft + kOwn + kRight;
  using Own = CarrierOf<kOwn* int(sizeof(T))>;
  Own own{};
  T left{}, right{};

  /// What load() leaves where nothing is, instead of 0.
  __device__ __forceinline__ void fill(T filler) {
    Vector<T, kOwn> all;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) all.v[i] = filler;
    own = std::bit_cast<Own>(all);
    left = right = filler;
  }

  /// `from` is the vector's place; nothing is loaded where there is no row, or nothing beside it.
  __device__ __forceinline__ void load(const T* from, bool is_row, bool has_left, bool has_right) {
    if (!is_row) return;
    own = *reinterpret_cast<const Own*>(from);
    if (kLeft > 0 && has_left) left = from[-1];
    if (kRight > 0 && has_right) right = from[kOwn];
  }

  __device__ __forceinline__ void widened(float (&out)[kCount]) const {
    float inner[kOwn];
    widen(unpacked<T>(own), inner);
    if (kLeft > 0) out[0] = load_as_acc(left);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) out[kLeft + i] = inner[i];
    if (kRight > 0) out[kCount - 1] = load_as_acc(right);
  }
};

}  // namespace cudml::cuda
