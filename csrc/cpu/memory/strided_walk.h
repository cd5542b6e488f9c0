// Walking dimensions that several tensors share.
#pragma once

#include <algorithm>

#include "ops/strided.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where a position stands in each tensor, in elements.
template <int kTensors>
struct StridedOffsets {
  int64_t at[kTensors] = {};

  void add(const StridedAxis<kTensors>& axis, int64_t steps) {
    for (int t = 0; t < kTensors; ++t) at[t] += steps * axis.stride[t];
  }
  int64_t operator[](int t) const { return at[t]; }

  /// Whether tensors [first, end) stand at the same place.
  bool are_same(const StridedOffsets& other, int first, int end) const {
    return std::equal(at + first, at + end, other.at + first);
  }
};

/// Walks the positions of some dimensions in order, the last one fastest.
template <int kTensors>
class StridedWalk {
 public:
  using Axis = StridedAxis<kTensors>;
  using Offsets = StridedOffsets<kTensors>;

  StridedWalk(const Axis* axes, int rank, int64_t index, const Offsets& origin = {})
      : axes_(axes), rank_(rank), offsets_(origin) {
    for (int d = rank - 1; d >= 0; --d) {
      at_[d] = index % axes[d].size;
      index /= axes[d].size;
      offsets_.add(axes[d], at_[d]);
    }
  }

  const Offsets& offsets() const { return offsets_; }

  void advance() {
    for (int d = rank_ - 1; d >= 0; --d) {
      offsets_.add(axes_[d], 1);
      if (++at_[d] < axes_[d].size) return;
      offsets_.add(axes_[d], -at_[d]);
      at_[d] = 0;
    }
  }

 private:
  const Axis* axes_;
  int rank_;
  int64_t at_[kMaxRank];
  Offsets offsets_;
};

/// Calls fn(offsets, position, length) for the stretches along the last dimension that make up
/// positions [first, first + n). `rank` is at least 1.
template <int kTensors, class Fn>
void for_strided_pieces(const StridedAxis<kTensors>* axes, int rank,
                        const StridedOffsets<kTensors>& origin, int64_t first, int64_t n,
                        const Fn& fn) {
  const StridedAxis<kTensors>& inner = axes[rank - 1];
  StridedWalk<kTensors> walk(axes, rank - 1, first / inner.size, origin);
  int64_t skip = first % inner.size;
  for (int64_t done = 0; done < n;) {
    const int64_t length = std::min(inner.size - skip, n - done);
    StridedOffsets<kTensors> offsets = walk.offsets();
    offsets.add(inner, skip);
    fn(offsets, done, length);
    done += length;
    skip = 0;
    walk.advance();
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
