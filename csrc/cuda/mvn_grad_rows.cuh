// The gradients of normalization where a cell is a row that some lanes or a block keep in
// registers: x and grad are read once.
#pragma once

#include "cuda/mvn_grad_generic.cuh"
#include "cuda/mvn_row_parts.cuh"

namespace cudml::cuda {

/// How the rows lie. Which thread takes which elements depends on their length alone, so that
/// neither layout nor alignment changes the order of a sum.
struct MvnGradRowShape {
  uint32_t length, threads;
  int64_t scale_step, bias_step;                      // 0 or 1
  bool is_x_aligned, is_grad_aligned, is_dx_aligned;  // every access is one aligned vector
  Access scale, bias;

  MvnGradRowShape(const MvnGradPlan& plan, const Operands& o)
      : length(uint32_t(plan.cell_size)),
        threads(uint32_t(mvn_grad_row_threads(plan))),
        scale_step(plan.reduced[0].scale),
        bias_step(plan.reduced[0].bias),
        is_x_aligned(is_aligned(plan, &MvnGradAxis::x, o.inputs[0])),
        is_grad_aligned(is_aligned(plan, &MvnGradAxis::grad, o.inputs[1])),
        is_dx_aligned(is_aligned(plan, &MvnGradAxis::dx, o.outputs[0])),
        scale(access_of(scale_step == 1 && is_aligned(plan, &MvnGradAxis::scale, o.inputs[2]),
                        scale_step, true)),
        bias(access_of(bias_step == 1 && is_aligned(plan, &MvnGradAxis::bias, o.inputs[3]),
                       bias_step, true)) {}

 private:
  static bool is_aligned(const MvnGradPlan& plan, int64_t MvnGradAxis::* stride, const void* data) {
    const int64_t vector = 16 / int64_t(size_of(plan.dtype));
    bool is_whole = plan.cell_size % vector == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    for (int d = 0; d < plan.kept_rank; ++d) is_whole &= plan.kept[d].*stride % vector == 0;
    return is_whole;
  }
};

/// A thread's part of one row.
template <class T>
struct MvnGradRow {
  using A = Acc<T>;
  static constexpr int kN = kVector<T>;

  const MvnGradArgs<T>& args;
  const MvnGradRowShape& shape;
  MvnGradPlace origin;
  uint32_t length, thread;  // none of a row that does not exist
  Carrier x[kMvnGradSlots], grad[kMvnGradSlots];

  __device__ __forceinline__ MvnGradRow(const MvnGradArgs<T>& args, const MvnGradRowShape& shape,
                                        const MvnGradPlace& origin, bool exists)
      : args(args),
        shape(shape),
        origin(origin),
        length(exists ? shape.length : 0),
        thread(threadIdx.x % shape.threads) {
    read(args.x + origin.x, shape.is_x_aligned, x);
    read(args.grad + origin.grad, shape.is_grad_aligned, grad);
  }

  /// The first element of the thread's s-th access.
  __device__ __forceinline__ uint32_t first(int s) const {
    return (uint32_t(s) * shape.threads + thread) * kN;
  }
  __device__ __forceinline__ bool has(int s, int e) const { return first(s) + e < length; }

  template <class Fn>
  __device__ __forceinline__ void for_each(const Fn& fn) const {
#pragma unroll
    for (int s = 0; s < kMvnGradSlots; ++s)
      if (has(s, 0)) fn(s);
  }

  __device__ __forceinline__ void read(const T* from, bool is_aligned,
                                       Carrier (&to)[kMvnGradSlots]) const {
    if (is_aligned) {
      for_each([&](int s) { to[s] = *reinterpret_cast<const Carrier*>(from + first(s)); });
      return;
    }
    for_each([&](int s) {
      RowSlot<T> slot = {};
#pragma unroll
      for (int e = 0; e < kN; ++e)
        if (has(s, e)) slot.v[e] = from[first(s) + e];
      to[s] = std::bit_cast<Carrier>(slot);
    });
  }

  /// The sum over the row's threads, known to all of them.
  template <class V>
  __device__ __forceinline__ V sum_of(V value, Raw<V>* scratch) const {
    return shape.threads <= 32 ? warp_all_sum(value, int(shape.threads))
                               : block_all_sum(value, scratch);
  }

  /// The statistics of the row, known to all threads.
  __device__ __forceinline__ Normalizer<A> own_normalizer(const MvnGradCells& cells,
                                                          Raw<double>* first_scratch,
                                                          Raw<TwoSums>* second_scratch) const {
    A pivot = 0;
    const auto n = double(shape.length);
    if (cells.use_mean) {
      A sum[2] = {};
      for_each([&](int s) {
        A v[kN];
        widen(unpacked<T>(x[s]), v);
#pragma unroll
        for (int e = 0; e < kN; ++e) sum[e % 2] += has(s, e) ? v[e] : A(0);
      });
      pivot = pivot_of<A>(sum_of(double(sum[0]) + double(sum[1]), first_scratch), n);
    }
    PivotSums<A> part;
    for_each([&](int s) {
      A v[kN];
      widen(unpacked<T>(x[s]), v);
#pragma unroll
      for (int e = 0; e < kN; ++e)
        if (has(s, e)) part.add(v[e], pivot, e % 2);
    });
    const TwoSums sums = sum_of(part.wide(), second_scratch);
    const Moments<A> moments = cells.use_mean ? moments_about<A>(n, pivot, sums.first, sums.second)
                                              : Moments<A>{n, 0, 0, sums.second};
    return normalizer_of(moments, cells.use_variance, cells.epsilon);
  }

