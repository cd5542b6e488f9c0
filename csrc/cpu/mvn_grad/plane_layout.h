// How a plan's planes lie: packed pieces of a cell with one scale and one bias each, cut into
// slices.
#pragma once

#include "cpu/mvn_grad/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements that fill the widest vector of the narrowest computing type.
constexpr int64_t kLeastPlane = 16;

/// Elements of a slice, but for the last one of a plane, which is shorter than two.
constexpr int64_t kSlice = 16384;

struct GradPlanes {
  const MvnGradAxis* axes;  // that tell the planes of a cell apart
  int rank;
  int64_t length;  // of a plane
  int64_t parts;   // slices of a plane
  int64_t slices;  // of a cell

  /// Of a plan that has planes and is not empty.
  explicit GradPlanes(const MvnGradPlan& plan)
      : axes(plan.reduced),
        rank(plan.reduced_rank - 1),
        length(plan.reduced[rank].size),
        parts(std::max<int64_t>(1, length / kSlice)),
        slices(plan.cell_size / length * parts) {}

  /// Calls fn(slice, its plane's offsets, its first element, elements) for slices [begin, end) of a
  /// cell.
  template <class Fn>
  void for_slices(const GradOffsets& cell, int64_t begin, int64_t end, const Fn& fn) const {
    GradWalk plane(axes, rank, begin / parts, cell);
    int64_t part = begin % parts;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = part * kSlice;
      fn(i, plane.offsets(), first, part + 1 == parts ? length - first : kSlice);
      if (++part < parts) continue;
      part = 0;
      plane.advance();
    }
  }

  /// Offset in x of element i of a cell, or of the last before it of which `run` stand together.
  int64_t x_at(const GradOffsets& cell, int64_t i, int64_t run) const {
    return GradWalk(axes, rank, i / length, cell).offsets().x + std::min(i % length, length - run);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
