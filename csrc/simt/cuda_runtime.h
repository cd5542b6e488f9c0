// Stands in for CUDA's header when the host compiler compiles kernels: the device vocabulary.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>  // uses __noinline__ as an attribute, so it comes before the macro below
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include "executor.h"
#include "streams.h"

#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#undef __shared__
#define __shared__ \
  _Pragma("GCC error \"shared memory is declared by DEVICE_SHARED or DYNAMIC_SHARED\"")

#define DEVICE_SHARED(name, type)                                                  \
  static char name##_key_;                                                         \
  std::type_identity_t<type>& name = *static_cast<std::type_identity_t<type>*>(    \
      ::cudml::simt::shared_slot(&name##_key_, sizeof(std::type_identity_t<type>), \
                                 alignof(std::type_identity_t<type>), {__FILE__, __LINE__}))
#define DYNAMIC_SHARED(name, type) \
  type* const name = static_cast<type*>(::cudml::simt::dynamic_shared({__FILE__, __LINE__}))

// Written by the executor whenever another thread runs on.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = cudml::simt::kWarp;

// Each call that waits takes its place in the source as default arguments.
#define CUDML_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define CUDML_HERE \
  ::cudml::simt::Site { file, line }

inline void __syncthreads(CUDML_SITE) {
  cudml::simt::barrier(cudml::simt::Vote::none, false, CUDML_HERE);
}
inline int __syncthreads_count(int predicate, CUDML_SITE) {
  return cudml::simt::barrier(cudml::simt::Vote::count, predicate != 0, CUDML_HERE);
}
inline int __syncthreads_and(int predicate, CUDML_SITE) {
  return cudml::simt::barrier(cudml::simt::Vote::all, predicate != 0, CUDML_HERE);
}
inline int __syncthreads_or(int predicate, CUDML_SITE) {
  return cudml::simt::barrier(cudml::simt::Vote::any, predicate != 0, CUDML_HERE);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CUDML_SITE) {
  cudml::simt::warp_exchange(cudml::simt::WarpCall::sync, mask, 0, CUDML_HERE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CUDML_SITE) {
  const uint64_t* values =
      cudml::simt::warp_exchange(cudml::simt::WarpCall::vote, mask, predicate != 0, CUDML_HERE);
  unsigned ballot = 0;
  for (int i = 0; i < warpSize; ++i)
    if (mask >> i & 1u) ballot |= unsigned(values[i]) << i;
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate, CUDML_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDML_SITE) {
  return __ballot_sync(mask, predicate, file, line) == mask;
}
inline void __cluster_barrier_arrive(CUDML_SITE) { cudml::simt::cluster_arrive(CUDML_HERE); }
inline void __cluster_barrier_wait(CUDML_SITE) { cudml::simt::cluster_wait(CUDML_HERE); }
inline unsigned __clusterRelativeBlockRank() { return cudml::simt::cluster_rank(); }
inline void* __cluster_map_shared_rank(const void* address, unsigned rank, CUDML_SITE) {
  return cudml::simt::shared_of(address, rank, CUDML_HERE);
}
/// The smallest answer that hardware may give: the calling lane alone.
inline unsigned __activemask() { return 1u << cudml::simt::lane(); }

namespace cudml::simt {

/// `value` of lane `source`, which must take part.
template <class T>
T shuffle(uint32_t mask, T value, uint32_t source, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8 &&
                std::has_single_bit(sizeof(T)));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const uint64_t* values = warp_exchange(WarpCall::shuffle, mask, bits, site);
  if (!(mask >> source & 1u))
    fail(site, "reads lane " + std::to_string(source) + ", which does not take part");
  bits = values[source];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// The lane to read where `wanted` lies outside the segment: the own one.
inline void check_width(int width, Site site) {
  if (width < 1 || width > kWarp || (width & (width - 1)))
    fail(site, "width " + std::to_string(width) + " is not a power of two up to 32");
}

}  // namespace cudml::simt

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, CUDML_SITE) {
  cudml::simt::check_width(width, CUDML_HERE);
  const unsigned first = cudml::simt::lane() & ~unsigned(width - 1);
  return cudml::simt::shuffle(mask, value, first + (unsigned(source) & unsigned(width - 1)),
                              CUDML_HERE);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDML_SITE) {
  cudml::simt::check_width(width, CUDML_HERE);
  const unsigned own = cudml::simt::lane(), place = own & unsigned(width - 1);
  return cudml::simt::shuffle(mask, value, delta > place ? own : own - delta, CUDML_HERE);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDML_SITE) {
  cudml::simt::check_width(width, CUDML_HERE);
  const unsigned own = cudml::simt::lane(), place = own & unsigned(width - 1);
  return cudml::simt::shuffle(mask, value, delta >= unsigned(width) - place ? own : own + delta,
                              CUDML_HERE);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize, CUDML_SITE) {
  cudml::simt::check_width(width, CUDML_HERE);
  const unsigned own = cudml::simt::lane(), other = own ^ unsigned(lanes);
  // A lane of a later segment is not read.
  const bool inside = other < (own & ~unsigned(width - 1)) + unsigned(width);
  return cudml::simt::shuffle(mask, value, inside ? other : own, CUDML_HERE);
}

