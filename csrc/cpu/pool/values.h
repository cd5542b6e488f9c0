// Pooling without indices by the path that is told, for the operations that have it.
#pragma once

#include "cpu/pool/fourths.h"
#include "cpu/pool/lane_thirds.h"
#include "cpu/pool/packed_planes.h"
#include "cpu/pool/pairs.h"
#include "cpu/pool/plain.h"
#include "cpu/pool/plane_thirds.h"
#include "cpu/pool/planes.h"
#include "cpu/pool/short_planes.h"
#include "cpu/pool/short_rows.h"
#include "cpu/pool/side_by_side.h"
#include "cpu/pool/strip_shape.h"
#include "cpu/pool/strips.h"
#include "cpu/pool/taps.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A path, if it has loops for the operation; its Pool is made of `base` and `given`.
template <ValuePath kPath, template <class, class> class Pool, class Op, class Finish,
          class... Given>
void run_path(const ValuePool<Op, Finish>& base, const TaskSpace& space, const Given&... given) {
  if constexpr (is_compiled(kPath) && has_loops(kPath, ValuePool<Op, Finish>::kLoops))
    run_pools<Pool<Op, Finish>>(base.plan, space, base, given...);
}

/// A path that cuts the plan into strips.
template <ValuePath kPath, template <class, class> class Pool, class Op, class Finish>
void run_strips(const ValuePool<Op, Finish>& base, const StripShape& shape) {
  run_path<kPath, Pool>(base, strip_tasks(base.plan, shape), shape);
}

template <class Op, class Finish>
void pool_values(const PoolPlan& plan, ValuePath path, Op op, Finish finish, const void* x,
                 void* y) {
  using T = typename Op::Element;
  using enum ValuePath;
  const T* const first = static_cast<const T*>(x);
  const ValuePool<Op, Finish> base{
      plan, op, finish, first, static_cast<T*>(y), end_of_x(plan, first)};
  const auto planes_in_rows = [&] { return make_tasks(plan, Lane::batch, kPlanesAtOnce); };
  const bool is_cut = !joins_rows_first(plan);
  if (path >= lane_thirds && path <= strips) finish.prepare(plan);  // all paths of strips
  switch (path) {
    case taps: return run_path<taps, TapPool>(base, tap_tasks(plan));
    case lane_thirds: return run_strips<lane_thirds, LaneThirdPool>(base, lane_third_shape(plan));
    case plane_thirds: return run_strips<plane_thirds, PlaneThirdPool>(base, packed_shape(plan));
    case short_rows: return run_strips<short_rows, ShortRowPool>(base, packed_shape(plan));
    case packed_planes: return run_strips<packed_planes, PackedPlanePool>(base, packed_shape(plan));
    case fourths: return run_strips<fourths, FourthPool>(base, value_shape(plan));
    case pairs: return run_strips<pairs, PairPool>(base, value_shape(plan));
    case strips: return run_strips<strips, LinePool>(base, value_shape(plan));
    case short_planes: return run_path<short_planes, ShortPlanePool>(base, planes_in_rows());
    case planes: return run_path<planes, PlanePool>(base, planes_in_rows());
    case side_by_side: return run_windows(LanePool<Op, Finish>(base), plan, is_cut);
    case plain: return run_windows(WindowPool<Op, Finish>(base), plan, is_cut);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
