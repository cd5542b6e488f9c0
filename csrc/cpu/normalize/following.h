// Rows that follow each other in memory, each with statistics of its own: whole vectors alone.
#pragma once

#include "cpu/normalize/formulas.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// kCount vectors from i on, whatever stands there.
template <int kCount, class T, class Formula, class F>
[[gnu::always_inline]] inline void write_vectors(T* y, const T* x, int64_t i,
                                                 const Formula& formula, const F& f,
                                                 bool converts) {
  Floats v[kCount];
  const bool are_numbers = compute_vectors(v, x, i, formula, f, Whole{});
  if constexpr (kCount == 1) store_narrow(y + i, v[0], Whole{}, are_numbers);
#pragma GCC unroll 2
  for (int k = 0; k + 1 < kCount; k += 2)
    put_pair(y + i + k * kFloats, v[k], v[k + 1], false, are_numbers, converts);
}

/// Rows of n elements, one behind the other, while what their last vectors write too far belongs to
/// later ones, which put right what stands there: so y is not x. Returns how many those are.
template <class Formula, class T, class F>
[[gnu::noinline]] int64_t write_following(T* y, const T* x, int64_t n, int64_t rows,
                                          const RowConstants& constants, const F f) {
  constexpr int kMost = std::is_same_v<F, Swish> ? 4 : 2;
  const int64_t vectors = (n + kFloats - 1) / kFloats, end = n * rows;
  const bool converts = converts_pairs();
  int64_t r = 0;
  for (; r * n + vectors * kFloats <= end && r < rows; ++r, x += n, y += n) {
    const Formula formula = constants.of<Formula>(r);
    int64_t i = 0, left = vectors;
    for (; left >= kMost; left -= kMost, i += kMost * kFloats)
      write_vectors<kMost>(y, x, i, formula, f, converts);
    for (; left > 0; --left, i += kFloats) write_vectors<1>(y, x, i, formula, f, converts);
  }
  return r;
}

/// The same by activation: of any but the commonest none.
template <class Formula, class T>
int64_t write_following(const Activation& f, T* y, const T* x, int64_t n, int64_t rows,
                        const RowConstants& constants) {
  if (f.kind == ActivationKind::swish)
    return write_following<Formula>(y, x, n, rows, constants, Swish(f));
  return is_plain(f) ? write_following<Formula>(y, x, n, rows, constants, Floor(f)) : 0;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
