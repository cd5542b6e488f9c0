// The terms of one element of a gradient of padding, and their sum in its fixed order.
#pragma once

#include "core/scalar.h"
#include "cpu/simd/vector.h"
#include "cpu/threads/interrupt.h"
#include "math/long_sum.h"
#include "ops/pad_grad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Sums that advance side by side, of every kLaneSums-th term each; as many on every processor.
constexpr int64_t kLaneSums = 16;

/// term(begin) + … + term(end - 1), in lanes that are joined by halves.
template <class A, class Term>
A piece_sum(int64_t begin, int64_t end, const Term& term) {
  using Lanes = Vector<A, int(kLaneSums * sizeof(A))>;
  Lanes sums = {};
  int64_t k = begin;
  for (; k + kLaneSums <= end; k += kLaneSums) {
    Lanes terms;
    for (int64_t l = 0; l < kLaneSums; ++l) terms[l] = term(k + l);
    sums += terms;
  }
  for (int64_t l = 0; k < end; ++k, ++l) sums[l] += term(k);
  for (int64_t half = kLaneSums / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

template <class T>
class Gather {
 public:
  using A = Acc<T>;

  Gather(const PadGradPlan& plan, const T* grad)
      : plan_(plan), grad_(grad), folded_(plan.axis[plan.folded]) {}

  /// Stands at element i of an axis; settle() follows the last one.
  void place(int d, int64_t i) { preimages_[d] = preimages_of(plan_.axis[d], i); }

  void settle() {
    from_ = grad_;
    terms_ = 1;
    wide_count_ = 0;
    for (int d = 0; d < plan_.rank; ++d) {
      if (d == plan_.folded) continue;
      const Preimages& p = preimages_[d];
      from_ += p.first * plan_.axis[d].grad_stride;
      terms_ *= p.count;
      if (p.count > 1) wide_[wide_count_++] = d;
    }
  }

  /// Positions along the folded axis.
  int64_t folds() const { return fold().count; }

  /// Those of a piece, beyond the last of which there may be none.
  A piece(int64_t number) const {
    const int64_t begin = number * kPadGradPiece;
    const int64_t end = std::min(folds(), begin + kPadGradPiece);
    pace_.add(end - begin);
    const Preimages& p = fold();
    if (wide_count_ > 0)
      return piece_sum<A>(begin, end, [&](int64_t k) { return across(p.at(k)); });
    const int64_t step = p.gap[0] * folded_.grad_stride;
    const T* const first = from_ + p.first * folded_.grad_stride;
    if (p.gap[0] == p.gap[1] && step == 1)
      return piece_sum<A>(begin, end, [&](int64_t k) { return load_as_acc(first[k]); });
    return piece_sum<A>(
        begin, end, [&](int64_t k) { return load_as_acc(from_[p.at(k) * folded_.grad_stride]); });
  }

  A sum() const {
    int64_t k = 0;
    const Preimages& p = fold();
    pace_.add(1);
    if (p.count <= kChain) return chain_sum<A>(p.count, [&] { return across(p.at(k++)); });
    const int64_t pieces = (p.count + kPadGradPiece - 1) / kPadGradPiece;
    return long_sum<A>(pieces, [&] { return piece(k++); });
  }

 private:
  const Preimages& fold() const { return preimages_[plan_.folded]; }

  /// What the other axes' positions add up to at position q of the folded one.
  A across(int64_t q) const {
    const T* at = from_ + q * folded_.grad_stride;
    if (wide_count_ == 0) return load_as_acc(*at);
    int64_t number[kMaxRank] = {};
    return long_sum<A>(terms_, [&] {
      const A term = load_as_acc(*at);
      pace_.add(1);
      for (int w = wide_count_ - 1; w >= 0; --w) {
        const Preimages& p = preimages_[wide_[w]];
        const int64_t stride = plan_.axis[wide_[w]].grad_stride, k = number[w]++;
        if (k + 1 < p.count) {
          at += p.gap[k & 1] * stride;
          break;
        }
        at -= (p.at(k) - p.first) * stride;
        number[w] = 0;
      }
      return term;
    });
  }

  const PadGradPlan& plan_;
  const T* grad_;
  const PadGradAxis& folded_;
  Preimages preimages_[kMaxRank];
  const T* from_ = nullptr;              // at the first position of every other axis
  int64_t terms_ = 1;                    // of one position of the folded axis
  int wide_[kMaxRank], wide_count_ = 0;  // axes with several positions
  mutable Pace pace_;                    // of terms
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
