// Rows that follow each other in memory, each with statistics of its own: one run of vectors.
#pragma once

#include "cpu/normalize/formulas.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// kCount vectors of one row from i on. What is written past the caches comes from memory, too:
/// lines of x far ahead are fetched.
template <int kCount, class T, class Formula, class F>
[[gnu::always_inline]] inline void write_vectors(T* y, const T* x, int64_t i,
                                                 const Formula& formula, const F& f,
                                                 bool is_streamed, bool converts) {
  constexpr int64_t kAhead = tuning::normalize::kRowAheadBytes / int64_t(sizeof(T));
  if (is_streamed)
    for (int64_t k = 0; k < kCount * kFloats; k += 64 / int64_t(sizeof(T)))
      __builtin_prefetch(x + i + kAhead + k);
  Floats v[kCount];
  const bool are_numbers = compute_vectors(v, x, i, formula, f, Whole{});
  if constexpr (kCount == 1) put(y + i, v[0], Whole{}, is_streamed, are_numbers);
#pragma GCC unroll 2
  for (int k = 0; k + 1 < kCount; k += 2)
    put_pair(y + i + k * kFloats, v[k], v[k + 1], is_streamed, are_numbers, converts);
}

/// The m elements from i on, up to a vector: the first `left` by one row's formula, the others by
/// the next one's.
template <class T, class Formula, class F, class Lanes>
[[gnu::always_inline]] inline void write_seam(T* y, const T* x, int64_t i, Lanes m, int64_t left,
                                              const Formula& formula, const Formula& next,
                                              const F& f, bool is_streamed) {
  const Floats from = load_wide(x + i, m);
  Floats v[1] = {select(Partial{left}, formula(from, i, m), next(from, i, m))};
  const bool are_numbers = activate_vectors(f, v);
  put(y + i, v[0], m, is_streamed, are_numbers);
}

/// y = f(formula(x)) for rows of n >= kFloats elements, one behind the other. y may be x.
template <class Formula, class T, class F>
[[gnu::noinline]] void write_following(T* y, const T* x, int64_t n, int64_t rows,
                                       const RowConstants& constants, const F f, bool is_streamed) {
  constexpr int kMost = std::is_same_v<F, Swish> ? 4 : 2;
  const bool converts = converts_pairs();
  const int64_t head = is_streamed ? std::min(n * rows, to_line(y)) : 0;
  int64_t i = 0, end = n;
  Formula formula = constants.of<Formula>(0);
  for (int64_t r = 0; r < rows; ++r, end += n) {
    for (int64_t now; i < head && i < end; i += now) {
      now = std::min({kFloats, head - i, end - i});
      write_seam(y, x, i, Partial{now}, now, formula, formula, f, false);
    }
    const auto one = [&] {
      if (i + kFloats > end) return;
      write_vectors<1>(y, x, i, formula, f, is_streamed, converts);
      i += kFloats;
    };
    if (is_streamed && ((i - head) & kFloats)) one();  // pairs are lines, or halves of them
    for (; i + kMost * kFloats <= end; i += kMost * kFloats)
      write_vectors<kMost>(y, x, i, formula, f, is_streamed, converts);
    while (i + kFloats <= end) one();
    if (r + 1 == rows) break;
    const Formula next = constants.of<Formula>(r + 1);
    if (i < end) {
      write_seam(y, x, i, Whole{}, end - i, formula, next, f, is_streamed);
      i += kFloats;
    }
    formula = next;
  }
  if (i < end) write_seam(y, x, i, Partial{end - i}, end - i, formula, formula, f, false);
}

/// The same by activation. Returns whether it is one of the commonest: others are not written.
template <class Formula, class T>
bool write_following(const Activation& f, T* y, const T* x, int64_t n, int64_t rows,
                     const RowConstants& constants, bool is_streamed) {
  if (f.kind == ActivationKind::swish)
    write_following<Formula>(y, x, n, rows, constants, Swish(f), is_streamed);
  else if (is_plain(f))
    write_following<Formula>(y, x, n, rows, constants, Floor(f), is_streamed);
  else
    return false;
  return true;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
