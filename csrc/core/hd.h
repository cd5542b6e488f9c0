// HD marks what the host and the device share, HD_LAMBDA the lambdas inside of it.
#pragma once

// On the host it forces inlining: an out-of-line copy would be merged by the linker across the
// instruction sets that csrc/cpu is compiled for, and a baseline loop could then run AVX-512 code
// or the other way round.
#if defined(__CUDACC__)
#define HD __host__ __device__ __forceinline__
#define HD_LAMBDA
#else
#define HD [[gnu::always_inline]] inline
#define HD_LAMBDA __attribute__((always_inline))
#endif
