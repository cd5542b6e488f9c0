// Sums of the lanes of vectors of float.
#pragma once

#include <utility>

#include "cpu/simd/native.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The sum of all lanes, by halves.
template <int kCount = int(kFloats)>
inline float sum_of_lanes(const Vector<float, kCount * 4>& v) {
  Vector<float, kCount * 2> half[2];
  std::memcpy(half, &v, sizeof v);
  if constexpr (kCount == 4) {
    half[0] += half[1];
    return half[0][0] + half[0][1];
  } else {
    return sum_of_lanes<kCount / 2>(half[0] + half[1]);
  }
}

/// Adds the halves of each block of kBlock lanes, of a's blocks and then of b's.
template <int kBlock, int... kLane>
inline Floats blocks_halved(Floats a, Floats b, std::integer_sequence<int, kLane...>) {
  constexpr int kHalf = kBlock / 2;
  return __builtin_shufflevector(a, b, kLane / kHalf * kBlock + kLane % kHalf...) +
         __builtin_shufflevector(a, b, kLane / kHalf * kBlock + kLane % kHalf + kHalf...);
}

/// For each of kCount vectors in turn kFloats / kCount lanes, which add up to the sum of its lanes;
/// or for each of the kSums blocks of which such a vector consists.
template <int kCount, int kSums = 1>
[[gnu::always_inline]] inline Floats sums_of_blocks(const Floats* v) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
    return blocks_halved<2 * int(kFloats) / (kCount * kSums)>(
        sums_of_blocks<kCount / 2, kSums>(v), sums_of_blocks<kCount / 2, kSums>(v + kCount / 2),
        std::make_integer_sequence<int, int(kFloats)>{});
  }
}

/// Every second lane of a and then of b, from lane kFirst on.
template <int kFirst, int... kLane>
inline Floats every_second(Floats a, Floats b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, kFirst + 2 * kLane...);
}
template <int kFirst>
inline Floats every_second(Floats a, Floats b) {
  return every_second<kFirst>(a, b, std::make_integer_sequence<int, int(kFloats)>{});
}

/// The four sums of kFloats rows, in the order of rows, become the rows' first sums, their second
/// ones and so on.
[[gnu::always_inline]] inline void turn_sums(Floats (&v)[4]) {
  const Floats even[] = {every_second<0>(v[0], v[1]), every_second<0>(v[2], v[3])},
               odd[] = {every_second<1>(v[0], v[1]), every_second<1>(v[2], v[3])};
  v[0] = every_second<0>(even[0], even[1]);
  v[1] = every_second<0>(odd[0], odd[1]);
  v[2] = every_second<1>(even[0], even[1]);
  v[3] = every_second<1>(odd[0], odd[1]);
}

/// The sum of each block of kBlock lanes, one after the other.
template <int kBlock>
[[gnu::always_inline]] inline Floats halved_blocks(Floats v) {
  if constexpr (kBlock == 1)
    return v;
  else
    return halved_blocks<kBlock / 2>(
        blocks_halved<kBlock>(v, v, std::make_integer_sequence<int, int(kFloats)>{}));
}

/// Adds the lanes of each vector to its total, by halves.
template <int kSums>
[[gnu::always_inline]] inline void add_lanes_of(const Floats (&sums)[kSums],
                                                double (&total)[kSums]) {
  const Floats lanes = halved_blocks<int(kFloats) / kSums>(sums_of_blocks<kSums>(sums));
#pragma GCC unroll 4
  for (int k = 0; k < kSums; ++k) total[k] += double(lanes[k]);
}

/// The same of vectors of double, one lane after the other.
template <int kSums>
[[gnu::always_inline]] inline void add_lanes_of(const Doubles (&sums)[kSums],
                                                double (&total)[kSums]) {
  for (int k = 0; k < kSums; ++k) {
    double sum = sums[k][0];
    for (int64_t i = 1; i < kDoubles; ++i) sum += sums[k][i];
    total[k] += sum;
  }
}

/// sum_of_lanes() of kFloats vectors at once: lane i is the sum of v[i].
[[gnu::noinline]] inline Floats sums_of_lanes(const Floats* v) {
  return sums_of_blocks<int(kFloats)>(v);
}

/// Writes a vector as kFloats doubles.
inline void store_doubles(double* p, Floats v) {
  HalfFloats half[2];
  std::memcpy(half, &v, sizeof v);
  store_vector(p, as_doubles(half[0]));
  store_vector(p + kDoubles, as_doubles(half[1]));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