  /// z and w of the thread's s-th access.
  __device__ __forceinline__ void elements(int s, const Normalizer<A>& normal, A (&z)[kN],
                                           A (&w)[kN]) const {
    A scales[kN];
    fetch_parameter(args.scale, shape.scale, origin.scale, s, shape.scale_step, scales);
    widen(unpacked<T>(grad[s]), w);
    widen(unpacked<T>(x[s]), z);
#pragma unroll
    for (int e = 0; e < kN; ++e) z[e] = normal(z[e]);
    if (args.activation != ActivationKind::identity) pass(s, z, scales, w);
#pragma unroll
    for (int e = 0; e < kN; ++e) w[e] *= scales[e];
  }

  /// The means of w and of w * z over the row, where they are its own, then dx, where it is wanted.
  /// Both passes are one loop: their elements take much code.
  __device__ __forceinline__ void finish(const MvnGradCells& cells, MvnGradState<A>& state,
                                         Raw<TwoSums>* scratch) const {
#pragma unroll 1
    for (bool is_last = !cells.has_own_sums;; is_last = true) {
      if (is_last && !args.dx) return;
      A first_sum[2] = {}, second_sum[2] = {};
      for_each([&](int s) {
        A z[kN], w[kN];
        elements(s, state.normal, z, w);
        if (is_last) return write(s, state, z, w);
#pragma unroll
        for (int e = 0; e < kN; ++e) {
          first_sum[e % 2] += has(s, e) ? w[e] : A(0);
          second_sum[e % 2] += has(s, e) ? w[e] * z[e] : A(0);
        }
      });
      if (is_last) return;
      const TwoSums part{double(first_sum[0]) + double(first_sum[1]),
                         double(second_sum[0]) + double(second_sum[1])};
      const TwoSums sums = sum_of(part, scratch);
      const auto n = double(shape.length);
      if (cells.use_mean) state.mean_w = static_cast<A>(sums.first / n);
      if (cells.use_variance) state.mean_wz = static_cast<A>(sums.second / n);
    }
  }

 private:
  __device__ __forceinline__ void write(int s, const MvnGradState<A>& state, const A (&z)[kN],
                                        A (&w)[kN]) const {
    T* const to = args.dx + origin.dx + first(s);
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      const A rest = w[e] - state.mean_w;
      w[e] = state.normal.factor * (args.takes_product ? fused(-z[e], state.mean_wz, rest) : rest);
    }
    const RowSlot<T> slot = narrow<T>(w);
    if (shape.is_dx_aligned) return store_vector(to, slot);
#pragma unroll
    for (int e = 0; e < kN; ++e)
      if (has(s, e)) to[e] = slot.v[e];
  }

  __device__ __forceinline__ void fetch_parameter(const Parameter<T>& p, Access access,
                                                  int64_t base, int s, int64_t step,
                                                  A (&out)[kN]) const {
    fetch(p, access, base + first(s) * step, out, [&](A(&values)[kN]) {
#pragma unroll
      for (int e = 0; e < kN; ++e) values[e] = has(s, e) ? p.at(base + first(s) + e) : A(0);
    });
  }

  /// h takes the place of grad.
  __device__ __forceinline__ void pass(int s, const A (&z)[kN], const A (&scales)[kN],
                                       A (&grad)[kN]) const {
    A biases[kN];
    fetch_parameter(args.bias, shape.bias, origin.bias, s, shape.bias_step, biases);
#pragma unroll
    for (int e = 0; e < kN; ++e)
      grad[e] = pass_value<A>(args.activation, args.a, args.b, grad[e],
                              fused(z[e], scales[e], biases[e]));
  }
};

/// dx, where it is wanted. The rows' states are known where `are_known`, but for the means over
/// them; else they are made and, where totals follow, kept.
template <class T>
__global__ __launch_bounds__(kMvnGradMostRowThreads) void mvn_grad_row_kernel(
    const MvnGradArgs<T> args, const MvnGradCells cells, const MvnGradRowShape shape,
    const bool are_known, MvnGradState<Acc<T>>* states) {
  using A = Acc<T>;
  DEVICE_SHARED(first_scratch, Raw<double>[32]);
  DEVICE_SHARED(second_scratch, Raw<TwoSums>[32]);
  DEVICE_SHARED(third_scratch, Raw<TwoSums>[32]);
  const uint32_t rows = blockDim.x / shape.threads;
  const int64_t step = step_of_blocks(rows);
  for (int64_t first = first_of_block(rows); first < cells.kept.count; first += step) {
    const int64_t c = first + threadIdx.x / shape.threads;
    const bool exists = c < cells.kept.count;
    const MvnGradRow<T> row(args, shape, cells.kept.at(exists ? c : first), exists);
    MvnGradState<A> state;
    if (!are_known)
      state.normal = row.own_normalizer(cells, first_scratch, second_scratch);
    else if (exists)
      state = states[c];
    row.finish(cells, state, third_scratch);
    if (!are_known && states && exists && row.thread == 0) states[c] = state;
    if (shape.threads > 32) __syncthreads();  // the next row's sums take the same shared memory
  }
}

}  // namespace cudml::cuda
