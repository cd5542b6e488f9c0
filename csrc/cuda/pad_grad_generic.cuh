// The gradient of padding of any plan: 64-bit offsets, a thread for each element; very long sums in
// pieces, a warp for each.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "cuda/pad_grad_kernels.h"
#include "math/long_sum.h"

namespace cudml::cuda {

/// The terms of one element.
template <class T>
struct PadGradTerms {
  using A = Acc<T>;

  const T* from;       // at the first position of every axis but the folded one
  int64_t across = 1;  // terms of one position of the folded axis
  int64_t to = 0;      // the element's offset in the result
  int64_t stride;      // of the folded axis
  Preimages fold;
  Preimages wide[kMaxRank - 1];  // axes with several positions, the fastest first
  int64_t wide_stride[kMaxRank - 1];
  int wide_count = 0;

  __device__ PadGradTerms(const PadGradPlan& plan, const T* grad, int64_t element) : from(grad) {
    for (int d = plan.rank - 1; d >= 0; --d) {
      const PadGradAxis& a = plan.axis[d];
      const int64_t quotient = element / a.in, i = element - quotient * a.in;
      element = quotient;
      to += i * a.stride;
      const Preimages p = preimages_of(a, i);
      if (d == plan.folded) {
        fold = p;
        stride = a.grad_stride;
        continue;
      }
      from += p.first * a.grad_stride;
      if (p.count == 1) continue;
      across *= p.count;
      wide[wide_count] = p;
      wide_stride[wide_count++] = a.grad_stride;
    }
  }

  __device__ int64_t count() const { return fold.count * across; }

  /// The terms of one position of the folded axis follow each other.
  __device__ A at(int64_t number) const {
    if (wide_count == 0) return load_as_acc(from[fold.at(number) * stride]);
    const int64_t k = number / across;
    int64_t rest = number - k * across, offset = fold.at(k) * stride;
    for (int w = 0; w < wide_count; ++w) {
      const int64_t quotient = rest / wide[w].count;
      offset += (wide[w].at(rest - quotient * wide[w].count) - wide[w].first) * wide_stride[w];
      rest = quotient;
    }
    return load_as_acc(from[offset]);
  }
};

/// `sums` holds those of the pieces of long sums, or is null where there are none.
template <class T>
__global__ void __launch_bounds__(kPadGradThreads)
    pad_grad_generic_kernel(PadGradPlan plan, PadGradLongSums long_sums, const T* grad, T* y,
                            const Acc<T>* sums, int64_t elements) {
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    const PadGradTerms<T> terms(plan, grad, i);
    const bool is_long = sums && terms.fold.count > kPadGradPiece;
    const Acc<T>* const pieces = is_long ? sums + long_sums.number(i) * plan.pieces : nullptr;
    const int64_t n =
        is_long ? (terms.fold.count + kPadGradPiece - 1) / kPadGradPiece : terms.count();
    LongSum<Acc<T>> sum;
#pragma unroll 1
    for (int64_t k = 0; k < n; ++k) sum.add(is_long ? pieces[k] : terms.at(k));
    y[terms.to] = store_as<T>(sum.total());
  }
}

/// Lanes take every 32nd term of a piece; what they add up to is joined by halves.
template <class T>
__global__ void __launch_bounds__(kPadGradThreads)
    pad_grad_pieces_kernel(PadGradPlan plan, PadGradLongSums long_sums, const T* grad, Acc<T>* sums,
                           int64_t pieces) {
  const int64_t step = threads_in_grid() / 32;
  for (int64_t number = warp_in_grid(); number < pieces; number += step) {
    const int64_t sum_number = number / plan.pieces;
    const PadGradTerms<T> terms(plan, grad, long_sums.element(sum_number));
    const int64_t begin = (number - sum_number * plan.pieces) * kPadGradPiece;
    const int64_t end = min(begin + kPadGradPiece, terms.fold.count);
    LongSum<Acc<T>> lane;
#pragma unroll 1
    for (int64_t k = begin * terms.across + threadIdx.x % 32; k < end * terms.across; k += 32)
      lane.add(terms.at(k));
    Acc<T> sum = lane.total();
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (threadIdx.x % 32 == 0) sums[number] = sum;
  }
}

}  // namespace cudml::cuda
