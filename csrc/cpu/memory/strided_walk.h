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

/// Walks the positions of some dimensions in order, the last one fastest. Offsets tell where a
/// position stands in each tensor, and add() steps along an Axis.
template <class Axis, class Offsets>
class AxisWalk {
 public:
  AxisWalk(const Axis* axes, int rank, int64_t index, const Offsets& origin = {})
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

template <int kTensors>
using StridedWalk = AxisWalk<StridedAxis<kTensors>, StridedOffsets<kTensors>>;

/// Calls fn(offsets, position, length) for the stretches along the last dimension that make up
/// positions [first, first + n). `rank` is at least 1.
template <class Axis, class Offsets, class Fn>
void for_axis_pieces(const Axis* axes, int rank, const Offsets& origin, int64_t first, int64_t n,
                     const Fn& fn) {
  const Axis& inner = axes[rank - 1];
  AxisWalk<Axis, Offsets> walk(axes, rank - 1, first ? first / inner.size : 0, origin);
  int64_t skip = first ? first % inner.size : 0;
  for (int64_t done = 0; done < n;) {
    const int64_t length = std::min(inner.size - skip, n - done);
    Offsets offsets = walk.offsets();
    if (skip) offsets.add(inner, skip);
    fn(offsets, done, length);
    done += length;
    skip = 0;
    walk.advance();
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
