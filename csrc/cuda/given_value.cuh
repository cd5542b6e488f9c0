// What is given beside x for elements of any type: statistics, sums, scale and bias.
#pragma once

#include "core/dtype.h"
#include "core/scalar.h"

namespace cudml::cuda {

/// Values of a type that is known as the kernel runs, read in double.
struct GivenValue {
  const void* data = nullptr;
  Dtype dtype = Dtype::float32;

  __device__ double at(int64_t offset) const {
    switch (dtype) {
      case Dtype::float64: return static_cast<const double*>(data)[offset];
      case Dtype::float32: return double(static_cast<const float*>(data)[offset]);
      case Dtype::float16: return double(to_float(static_cast<const Float16*>(data)[offset]));
      default: return double(to_float(static_cast<const BFloat16*>(data)[offset]));
    }
  }
};

}  // namespace cudml::cuda
