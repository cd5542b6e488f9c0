// The gradients of normalization where cells consist of packed runs: some lanes of a warp take a
// piece of one, whole vectors at a time.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/mvn_grad_parts.cuh"

namespace cudml::cuda {

/// How the pieces lie. Which lane takes which elements depends on the run's length alone, so that
/// neither layout nor alignment changes the order of a sum.
struct MvnGradPieceShape {
  MvnGradWalk places;  // kept and outer reduced dimensions
  MvnGradSplit segments, row_pieces;
  int64_t pieces;
  uint32_t run, segment, rows, piece_rows, lanes;
  MvnGradPlace row;                                   // from one run to the one beside it
  bool is_x_aligned, is_grad_aligned, is_dx_aligned;  // every access is one aligned vector
  bool is_constant;                                   // else parts hold w
  Access scale, bias;

  MvnGradPieceShape(const MvnGradPlan& plan, const MvnGradPieces& p, const Operands& o)
      : segments(p.segments),
        row_pieces(p.row_pieces),
        pieces(p.parts.count),
        run(uint32_t(p.run)),
        segment(uint32_t(p.segment)),
        rows(uint32_t(p.rows)),
        piece_rows(uint32_t(p.piece_rows)),
        lanes(uint32_t(p.lanes)),
        row(step_of(p.row, 0)),
        is_x_aligned(is_aligned(plan, &MvnGradAxis::x, o.inputs[0])),
        is_grad_aligned(is_aligned(plan, &MvnGradAxis::grad, o.inputs[1])),
        is_dx_aligned(is_aligned(plan, &MvnGradAxis::dx, o.outputs[0])),
        is_constant(p.is_constant),
        scale(access(plan, &MvnGradAxis::scale, o.inputs[2])),
        bias(access(plan, &MvnGradAxis::bias, o.inputs[3])) {
    const MvnGradCellStrides cells(plan);
    for (int d = 0; d < plan.kept_rank; ++d)
      places.add(plan.kept[d].size, step_of(plan.kept[d], cells.kept[d]));
    for (int d = 0; d < p.outer_rank; ++d)
      places.add(plan.reduced[d].size, step_of(plan.reduced[d], 0));
  }

 private:
  static bool is_aligned(const MvnGradPlan& plan, int64_t MvnGradAxis::* stride, const void* data) {
    const int64_t vector = 16 / int64_t(size_of(plan.dtype));
    const int inner = plan.reduced_rank - 1;
    bool is_whole =
        plan.reduced[inner].size % vector == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    for (int d = 0; d < plan.kept_rank; ++d) is_whole &= plan.kept[d].*stride % vector == 0;
    for (int d = 0; d < inner; ++d) is_whole &= plan.reduced[d].*stride % vector == 0;
    return is_whole;
  }
  static Access access(const MvnGradPlan& plan, int64_t MvnGradAxis::* stride, const void* data) {
    const int64_t step = plan.reduced[plan.reduced_rank - 1].*stride;
    return access_of(step == 1 && is_aligned(plan, stride, data), step, true);
  }
};

/// A lane's view of one piece: where it begins, the runs it has and the elements of each.
template <class T>
struct MvnGradPiece {
  static constexpr int kN = kVector<T>, kSlots = kMvnGradPieceSlots;

  const MvnGradArgs<T>& args;
  const MvnGradPieceShape& shape;
  MvnGradPlace origin;
  uint32_t rows = 0, length = 0, lane;
  float scale = 1, bias = 0;  // of the piece, where they do not change

  __device__ __forceinline__ MvnGradPiece(const MvnGradArgs<T>& args,
                                          const MvnGradPieceShape& shape, int64_t number)
      : args(args), shape(shape), lane(threadIdx.x % shape.lanes) {
    if (number >= shape.pieces) return;
    const int64_t rest = shape.segments.quotient(number);
    const auto segment = uint32_t(number - rest * shape.segments.divisor);
    const int64_t place = shape.row_pieces.quotient(rest);
    const auto row_piece = uint32_t(rest - place * shape.row_pieces.divisor);
    origin = shape.places.at(place);
    origin.add(shape.row, int64_t(row_piece) * shape.piece_rows);
    const uint32_t begin = segment * shape.segment;
    origin.x += begin;
    origin.grad += begin;
    origin.dx += begin;
    rows = min(shape.piece_rows, shape.rows - row_piece * shape.piece_rows);
    length = min(shape.segment, shape.run - begin);
    if (shape.scale == Access::same)
      scale = args.scale.at(origin.scale);
    else
      origin.scale += begin;
    if (shape.bias == Access::same)
      bias = args.bias.at(origin.bias);
    else
      origin.bias += begin;
  }

  /// Calls fn(batch) for the lane's accesses, some at a time.
  template <class Fn>
  __device__ __forceinline__ void for_batches(const Fn& fn) const {
    Place next{0, lane * kN};
    while (next.row < rows) {
      Place batch[kSlots];
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        batch[s] = next;
        next.at += shape.lanes * kN;
        if (next.at - lane * kN >= length) next = {next.row + 1, lane * kN};
      }
      fn(batch);
    }
  }

