// The memory of a call: the first elements of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudml {

inline constexpr size_t kMostInputs = 9, kMostOutputs = 3;

/// In the order of the operator's arguments and results; null where one is absent.
struct Operands {
  const void* inputs[kMostInputs] = {};
  void* outputs[kMostOutputs] = {};

  /// The largest power of two that divides every address, at most 256.
  int64_t alignment() const {
    uintptr_t bits = 256;
    for (const void* p : inputs) bits |= reinterpret_cast<uintptr_t>(p);
    for (const void* p : outputs) bits |= reinterpret_cast<uintptr_t>(p);
    return int64_t(bits & (~bits + 1));
  }
};

}  // namespace cudml
