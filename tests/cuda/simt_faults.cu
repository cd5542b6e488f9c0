// Kernels with one planted fault each, and their correct twins: what the executor and the
// sanitizers must catch. As a program: NAME correct|faulty, or all, or limits.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <cub/block/block_reduce.cuh>
#include <vector>

#include "cuda/shared.cuh"
#include "cuda/vector.cuh"
#include "simt_bulk_faults.cuh"
#include "simt_cluster_faults.cuh"

namespace cudml::cuda {

// Each kernel writes y[i] of its thread i; a correct one writes what expected() says.

template <bool kFaulty>
__global__ void missing_barrier_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  tile[threadIdx.x] = x[i];
  if (!kFaulty) __syncthreads();
  y[i] = tile[kThreads - 1 - threadIdx.x];
}

// The first thread may only read again what others write again after a second barrier.
template <bool kFaulty>
__global__ void reused_scratch_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  const int first = tile[kThreads - 1 - threadIdx.x];
  if (!kFaulty) __syncthreads();
  tile[threadIdx.x] = first + 1;
  __syncthreads();
  y[i] = tile[threadIdx.x] - 1;
}

template <bool kFaulty>
__global__ void divergent_barrier_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  tile[threadIdx.x] = x[i];
  if (kFaulty && threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[i] = tile[kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void early_return_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (kFaulty && threadIdx.x == 5) return;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = tile[kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void shared_bounds_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  int* const place = tile;  // a pointer: the bounds of the array are not known to the compiler
  place[threadIdx.x + (kFaulty && x[i] > 0)] = x[i];
  __syncthreads();
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void dynamic_bounds_kernel(const int* x, int* y) {
  DYNAMIC_SHARED(tile, int);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  tile[threadIdx.x + kFaulty] = x[i];
  __syncthreads();
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
}

template <bool kFaulty>
__global__ void global_bounds_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
  if (kFaulty && i == kTotal - 1) y[i + 1] = 0;
}

// The block that comes last adds up what all blocks left in y beyond the results.
template <bool kFaulty>
__global__ void missing_fence_kernel(const int* x, int* y) {
  DEVICE_SHARED(is_last, bool);
  int* const partial = y + kTotal;
  unsigned* const ticket = reinterpret_cast<unsigned*>(y + kTotal + kBlocks);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = 1;
    if (!kFaulty) __threadfence();
    is_last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int block = 0; block < kBlocks; ++block) sum += partial[block];
  if (sum != kBlocks) y[i] = -1;
}

template <bool kFaulty>
__global__ void two_writers_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
  // The same value, so that no schedule shows it.
  if (kFaulty && i + 1 < kTotal && threadIdx.x + 1 == kThreads) y[i + 1] = x[i + kThreads];
}

template <bool kFaulty>
__global__ void plain_sum_kernel(const int* x, int* y) {
  int* const count = y + kTotal;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
  if (kFaulty)
    *count += 1;
  else
    atomicAdd(count, 1);
}

template <bool kFaulty>
__global__ void bad_mask_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int other = __shfl_xor_sync(kFaulty ? 0xffffu : 0xffffffffu, x[i], 31);
  y[i] = other + kThreads - 32 - int(threadIdx.x / 32) * 64;
}

template <bool kFaulty>
__global__ void divergent_shuffle_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  int other = 0;
  if (!kFaulty || threadIdx.x % 32 < 16)
    other = __shfl_xor_sync(0xffffffffu, x[i], 31);
  else
    other = __shfl_xor_sync(0xffffffffu, x[i], 31);
  y[i] = other + kThreads - 32 - int(threadIdx.x / 32) * 64;
}

template <bool kFaulty>
__global__ void lane_left_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (kFaulty && threadIdx.x % 32 == 7) return;
  const int other = __shfl_xor_sync(0xffffffffu, x[i], 31);
  y[i] = other + kThreads - 32 - int(threadIdx.x / 32) * 64;
}

// Lanes exchange through shared memory: a shuffle between them orders nothing.
template <bool kFaulty>
__global__ void missing_syncwarp_kernel(const int* x, int* y) {
  DEVICE_SHARED(tile, int[kThreads]);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  tile[threadIdx.x] = x[i];
  if (!kFaulty) __syncwarp();
  y[i] = tile[threadIdx.x ^ 31] + kThreads - 32 - int(threadIdx.x / 32) * 64;
}

template <bool kFaulty>
__global__ void misaligned_kernel(const int* x, int* y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int from = int(blockIdx.x) * kThreads + kThreads - 1 - int(threadIdx.x);
  const int begin = kFaulty ? (from < kTotal - 4 ? from : kTotal - 4) : from & ~3;
  y[i] = load_vector<4>(x + begin).v[from - begin];
}

// Only thread 0 has the sum of a block reduction.
template <bool kFaulty>
__global__ void reduce_result_kernel(const int* x, int* y) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  DEVICE_SHARED(storage, Reduce::TempStorage);
  DEVICE_SHARED(total, int);
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int sum = Reduce(storage).Sum(x[i]);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const int mine = kFaulty ? sum : total;
  y[i] = x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x] + (mine - total);
}

// What one writes the others have read: the order of threads shows in the result.
template <bool kFaulty>
__global__ void order_kernel(const int* x, int* y) {
  int* const count = y + kTotal;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int place = atomicAdd(count, 1);
  y[i] = kFaulty ? place : x[blockIdx.x * kThreads + kThreads - 1 - threadIdx.x];
}

