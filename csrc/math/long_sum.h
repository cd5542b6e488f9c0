// Sums of any number of terms in a fixed tree, whose chains of additions are short.
#pragma once

#include <cstdint>

#include "core/hd.h"

namespace cudml {

/// Terms of a chain.
inline constexpr int64_t kChain = 256;

/// term() + term() + …, called n times, 0 < n: one after the other.
template <class A, class Term>
HD A chain_sum(int64_t n, Term&& term) {
  A sum = term();
  for (int64_t i = 1; i < n; ++i) sum += term();
  return sum;
}

/// The same in chains of kChain terms, whose sums are the terms of further chains, and so on.
template <class A, class Term>
HD A long_sum(int64_t n, Term&& term) {
  if (n <= kChain) return chain_sum<A>(n, term);
  constexpr int kLevels = 8;  // kChain to the eighth is more than there are numbers
  A waiting[kLevels] = {};    // of each level the chain that is not whole yet
  const int64_t whole = (n - 1) / kChain;
  for (int64_t chain = 0; chain < whole; ++chain) {
    A sum = chain_sum<A>(kChain, term);
    int64_t number = chain;
    for (int level = 0;; ++level, number /= kChain) {
      waiting[level] = number % kChain == 0 ? sum : waiting[level] + sum;
      if (number % kChain != kChain - 1) break;
      sum = waiting[level];
    }
  }
  A sum = chain_sum<A>(n - whole * kChain, term);
  int64_t number = whole;
  for (int level = 0; number > 0; ++level, number /= kChain)
    if (number % kChain != 0) sum = waiting[level] + sum;
  return sum;
}

}  // namespace cudml