inline void __threadfence() { cudml::simt::fence(); }
inline void __threadfence_block() { cudml::simt::fence(); }
inline void __threadfence_system() { cudml::simt::fence(); }

namespace cudml::simt {

template <class T>
using Wrapping = std::make_unsigned_t<T>;

/// An atomic operation on an integer; `update` computes the new value from the old one.
template <class T, class Update>
T atomic(T* address, Update update) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  before_atomic(address);
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old, update(old), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  after_atomic(address);
  return old;
}

}  // namespace cudml::simt

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address,
                             [=](T old) { return T(cudml::simt::Wrapping<T>(old) + value); });
}
template <class T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address,
                             [=](T old) { return T(cudml::simt::Wrapping<T>(old) - value); });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T) { return value; });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return old < value ? old : value; });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return old > value ? old : value; });
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return T(old & value); });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return T(old | value); });
}
template <class T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return T(old ^ value); });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return cudml::simt::atomic(address, [=](T old) { return old == expected ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned last) {
  return cudml::simt::atomic(address, [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned last) {
  return cudml::simt::atomic(address,
                             [=](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}

// Loads and stores with cache hints.
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
T __ldca(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T value) {
  *p = value;
}
template <class T>
void __stcg(T* p, T value) {
  *p = value;
}
template <class T>
void __stwt(T* p, T value) {
  *p = value;
}

// Bits and integers.
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
__extension__ typedef unsigned __int128 CudmlUint128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(CudmlUint128(a) * b >> 64);
}

// Arithmetic that CUDA adds to <cmath>; the host's own compiler never contracts these.
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmin(T(a), T(b));
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmax(T(a), T(b));
  return T(a) < T(b) ? T(b) : T(a);
}

// The runtime's C++ templates.
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args&&... args) {
  struct Call {
    void (*kernel)(Params...);
    std::tuple<Params...> arguments;
  };
  // Kept on the heap: where the stream captures, the graph's launches take place later.
  const std::shared_ptr<Call> call(
      new Call{kernel, std::tuple<Params...>(std::forward<Args>(args)...)});
  const auto invoke = [](void* context) {
    const Call& called = *static_cast<const Call*>(context);
    std::apply(called.kernel, called.arguments);
  };
  return cudml::simt::enqueue_launch(*config, reinterpret_cast<const void*>(kernel), invoke, call);
}
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(p), bytes, stream);
}
template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Params...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Params>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(Params...),
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void*>(kernel), threads, shared);
}

#undef CUDML_SITE
#undef CUDML_HERE
