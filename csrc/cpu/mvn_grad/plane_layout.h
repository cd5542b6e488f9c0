// How a plan's planes lie: packed pieces of a cell with one scale and one bias each. A slice is a
// part of a long one, or several short ones that share their scale and bias.
#pragma once

#include <utility>

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements that fill the widest vector of the narrowest computing type.
constexpr int64_t kLeastPlane = 16;

/// Elements of a slice, but for the last one of a plane, which is shorter than two.
constexpr int64_t kSlice = 16384;

/// Where a slice stands in each tensor, in elements.
struct SliceOffsets {
  int64_t x, grad, dx, scale, bias, totals[2];
  int64_t n;                              // elements of each of its planes
  int64_t planes;                         // or 1, of which it is all or a part
  int64_t x_ahead, grad_ahead, dx_ahead;  // from its plane to the next one, or 0: not read ahead
};

struct GradPlanes {
  const MvnGradAxis* axes;  // that tell the planes of a cell apart
  int rank;
  MvnGradAxis inner;  // the last of them
  int64_t length;     // of a plane
  int64_t parts;      // slices of a plane
  int64_t joined;     // planes of a slice
  int64_t run;        // slices along the last dimension
  int64_t slices;     // of a cell
  static constexpr int kPlaces = 8;
  int64_t place[kPlaces];  // in x, from the cell's beginning; four elements or more follow each

  /// Of a plan that has planes and is not empty.
  explicit GradPlanes(const MvnGradPlan& plan)
      : axes(plan.reduced),
        rank(plan.reduced_rank - 1),
        length(plan.reduced[rank].size),
        parts(std::max<int64_t>(1, length / kSlice)) {
    if (rank > 0) inner = axes[rank - 1];
    joined = inner.has_parameters()
                 ? 1
                 : std::max<int64_t>(1, tuning::mvn_grad::kJoinedElements / length);
    run = (inner.size + joined - 1) / joined * parts;
    slices = plan.cell_size / length / inner.size * run;
    for (int k = 0; k < kPlaces; ++k) {
      const int64_t i = k * (plan.cell_size / kPlaces);
      place[k] = GradWalk(axes, rank, i / length).offsets().x + std::min(i % length, length - 4);
    }
  }

  /// Elements of a cell before slice i.
  int64_t begin_of(int64_t i) const {
    const int64_t plane = i / run * inner.size + i % run / parts * joined;
    return plane * length + i % parts * kSlice;
  }

  /// Calls fn(index, slice) for slices [begin, end) of a cell.
  template <class Fn>
  [[gnu::always_inline]] void for_slices(const GradOffsets& cell, int64_t begin, int64_t end,
                                         const Fn& fn) const {
    const bool is_apart = inner.x != length;
    for (int64_t i = begin; i < end;) {
      // Most cells have one run of whole planes: nothing is divided for it.
      const int64_t outer = i < run ? 0 : i / run, stop = std::min(end, (outer + 1) * run);
      const int64_t within = i - outer * run, planes = parts == 1 ? within : within / parts;
      SliceOffsets at = origin(cell, outer, planes * joined);
      int64_t part = within - planes * parts, left = inner.size - planes * joined;
      move(at, part * kSlice);
      for (; i < stop; ++i) {
        at.n = part + 1 == parts ? length - part * kSlice : kSlice;
        at.planes = std::min(joined, left);
        const bool is_ahead = is_apart && left > 1;
        at.x_ahead = is_ahead ? inner.x : 0;
        at.grad_ahead = is_ahead ? inner.grad : 0;
        at.dx_ahead = is_ahead ? inner.dx : 0;
        fn(i, std::as_const(at));
        if (++part < parts) {
          move(at, kSlice);
          continue;
        }
        move(at, -(part - 1) * kSlice);
        part = 0;
        left -= joined;
        advance(at);
      }
    }
  }

 private:
  /// Of a plane, by its position along the last dimension and that of all others.
  SliceOffsets origin(const GradOffsets& cell, int64_t outer, int64_t plane) const {
    GradOffsets at = cell;
    if (outer) at = GradWalk(axes, rank - 1, outer, cell).offsets();
    if (plane) at.add(inner, plane);
    return {at.x, at.grad, at.dx, at.scale, at.bias, {at.totals[0], at.totals[1]}, 0, 1, 0, 0, 0};
  }

  static void move(SliceOffsets& at, int64_t n) {
    at.x += n;
    at.grad += n;
    at.dx += n;
  }

  void advance(SliceOffsets& at) const {
    at.x += joined * inner.x;
    at.grad += joined * inner.grad;
    at.dx += joined * inner.dx;
    at.scale += inner.scale;  // 0 where several are joined
    at.bias += inner.bias;
    for (int k = 0; k < 2; ++k) at.totals[k] += inner.totals[k];
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
