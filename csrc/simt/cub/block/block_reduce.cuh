// Stands in for CUB's block reduction: each warp, then the warps' results in order by one thread.
#pragma once

#include <cub/warp/warp_reduce.cuh>

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};

/// Reduces over a block of kX * kY * kZ threads. Only thread 0 gets the result; the others get
/// bytes of 0xFF, which nothing may use.
template <class T, int kX, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int kY = 1,
          int kZ = 1>
class BlockReduce {
  static constexpr int kThreads = kX * kY * kZ, kWarps = (kThreads + 31) / 32;

 public:
  struct TempStorage {
    typename WarpReduce<T>::TempStorage warp;
    alignas(T) unsigned char sums[sizeof(T) * kWarps];
  };

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <class Op>
  T Reduce(T value, Op op, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    static_assert(kThreads % 32 == 0, "blocks are whole warps");
    const unsigned thread = threadIdx.x + kX * (threadIdx.y + kY * threadIdx.z);
    T* sums = reinterpret_cast<T*>(storage_.sums);
    const T sum = WarpReduce<T>(storage_.warp).Reduce(value, op, file, line);
    if (thread % 32 == 0) sums[thread / 32] = sum;
    __syncthreads(file, line);
    std::memset(static_cast<void*>(&value), 0xff, sizeof value);
    if (thread != 0) return value;
    value = sums[0];
    for (int warp = 1; warp < kWarps; ++warp) value = op(value, sums[warp]);
    return value;
  }
  T Sum(T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return Reduce(value, [](T a, T b) { return T(a + b); }, file, line);
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
