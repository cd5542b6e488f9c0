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
  double inverse_length;
  int64_t scale_step, bias_step;                      // 0 or 1
  bool is_x_aligned, is_grad_aligned, is_dx_aligned;  // every access is one aligned vector
  Access scale, bias;

  MvnGradRowShape(const MvnGradPlan& plan, const Operands& o)
      : length(uint32_t(plan.cell_size)),
        threads(uint32_t(mvn_grad_row_threads(plan))),
        inverse_length(1.0 / double(plan.cell_size)),
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

/// Some elements, `count` of a vector. Not inlined: it would be copied for each of a thread's
/// accesses.
template <class T>
__device__ __noinline__ Carrier load_few(const T* from, int count) {
  RowSlot<T> slot = {};
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e)
    if (e < count) slot.v[e] = from[e];
  return std::bit_cast<Carrier>(slot);
}
template <class T>
__device__ __noinline__ void store_few(T* to, Carrier carrier, int count) {
  const auto slot = unpacked<T>(carrier);
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e)
    if (e < count) to[e] = slot.v[e];
}
template <class T, class A = Acc<T>>
__device__ __noinline__ Values<A, kVector<A>> load_few(Parameter<T> p, int64_t from, int count) {
  Values<A, kVector<A>> values;
#pragma unroll
  for (int e = 0; e < kVector<A>; ++e) values.v[e] = e < count ? p.at(from + e) : A(0);
  return values;
}

/// Has the compiler forget what it knows of a register: else it keeps the elements that were taken
/// out of it, or the addresses that were made of it, which need more registers than making them
/// again needs time.
__device__ __forceinline__ void forget([[maybe_unused]] uint32_t& word) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(word));
#endif
}
__device__ __forceinline__ void forget(Carrier& c) {
  forget(c.x);
  forget(c.y);
  forget(c.z);
  forget(c.w);
}

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
  /// Elements of the s-th access, some of them beyond a vector.
  __device__ __forceinline__ int left(int s) const { return int(length - first(s)); }

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
    for_each([&](int s) { to[s] = load_few(from + first(s), left(s)); });
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
      const double all = sum_of(double(sum[0]) + double(sum[1]), first_scratch);
      pivot = pivot_near(pivot_of<A>(all, n), n, [&] { return load_as_acc(args.x[origin.x]); });
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

  /// The means of w and of w * z over the row, where they are its own, then dx, where it is wanted.
  /// Both passes are one loop: their elements take much code.
  __device__ __forceinline__ void finish(const MvnGradCells& cells, MvnGradState<A>& state,
                                         Raw<TwoSums>* scratch) {
#pragma unroll 1
    for (bool is_last = !cells.has_own_sums;; is_last = true) {
      if (is_last && !args.dx) return;
      forget(thread);
#pragma unroll
      for (int s = 0; s < kMvnGradSlots; ++s) {
        forget(x[s]);
        forget(grad[s]);
      }
      A first_sum[2] = {}, second_sum[2] = {};
      for_each([&](int s) {
        Parts result;
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          A z[kPart], w[kPart];
          elements(s, p, state.normal, z, w);
#pragma unroll
          for (int e = 0; e < kPart; ++e) {
            if (is_last) {
              w[e] = args.dx_of(z[e], w[e], state);
            } else {
              first_sum[e % 2] += w[e];
              second_sum[e % 2] = fused(w[e], z[e], second_sum[e % 2]);
            }
          }
          if (is_last) result.v[p] = narrow<T>(w);
        }
        if (is_last) write(s, result);
      });
      if (is_last) return;
      const TwoSums part{double(first_sum[0]) + double(first_sum[1]),
                         double(second_sum[0]) + double(second_sum[1])};
      const TwoSums sums = sum_of(part, scratch);
      if (cells.use_mean) state.mean_w = static_cast<A>(sums.first * shape.inverse_length);
      if (cells.use_variance) state.mean_wz = static_cast<A>(sums.second * shape.inverse_length);
    }
  }

 private:
  /// An access is worked on in parts: few values of each are in registers beside the row.
  static constexpr int kPart = kVector<A>, kParts = kN / kPart;
  struct Parts {
    Vector<T, kPart> v[kParts];
  };

  /// z and w of part p of the thread's s-th access, 0 beyond the row.
  __device__ __forceinline__ void elements(int s, int p, const Normalizer<A>& normal, A (&z)[kPart],
                                           A (&w)[kPart]) const {
    A scales[kPart];
    fetch_parameter(args.scale, shape.scale, origin.scale, s, p, shape.scale_step, scales);
    widen(std::bit_cast<Parts>(grad[s]).v[p], w);
    widen(std::bit_cast<Parts>(x[s]).v[p], z);
#pragma unroll
    for (int e = 0; e < kPart; ++e) z[e] = normal(z[e]);
    if (args.activation != ActivationKind::identity) {
      A biases[kPart];
      fetch_parameter(args.bias, shape.bias, origin.bias, s, p, shape.bias_step, biases);
      args.pass(z, scales, biases, w);
    }
    const int count = left(s) - p * kPart;
#pragma unroll
    for (int e = 0; e < kPart; ++e) w[e] *= scales[e];
    if (count >= kPart) return;
#pragma unroll
    for (int e = 0; e < kPart; ++e)
      if (e >= count) z[e] = w[e] = 0;
  }

  __device__ __forceinline__ void write(int s, const Parts& result) const {
    T* const to = args.dx + origin.dx + first(s);
    if (shape.is_dx_aligned)
      store_vector(to, std::bit_cast<RowSlot<T>>(result));
    else
      store_few(to, std::bit_cast<Carrier>(result), left(s));
  }

  __device__ __forceinline__ void fetch_parameter(const Parameter<T>& parameter, Access access,
                                                  int64_t base, int s, int p, int64_t step,
                                                  A (&out)[kPart]) const {
    const uint32_t at = first(s) + uint32_t(p * kPart);
    fetch(parameter, access, base + at * step, out, [&](A(&values)[kPart]) {
      const auto some = load_few(parameter, base + at, left(s) - p * kPart);
#pragma unroll
      for (int e = 0; e < kPart; ++e) values[e] = some.v[e];
    });
  }
};

/// dx, where it is wanted. The rows' states are known where `are_known`, but for the means over
/// them; else they are made and, where totals follow, kept.
template <class T>
__global__ __launch_bounds__(kMvnGradRowThreads, 2) void mvn_grad_row_kernel(
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
    MvnGradRow<T> row(args, shape, cells.kept.at(exists ? c : first), exists);
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
