// Sums of any number of terms in a fixed tree, whose chains of additions are short.
#pragma once

#include <cstdint>

#include "core/hd.h"

namespace cudml {

/// Terms of a chain.
inline constexpr int64_t kChain = 256;

/// Terms one after the other, in chains of kChain, whose sums are the terms of further chains, and
/// so on. The first term of all is taken as it is.
template <class A>
class LongSum {
 public:
  HD void add(A term) {
    int64_t number = count_++;
#if defined(__CUDA_ARCH__)
#pragma unroll  // for the chains to stay in registers
#endif
    for (int level = 0; level < kLevels; ++level, number /= kChain) {
      const bool is_top = level == kLevels - 1;  // a chain without end, after 2^32 terms
      const bool is_first = is_top ? number == 0 : number % kChain == 0;
      chain_[level] = is_first ? term : chain_[level] + term;
      if (is_top || number % kChain != kChain - 1) break;
      term = chain_[level];
    }
  }

  /// Of one term or more.
  HD A total() const {
    A sum{};
    bool is_empty = true;
    int64_t number = count_;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int level = 0; level < kLevels; ++level, number /= kChain) {
      if (level == kLevels - 1 ? number == 0 : number % kChain == 0) continue;
      sum = is_empty ? chain_[level] : chain_[level] + sum;
      is_empty = false;
    }
    return sum;
  }

 private:
  static constexpr int kLevels = 5;
  A chain_[kLevels] = {};
  int64_t count_ = 0;
};

/// term() + term() + …, called n times, 0 < n: one after the other.
template <class A, class Term>
HD A chain_sum(int64_t n, Term&& term) {
  A sum = term();
  for (int64_t i = 1; i < n; ++i) sum = sum + term();
  return sum;
}

/// The LongSum of n terms.
template <class A, class Term>
HD A long_sum(int64_t n, Term&& term) {
  if (n <= kChain) return chain_sum<A>(n, term);
  LongSum<A> sum;
  for (int64_t i = 0; i < n; ++i) sum.add(term());
  return sum.total();
}

}  // namespace cudml
