// The paths of max pooling's gradient on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pool/copied.h"
#include "cpu/pool/maxima.h"
#include "cpu/pool_grad/max_blocks.h"
#include "cpu/pool_grad/max_copied.h"
#include "cpu/pool_grad/max_lane_pairs.h"
#include "cpu/pool_grad/max_lane_rows.h"
#include "cpu/pool_grad/max_pairs.h"
#include "cpu/pool_grad/max_planes.h"
#include "cpu/pool_grad/max_rows.h"
#include "cpu/pool_grad/max_scatter.h"
#include "cpu/pool_grad/max_side_by_side.h"
#include "cpu/pool_grad/max_steps.h"
#include "cpu/pool_grad/turned.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::pool_grad::kLongPairs;
using tuning::pool_grad::kLongRowBytes;
using tuning::pool_grad::kMostBlockWork;

bool has_planes(const PoolGradPlan& plan, const Machine&) {
  return has_whole_rows(plan.forward) && plan.result.space[2] == 1;
}
bool has_rows(const PoolGradPlan& plan, const Machine&) { return RowShape::fits(plan); }
bool has_pairs(const PoolGradPlan& plan, const Machine&) { return MaxPairs<float>::fits(plan); }
bool has_lane_pairs(const PoolGradPlan& plan, const Machine&) {
  return MaxLanePairs<float>::fits(plan);
}
bool has_lane_rows(const PoolGradPlan& plan, const Machine&) { return LaneRowShape::fits(plan); }
/// Of bfloat16 blocks of planes take less.
bool has_lane_row_type(const PoolGradPlan& plan, const Machine&) {
  return plan.forward.dtype == Dtype::float32 || plan.forward.dtype == Dtype::float16;
}
bool has_steps(const PoolGradPlan& plan, const Machine&) { return StepShape::fits(plan); }
/// Planes side by side at least: fewer leave vectors of keys half empty.
int64_t fewest_planes(Dtype dtype) {
  return dtype == Dtype::float64 ? 8 : dtype == Dtype::float32 ? 16 : 12;
}
bool has_neighbours(const PoolGradPlan& plan, const Machine&) {
  const PoolPlan& f = plan.forward;
  return has_lanes(plan) && f.x.batch[1] == 1 && f.batch[1] >= fewest_planes(f.dtype);
}
bool are_windows_small(const PoolGradPlan& plan, const Machine&) { return LaneShape::fits(plan); }
/// Parts of all planes are to be as many, too: where vectors are short they may be fewer.
bool is_turned(const PoolGradPlan& plan, const Machine&) {
  const int64_t fewest = fewest_planes(plan.forward.dtype);
  return TurnedShape::fits(plan) && plan.forward.batch[1] >= fewest &&
         TurnedShape(plan).lanes.count >= fewest;
}
/// What windows of one row step over decides whether loops along rows take less: of pairs of
/// float64 a vector of windows is enough.
bool are_rows_short(const PoolGradPlan& plan, const Machine&) {
  const PoolPlan& f = plan.forward;
  const bool have_pairs = MaxPairs<float>::fits(plan);
  if (f.dtype == Dtype::float64) return !have_pairs || f.axis[2].out < kLongPairs;
  const int64_t row = f.axis[0].stride * f.axis[1].stride * f.axis[2].in;
  return !(have_pairs || RowShape::fits(plan)) || row * int64_t(size_of(f.dtype)) < kLongRowBytes;
}
/// Of windows with more taps, or of fewer windows, winners are found sooner by themselves.
bool has_blocks(const PoolGradPlan& plan, const Machine&) {
  int64_t work = 1;
  for (const PoolAxis& a : plan.forward.axis)
    work = std::min(work * a.window * a.stride, kMostBlockWork + 1);
  return work <= kMostBlockWork && plan.forward.x.space[2] == 1 && BlockShape::fits(plan);
}

bool are_apart(const PoolGradPlan& plan, const Machine&) {
  return are_planes_apart(plan.forward) ||
         !has_packed_planes(plan.forward, plan.result, &PoolAxis::in);
}
bool are_worth(const PoolGradPlan& plan, const Machine&) { return are_copies_worth(plan.forward); }
bool is_copied(const PoolGradPlan& plan, const Machine&) { return fits_copied_max(plan); }

void planes(const PoolGradPlan& plan, const Arrays& a) {
  with_maximum(plan.forward.dtype, FloatTypes{},
               [&]<class Op>(const Op& op) { MaxPlanes<Op>(op, plan, a).run(); });
}

void rows(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, RowTypes{}, [&]<class T>() {
    run_by_keys<MaxRows, T>(RowShape(plan), a.inputs[0], a.inputs[1], a.outputs[0]);
  });
}

void pairs(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{},
        [&]<class T>() { MaxPairs<T>(plan, a.inputs[0], a.inputs[1], a.outputs[0]).run(); });
}

void lane_rows(const PoolGradPlan& plan, const Arrays& a) {
  if constexpr (!kIsKeptSmall)
    visit(plan.forward.dtype, Types<float, Float16>{}, [&]<class T>() {
      run_by_keys<MaxLaneRows, T>(LaneRowShape(plan), a.inputs[0], a.inputs[1], a.outputs[0]);
    });
}

