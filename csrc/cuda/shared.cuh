// Shared memory, declared in the two ways that kernels may use.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

// DEVICE_SHARED(name, type): a variable of the block, of any type, also an array.
// DYNAMIC_SHARED(name, type): a `type*` to the launch's dynamic bytes, aligned to 16.
// A host executor's cuda_runtime.h brings its own.
#ifndef DEVICE_SHARED
#define DEVICE_SHARED(name, type) __shared__ std::type_identity_t<type> name
#define DYNAMIC_SHARED(name, type)                       \
  extern __shared__ __align__(16) char cudml_dynamic_[]; \
  type* const name = reinterpret_cast<type*>(cudml_dynamic_)
#endif
