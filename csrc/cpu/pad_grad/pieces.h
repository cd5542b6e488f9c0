// Gradients of padding whose few elements have very long sums: in pieces that threads share.
#pragma once

#include "cpu/pad_grad/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
void gather_pieces(const PadGradPlan& plan, const T* grad, T* result, Acc<T>* sums) {
  const PadGradLongSums long_sums(plan);
  parallel_for(plan.long_sums * plan.pieces, work_bytes(plan), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const Elements<T> elements(plan, grad, long_sums.element(task / plan.pieces));
      const int64_t piece = task % plan.pieces;
      if (piece * kPadGradPiece < elements.gather.folds())
        sums[task] = elements.gather.piece(piece);
    }
  });
  parallel_for(plan.elements(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    Elements<T> elements(plan, grad, begin);
    for (int64_t e = begin; e < end; ++e) {
      const int64_t pieces = (elements.gather.folds() + kPadGradPiece - 1) / kPadGradPiece;
      Acc<T> sum;
      if (pieces > 1) {
        const Acc<T>* next = sums + long_sums.number(e) * plan.pieces;
        sum = long_sum<Acc<T>>(pieces, [&] { return *next++; });
      } else {
        sum = elements.gather.sum();
      }
      result[elements.offset()] = store_as<T>(sum);
      if (e + 1 < end) elements.advance();
    }
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