using Kernel = void (*)(const int*, int*);
struct Fault {
  const char* name;
  Kernel correct, faulty;
  unsigned cluster = 1;
};
#define FAULT(name, ...) {#name, name##_kernel<false>, name##_kernel<true>, ##__VA_ARGS__}
constexpr Fault kFaults[] = {
    FAULT(missing_barrier),
    FAULT(reused_scratch),
    FAULT(divergent_barrier),
    FAULT(early_return),
    FAULT(shared_bounds),
    FAULT(dynamic_bounds),
    FAULT(global_bounds),
    FAULT(missing_fence),
    FAULT(two_writers),
    FAULT(plain_sum),
    FAULT(bad_mask),
    FAULT(lane_left),
    FAULT(divergent_shuffle),
    FAULT(missing_syncwarp),
    FAULT(misaligned),
    FAULT(reduce_result),
    FAULT(order),
    FAULT(missing_cluster_barrier, kBlocks),
    FAULT(cluster_exit, kBlocks),
    FAULT(cluster_return, kBlocks),
    FAULT(cluster_arrives_twice, kBlocks),
    FAULT(cluster_waits_first, kBlocks),
    FAULT(cluster_rank, kBlocks),
    FAULT(missing_copy_wait),
    FAULT(copies_of_others),
    FAULT(misaligned_copy),
    FAULT(bulk_early_read),
    FAULT(bulk_early_wait),
    FAULT(bulk_left, kBlocks),
    FAULT(bulk_unseen),
    FAULT(bulk_expected, kBlocks),
    FAULT(bulk_size),
};

cudaLaunchAttribute cluster_of(unsigned blocks) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  return attribute;
}

/// 0: y is right; 1: it is not, and y is printed; 2: the launch failed, and the error is printed.
int run(Kernel kernel, unsigned cluster) {
  std::vector<int> x(kTotal), y(kTotal + kBlocks + 1);
  for (int i = 0; i < kTotal; ++i) x[size_t(i)] = i + 1;
  int *device_x, *device_y;
  const size_t in = x.size() * sizeof(int), out = y.size() * sizeof(int);
  cudaMalloc(&device_x, in);
  cudaMalloc(&device_y, kernel == global_bounds_kernel<true> ? kTotal * sizeof(int) : out);
  cudaMemcpy(device_x, x.data(), in, cudaMemcpyHostToDevice);
  if (kernel != global_bounds_kernel<true>) cudaMemset(device_y, 0, out);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kBlocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kThreads * sizeof(int);
  cudaLaunchAttribute attribute = cluster_of(cluster);
  config.attrs = &attribute;
  config.numAttrs = cluster > 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, device_x, device_y);
  if (error != cudaSuccess) {
    std::printf("%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
    return 2;
  }
  cudaMemcpy(y.data(), device_y, kTotal * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(device_x);
  cudaFree(device_y);
  int wrong = 0;
  for (int i = 0; i < kTotal; ++i)
    wrong += y[size_t(i)] != x[size_t(i / kThreads * kThreads + kThreads - 1 - i % kThreads)];
  if (!wrong) return 0;
  for (int i = 0; i < kTotal; ++i) std::printf("%d ", y[size_t(i)]);
  return 1;
}

/// Launches that CUDA refuses, each with its error's name.
void print_limits() {
  const auto report = [](int blocks, int threads, size_t shared,
                         void (*kernel)(const int*, int*) = two_writers_kernel<false>,
                         unsigned cluster = 1) {
    int unused[kTotal] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(unsigned(blocks));
    config.blockDim = dim3(unsigned(threads));
    config.dynamicSmemBytes = shared;
    cudaLaunchAttribute attribute = cluster_of(cluster);
    config.attrs = &attribute;
    config.numAttrs = cluster > 1;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, unused, unused);
    std::printf("%s\n", cudaGetErrorName(error));
  };
  report(1, 1025, 0);
  report(0, 32, 0);
  report(1, kThreads, 49 << 10);
  const auto opt_in = [](int bytes) {
    return cudaFuncSetAttribute(two_writers_kernel<false>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  std::printf("%s\n", cudaGetErrorName(opt_in(228 << 10)));
  std::printf("%s\n", cudaGetErrorName(opt_in(49 << 10)));
  report(1, kThreads, 49 << 10);
  constexpr int kOwn = kThreads * sizeof(int);  // the kernel's variables
  report(1, kThreads, (48 << 10) - kOwn, missing_barrier_kernel<false>);
  report(1, kThreads, (48 << 10) - kOwn + 16, missing_barrier_kernel<false>);
  report(16, 32, 0, two_writers_kernel<false>, 16);
  report(6, 32, 0, two_writers_kernel<false>, 4);
  report(4, 32, 0, two_writers_kernel<false>, 4);
}

}  // namespace cudml::cuda

int main(int count, char** words) {
  if (count == 2 && !std::strcmp(words[1], "limits")) return cudml::cuda::print_limits(), 0;
  int wrong = 0;
  for (const auto& fault : cudml::cuda::kFaults) {
    if (count == 2 && cudml::cuda::run(fault.correct, fault.cluster)) {
      std::printf("%s is not correct\n", fault.name);
      ++wrong;
    }
    if (count == 3 && !std::strcmp(words[1], fault.name))
      return cudml::cuda::run(std::strcmp(words[2], "faulty") ? fault.correct : fault.faulty,
                              fault.cluster);
  }
  return wrong;
}