void lane_pairs(const PoolGradPlan& plan, const Arrays& a) {
  visit_usual(plan, [&]<class T>() {
    MaxLanePairs<T>(plan, a.inputs[0], a.inputs[1], a.outputs[0]).run();
  });
}

void steps(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!kIsKeptSmall)
      MaxSteps<T>(StepShape(plan), a.inputs[0], a.inputs[1], a.outputs[0]).run();
  });
}

void side_by_side(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    MaxLanes<T>(LaneShape(plan, a.outputs[0]), a.inputs[0], a.inputs[1], a.outputs[0]).run();
  });
}

void turned(const PoolGradPlan& plan, const Arrays& a) {
  run_turned(max_pool_grad_paths(), plan, a);
}

/// Winners come first, by the path that forward pooling takes for them.
void scatter(const PoolGradPlan& plan, const Arrays& a) {
  if (plan.forward.outputs() == 0) return;
  Arrays winners;
  winners.inputs[0] = a.inputs[0];
  winners.outputs[1] = a.workspace;
  const Paths<PoolPlan> paths = winner_paths();
  const int first = choose::first(paths, plan.forward, Machine{num_threads()});
  paths[size_t(first)].run(plan.forward, winners);
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if (std::is_same_v<T, double> || most_covers(plan.forward) > kLongestChain)
      scatter_max<T, double>(plan, a.inputs[1], a.outputs[0], a.workspace);
    else
      scatter_max<T, Acc<T>>(plan, a.inputs[1], a.outputs[0], a.workspace);
  });
}

constexpr Predicate<PoolGradPlan> kSmall{
    "windows have few taps, at most 64 from the first to the last along an axis, and no element "
    "has many of them",
    are_windows_small};

constexpr Path<PoolGradPlan> kPaths[] = {
    {"pool_grad/turned",
     {kHasAvx,
      {"16 planes or more, 12 of 16-bit floats and 8 of float64, are packed, one after the other, "
       "and so short that a line of memory of them stays in the caches side by side",
       is_turned},
      kSmall,
      {"no pairs or 3 x 3 windows, 2 apart, step over 448 bytes or more of rows, or pairs of "
       "float64 over a vector of windows",
       are_rows_short}},
     turned,
     {26.1, "106 max grad 3x3/2, 2x512x7x7, float16 C"}},
    {"pool_grad/max_planes",
     {{"each plane is one packed row that one window covers", has_planes}},
     planes,
     {2.3, "global max grad, 64x512x7x7, float16 C, on Zen 4"}},
    {"pool_grad/max_rows",
     {{"windows are 3 x 3, 2 apart, on packed rows of a usual length and type, beginning at most "
       "one column before them",
       has_rows}},
     rows,
     {3.3, "13 max grad 3x3/2, 32x64x112x112, float16 C"}},
    {"pool_grad/max_pairs",
     {{"windows of two columns and at most 8 rows cover packed rows of a usual length without "
       "pads, "
       "gaps or overlap",
       has_pairs}},
     pairs,
     {2.51, "74 max grad 2x2x2, 2x32x96x96x96, float16 C"}},
    {"pool_grad/max_lane_pairs",
     {kHasAvx,
      kNarrow,
      {"windows of 2 to 8 taps cover planes without pads, gaps or overlap, a vector of which or "
       "more lie side by side in all tensors",
       has_lane_pairs}},
     lane_pairs,
     {1.57, "72 max grad 2x2/2, 32x64x224x224, float16 L"}},
    {"pool_grad/max_lane_rows",
     {kHasAvx,
      {"elements are float32 or float16", has_lane_row_type},
      {"windows are 3 x 3, 2 apart, on planes a vector of which or more lie side by side in all "
       "tensors, beginning at most one row and column before them",
       has_lane_rows}},
     lane_rows,
     {1.55, "70 max grad 3x3/2, 32x64x112x112, float32 L"}},
    {"pool_grad/max_steps",
     {kHasAvx,
      {"windows are 3 x 3, 1 apart, on packed rows or on planes side by side in all tensors, a "
       "vector of them or without gaps, beginning at most two elements before them",
       has_steps}},
     steps,
     {3.72, "110 max grad 3x3/1, 1x3x224x224, float16 L"}},
    {"pool_grad/max_side_by_side",
     {{"16 planes or more, 12 of 16-bit floats and 8 of float64, lie side by side in x and the "
       "result",
       has_neighbours},
      kSmall},
     side_by_side,
     {33.7, "106 max grad 3x3/2, 2x512x7x7, bfloat16 L"}},
    {"pool_grad/max_blocks",
     {{"rows are packed, and windows have few taps that are near each other, at most 8 apart: "
       "their taps times steps are at most 10",
       has_blocks}},
     max_blocks,
     {1.73, "max grad 2x2/1, 16x3x112x112, float32 C, on Zen 4"}},
    {"pool_grad/max_copied",
     {{"elements of x or of the result lie apart, or in another order than their positions",
       are_apart},
      {"there are at most two dimensions of planes, and 512 elements, in planes that are not "
       "expanded or of at most 4 MB",
       are_worth},
      {"packed copies have a path of their own", is_copied}},
     run_copied_max,
     {6.65, "max grad 2x2/2 of 1x1x64x64x64, float32, columns first, on Zen 4"}},
    {"pool_grad/max_scatter", {}, scatter},
};

}  // namespace

Paths<PoolGradPlan> max_pool_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
