// Sizes, strides and tensors: what a call is about, without saying whose memory it is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "core/check.h"
#include "core/dtype.h"

namespace cudml {

inline constexpr int kMaxRank = 8;

/// Up to eight numbers, one per dimension, outermost first.
struct Dims {
  int rank = 0;
  int64_t value[kMaxRank] = {};

  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  static Dims filled(int rank, int64_t v) {
    Dims dims;
    for (int d = 0; d < rank; ++d) dims.push_back(v);
    return dims;
  }
  void push_back(int64_t v) { value[rank++] = v; }
  int64_t& operator[](int d) { return value[d]; }
  int64_t operator[](int d) const { return value[d]; }
  const int64_t* begin() const { return value; }
  const int64_t* end() const { return value + rank; }
  bool operator==(const Dims& other) const {
    if (rank != other.rank) return false;
    for (int d = 0; d < rank; ++d)
      if (value[d] != other.value[d]) return false;
    return true;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '{';
  for (int d = 0; d < dims.rank; ++d) out << (d ? "," : "") << dims[d];
  return out << '}';
}

/// Number of elements; sizes are checked to multiply within 63 bits before this is called.
inline int64_t count(const Dims& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

inline Dims packed_strides(const Dims& sizes) {
  Dims strides = Dims::filled(sizes.rank, 1);
  for (int d = sizes.rank - 2; d >= 0; --d) strides[d] = strides[d + 1] * sizes[d + 1];
  return strides;
}

/// A tensor without its memory: strides in elements, 0 where a dimension is broadcast.
struct TensorDesc {
  Dtype dtype = Dtype::float32;
  Dims sizes, strides;

  int rank() const { return sizes.rank; }
  bool operator==(const TensorDesc&) const = default;
};

/// A tensor in memory.
struct TensorView : TensorDesc {
  void* data = nullptr;
};

}  // namespace cudml