  struct Place {
    uint32_t row, at;
  };

  /// How many elements the access at a place has.
  __device__ __forceinline__ uint32_t count(const Place& p) const {
    return p.row < rows && p.at < length ? min(length - p.at, uint32_t(kN)) : 0;
  }

  __device__ __forceinline__ void read(const T* from, int64_t row_step, bool is_aligned,
                                       const Place (&batch)[kSlots], Carrier (&to)[kSlots]) const {
    if (is_aligned) {
#pragma unroll
      for (int s = 0; s < kSlots; ++s)
        if (count(batch[s]) > 0)
          to[s] = *reinterpret_cast<const Carrier*>(from + batch[s].row * row_step + batch[s].at);
      return;
    }
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const T* at = from + batch[s].row * row_step + batch[s].at;
      const uint32_t n = count(batch[s]);
      Vector<T, kN> slot = {};
#pragma unroll
      for (int e = 0; e < kN; ++e)
        if (uint32_t(e) < n) slot.v[e] = at[e];
      to[s] = std::bit_cast<Carrier>(slot);
    }
  }
  __device__ __forceinline__ void read_x(const Place (&batch)[kSlots],
                                         Carrier (&to)[kSlots]) const {
    read(args.x + origin.x, shape.row.x, shape.is_x_aligned, batch, to);
  }
  __device__ __forceinline__ void read_grad(const Place (&batch)[kSlots],
                                            Carrier (&to)[kSlots]) const {
    read(args.grad + origin.grad, shape.row.grad, shape.is_grad_aligned, batch, to);
  }

  __device__ __forceinline__ void fetch_parameter(const Parameter<T>& p, Access access,
                                                  int64_t from, const Place& place, float same,
                                                  float (&out)[kN]) const {
    if (access == Access::same || !p.data) {
#pragma unroll
      for (int e = 0; e < kN; ++e) out[e] = same;
      return;
    }
    from += place.at;
    fetch(p, access, from, out, [&](float (&values)[kN]) {
#pragma unroll
      for (int e = 0; e < kN; ++e) values[e] = uint32_t(e) < count(place) ? p.at(from + e) : 0.0f;
    });
  }

  /// z of an access' x, and h of its grad; with kWeighs w instead.
  template <bool kWeighs>
  __device__ __forceinline__ void elements(const Place& place, const Carrier& x,
                                           const Carrier& grad, const Normalizer<float>& normal,
                                           bool passes, float (&z)[kN], float (&h)[kN]) const {
    widen(unpacked<T>(grad), h);
    if (args.reads_x) {
      widen(unpacked<T>(x), z);
#pragma unroll
      for (int e = 0; e < kN; ++e) z[e] = normal(z[e]);
    } else {
#pragma unroll
      for (int e = 0; e < kN; ++e) z[e] = 0;
    }
    const bool weighs = kWeighs || !shape.is_constant;
    if (!passes && !weighs) return;
    float scales[kN];
    fetch_parameter(args.scale, shape.scale, origin.scale, place, scale, scales);
    if (passes) {
      float biases[kN];
      fetch_parameter(args.bias, shape.bias, origin.bias, place, bias, biases);
      args.pass(z, scales, biases, h);
    }
    if (!weighs) return;
#pragma unroll
    for (int e = 0; e < kN; ++e) h[e] *= scales[e];
  }
};

/// The mean of a lane's first elements, if that is a number.
template <class T>
__device__ __forceinline__ float first_pivot(
    const MvnGradPiece<T>& piece,
    const typename MvnGradPiece<T>::Place (&batch)[kMvnGradPieceSlots],
    const Carrier (&x)[kMvnGradPieceSlots]) {
  constexpr int kN = kVector<T>;
  float sum = 0, one = 0;
  uint32_t count = 0;
#pragma unroll
  for (int s = 0; s < kMvnGradPieceSlots; ++s) {
    const uint32_t n = piece.count(batch[s]);
    if (n == 0) continue;
    float v[kN];
    widen(unpacked<T>(x[s]), v);
    if (count == 0) one = v[0];
#pragma unroll
    for (int e = 0; e < kN; ++e) sum += uint32_t(e) < n ? v[e] : 0.0f;
    count += n;
  }
  const float pivot = pivot_near(sum / float(count), count, [&] { return one; });
  return is_finite(pivot) ? pivot : 0.0f;
}

