// How a plan without indices is cut into strips, and what its windows along a row allow.
#pragma once

#include "cpu/pool/lane_thirds.h"
#include "cpu/pool/strip_tasks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Steps of 1 from and to rows of the same length without gaps: rows are one long line.
template <class V>
bool joins_planes(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return w.stride == 1 && w.out == w.in && s.outputs == w.out && p.axis[1].stride == 1 &&
         p.axis[1].out > 1 && p.x.space[2] == s.lanes && p.x.space[1] == w.in * s.lanes &&
         w.start < s.span && w.in + s.span <= std::numeric_limits<IntegerLike<V>>::max();
}

/// Of those, windows of three columns that begin one before their output, and of few rows.
inline bool has_thirds(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return s.lanes == 1 && w.window == 3 && w.start == 1 && w.dilation == 1 &&
         p.axis[0].window <= 3 && p.axis[1].window <= 3;
}

/// Every fourth column, windows of four or five side by side.
inline bool has_fourths(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return w.stride == 4 && w.dilation == 1 && (w.window == 4 || w.window == 5) && s.planes == 1 &&
         p.x.space[2] == 1;
}

/// The shape of strips of a plan, without outputs where strips do not suit it. `thirds`: those of
/// has_lane_thirds() need no line, and take all planes at once.
template <class V>
StripShape value_shape(const PoolPlan& p, int64_t piece, bool thirds) {
  constexpr int64_t kValues = kLineBytes / int64_t(sizeof(V));
  StripShape s = strip_shape(p, kValues, piece);
  if (thirds && s.fits() && s.lanes < s.planes && s.planes <= piece && has_lane_thirds(p)) {
    s.lanes = s.planes;
    s.outputs = even_part(p.axis[2].out, piece / s.lanes);
  }
  if (!s.fits() || !joins_planes<V>(p, s)) return s;
  const int64_t row = p.axis[2].in * s.lanes, room = kValues - s.span * s.lanes;
  stack_lines(p, std::min({kMostLines, room / row, piece / row}), s);
  return s;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
