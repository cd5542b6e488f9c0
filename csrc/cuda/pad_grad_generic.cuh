// The gradient of padding of any plan: 64-bit offsets, a thread for each element; very long sums in
// pieces, a warp for each.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/launch.cuh"
#include "cuda/pad_grad_kernels.h"
#include "math/long_sum.h"

namespace cudml::cuda {

/// The terms of one element, by number: the positions of the fastest axis follow each other, but
/// those of a long sum along the folded axis come last.
template <class T>
struct PadGradTerms {
  using A = Acc<T>;

  const T* from;             // at the first position of every axis
  int64_t to = 0;            // the element's offset in the result
  int64_t count = 1;         // of terms
  int64_t folds;             // positions along the folded axis
  Preimages wide[kMaxRank];  // axes with several positions
  int64_t stride[kMaxRank];
  int wide_count = 0;

  __device__ PadGradTerms(const PadGradPlan& plan, const T* grad, int64_t element) : from(grad) {
    const PadGradAxis& folded = plan.axis[plan.folded];
    int64_t along = element;
    for (int d = plan.rank - 1; d > plan.folded; --d) along /= plan.axis[d].in;
    const Preimages fold = preimages_of(folded, along % folded.in);
    folds = fold.count;
    for (int d = plan.rank - 1; d >= 0; --d) {
      const PadGradAxis& a = plan.axis[d];
      const int64_t quotient = element / a.in, i = element - quotient * a.in;
      element = quotient;
      to += i * a.stride;
      if (d != plan.folded || !is_long()) add(preimages_of(a, i), a.grad_stride);
    }
    if (is_long()) add(fold, folded.grad_stride);
  }

  __device__ bool is_long() const { return folds > kPadGradPiece; }
  __device__ int64_t pieces() const {
    return is_long() ? (folds + kPadGradPiece - 1) / kPadGradPiece : 1;
  }

  /// Every 32nd term of a piece of a long sum.
  __device__ A lane_of_piece(int64_t piece, int64_t lane) const {
    const int64_t across = count / folds, begin = piece * kPadGradPiece;
    return sum(begin * across + lane, 32, min(begin + kPadGradPiece, folds) * across);
  }

  /// Terms number, number + step, … below end; 0 where there are none.
  __device__ A sum(int64_t number, int64_t step, int64_t end) const {
    LongSum<A> sum;
#pragma unroll 1
    for (; number < end; number += step) sum.add(at(number));
    return sum.total();
  }

 private:
  __device__ void add(const Preimages& p, int64_t grad_stride) {
    from += p.first * grad_stride;
    count *= p.count;
    if (p.count == 1) return;
    wide[wide_count] = p;
    stride[wide_count++] = grad_stride;
  }

  __device__ A at(int64_t number) const {
    int64_t offset = 0;
    for (int w = 0; w < wide_count; ++w) {
      const int64_t quotient = w + 1 < wide_count ? number / wide[w].count : 0;
      offset += (wide[w].at(number - quotient * wide[w].count) - wide[w].first) * stride[w];
      number = quotient;
    }
    return load_as_acc(from[offset]);
  }
};

/// `sums` holds those of the pieces of long sums, or is null where every thread adds up its own, in
/// the order of a warp's lanes all the same.
template <class T>
__global__ void __launch_bounds__(kPadGradThreads)
    pad_grad_generic_kernel(PadGradPlan plan, PadGradLongSums long_sums, const T* grad, T* y,
                            const Acc<T>* sums, int64_t elements) {
  const int64_t step = threads_in_grid();
  for (int64_t i = thread_in_grid(); i < elements; i += step) {
    const PadGradTerms<T> terms(plan, grad, i);
    const Acc<T>* const own =
        sums && terms.is_long() ? sums + long_sums.number(i) * plan.pieces : nullptr;
    LongSum<Acc<T>> sum;
#pragma unroll 1
    for (int64_t piece = 0; piece < terms.pieces(); ++piece) {
      Acc<T> lane[32];
      if (own) {
        lane[0] = own[piece];
      } else if (!terms.is_long()) {
        lane[0] = terms.sum(0, 1, terms.count);
      } else {
        for (int l = 0; l < 32; ++l) lane[l] = terms.lane_of_piece(piece, l);
        for (int half = 16; half > 0; half /= 2)
          for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
      }
      sum.add(lane[0]);
    }
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
    const int64_t sum_number = number / plan.pieces, piece = number - sum_number * plan.pieces;
    const PadGradTerms<T> terms(plan, grad, long_sums.element(sum_number));
    if (!terms.is_long() || piece >= terms.pieces()) continue;
    Acc<T> sum = terms.lane_of_piece(piece, threadIdx.x % 32);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (threadIdx.x % 32 == 0) sums[number] = sum;
  }
}

}  // namespace cudml::cuda