/// The lane's sums over its elements, about its own pivot or of z.
template <class T>
__device__ __forceinline__ MvnGradPart piece_sums(const MvnGradPiece<T>& piece, MvnGradPass pass,
                                                  bool finds_pivot, Normalizer<float> normal) {
  constexpr int kN = kVector<T>, kSlots = kMvnGradPieceSlots;
  const bool has_moments = pass == MvnGradPass::moments || pass == MvnGradPass::together;
  const bool reads_grad = pass != MvnGradPass::moments;
  const bool passes = !has_moments && piece.args.activation != ActivationKind::identity;
  MvnGradPart part;
  bool is_first = true;
  piece.for_batches([&](const typename MvnGradPiece<T>::Place(&batch)[kSlots]) {
    Carrier x[kSlots] = {}, grad[kSlots] = {};
    if (piece.args.reads_x) piece.read_x(batch, x);
    if (reads_grad) piece.read_grad(batch, grad);
    if (is_first && finds_pivot) normal.pivot = first_pivot(piece, batch, x);
    is_first = false;
    MvnGradThreadSums sums;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const uint32_t n = piece.count(batch[s]);
      if (n == 0) continue;
      part.count += n;
      float y[kN], h[kN];
      piece.template elements<false>(batch[s], x[s], grad[s], normal, passes, y, h);
      if (n < kN) {
#pragma unroll
        for (int e = 0; e < kN; ++e) {
          y[e] = uint32_t(e) < n ? y[e] : 0.0f;
          h[e] = uint32_t(e) < n ? h[e] : 0.0f;
        }
      }
      sums.add(y, h, has_moments);
    }
    sums.drain(part);
  });
  part.pivot = normal.pivot;
  return part;
}

/// What the pieces add up to.
template <class T>
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_piece_sums_kernel(
    const MvnGradArgs<T> args, const MvnGradPieceShape shape, const MvnGradPass pass,
    const bool finds_pivot, const MvnGradState<float>* states, MvnGradPart* parts) {
  const uint32_t abreast = kMvnGradPartThreads / shape.lanes;
  const int64_t step = step_of_blocks(abreast);
  for (int64_t first = first_of_block(abreast); first < shape.pieces; first += step) {
    const int64_t number = first + threadIdx.x / shape.lanes;
    MvnGradPiece<T> piece(args, shape, number);
    Normalizer<float> normal;
    const bool has_z = pass == MvnGradPass::products || pass == MvnGradPass::rest;
    if (has_z && piece.rows > 0) normal = states[piece.origin.cell].normal;
    if (pass == MvnGradPass::rest && piece.rows > 0 && parts[number].tells_z(normal))
      piece.rows = 0;
    const bool exists = piece.rows > 0;
    MvnGradPart part = piece_sums(piece, pass, finds_pivot, normal);
    const float pivot = __shfl_sync(kFullMask, part.pivot, 0, int(shape.lanes));
    if (!has_z) part.move(pivot);
    const TwoSums moments = warp_all_sum(TwoSums{part.y, part.square}, int(shape.lanes));
    const TwoSums products = warp_all_sum(TwoSums{part.h, part.hy}, int(shape.lanes));
    if (!exists || piece.lane != 0) continue;
    parts[number] = {moments.first,   moments.second,      products.first,
                     products.second, has_z ? NAN : pivot, piece.rows * piece.length};
  }
}

/// dx. From the end: what the sums read last is still in the cache.
template <class T>
__global__ __launch_bounds__(kMvnGradPartThreads) void mvn_grad_piece_apply_kernel(
    const MvnGradArgs<T> args, const MvnGradPieceShape shape, const MvnGradState<float>* states) {
  constexpr int kN = kVector<T>, kSlots = kMvnGradPieceSlots;
  const uint32_t abreast = kMvnGradPartThreads / shape.lanes;
  const int64_t step = step_of_blocks(abreast);
  const bool passes = args.activation != ActivationKind::identity;
  const bool needs_z = args.takes_product || passes;
  for (int64_t last = first_of_block(abreast); last < shape.pieces; last += step) {
    const int64_t number = shape.pieces - 1 - (last + threadIdx.x / shape.lanes);
    if (number < 0) continue;
    const MvnGradPiece<T> piece(args, shape, number);
    const MvnGradState<float> state = states[piece.origin.cell];
    piece.for_batches([&](const typename MvnGradPiece<T>::Place(&batch)[kSlots]) {
      Carrier x[kSlots] = {}, grad[kSlots] = {};
      if (needs_z) piece.read_x(batch, x);
      piece.read_grad(batch, grad);
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        const uint32_t n = piece.count(batch[s]);
        if (n == 0) continue;
        float z[kN], w[kN];
        piece.template elements<true>(batch[s], x[s], grad[s], state.normal, passes, z, w);
#pragma unroll
        for (int e = 0; e < kN; ++e) w[e] = args.dx_of(z[e], w[e], state);
        const Vector<T, kN> slot = narrow<T>(w);
        T* const to = args.dx + piece.origin.dx + batch[s].row * shape.row.dx + batch[s].at;
        if (shape.is_dx_aligned) {
          store_vector(to, slot);
          continue;
        }
#pragma unroll
        for (int e = 0; e < kN; ++e)
          if (uint32_t(e) < n) to[e] = slot.v[e];
      }
    });
  }
}

}  // namespace cudml::cuda
