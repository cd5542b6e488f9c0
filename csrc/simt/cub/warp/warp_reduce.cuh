// Stands in for CUB's warp reduction: the same order of additions, over shuffles.
#pragma once

#include <cuda_runtime.h>

namespace cub {

/// Reduces over kLanes neighbouring lanes. Only the first of them gets the result; the others get
/// bytes of 0xFF, which nothing may use.
template <class T, int kLanes = 32>
class WarpReduce {
 public:
  struct TempStorage {
    char unused;
  };

  explicit WarpReduce(TempStorage&) {}

  template <class Op>
  T Reduce(T value, Op op, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return Reduce(value, op, kLanes, file, line);
  }
  template <class Op>
  T Reduce(T value, Op op, int valid, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
    const cudml::simt::Site site{file, line};
    const uint32_t own = cudml::simt::lane(), place = own % kLanes;
    const uint32_t mask = uint32_t((uint64_t{1} << kLanes) - 1) << (own - place);
    for (int step = 1; step < kLanes; step *= 2) {
      const bool is_inside = int(place) + step < valid;
      const T other = exchange(mask, value, is_inside ? own + uint32_t(step) : own, site);
      if (is_inside) value = op(value, other);
    }
    if (place != 0) std::memset(static_cast<void*>(&value), 0xff, sizeof value);
    return value;
  }
  T Sum(T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return Reduce(value, [](T a, T b) { return T(a + b); }, kLanes, file, line);
  }
  T Sum(T value, int valid, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return Reduce(value, [](T a, T b) { return T(a + b); }, valid, file, line);
  }

 private:
  /// Shuffles a value of any size, 8 bytes at a time.
  static T exchange(uint32_t mask, const T& value, uint32_t source, cudml::simt::Site site) {
    static_assert(std::is_trivially_copyable_v<T>);
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    std::memcpy(words, &value, sizeof(T));
    for (uint64_t& word : words) word = cudml::simt::shuffle(mask, word, source, site);
    T result = value;
    std::memcpy(static_cast<void*>(&result), words, sizeof(T));
    return result;
  }
};

}  // namespace cub
