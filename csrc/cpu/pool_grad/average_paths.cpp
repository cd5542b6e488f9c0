// The paths of average pooling's gradient on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pool_grad/average_blocks.h"
#include "cpu/pool_grad/average_gather.h"
#include "cpu/pool_grad/average_pairs.h"
#include "cpu/pool_grad/average_planes.h"
#include "cpu/pool_grad/average_rows.h"
#include "cpu/pool_grad/average_side_by_side.h"
#include "cpu/pool_grad/average_thirds.h"
#include "cpu/pool_grad/average_turned.h"
#include "cpu/pool_grad/average_unrolled.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// float64 has the precision that longer sums are given.
bool are_sums_short(const PoolGradPlan& plan, const Machine&) {
  return plan.forward.dtype == Dtype::float64 || most_covers(plan.forward) <= kLongestChain;
}

bool has_wide_vectors(const PoolGradPlan&, const Machine&) { return kVectorBytes > 16; }

bool has_rows(const PoolGradPlan& plan, const Machine&) { return AverageRows<float>::fits(plan); }

bool has_planes(const PoolGradPlan& plan, const Machine&) {
  return AveragePlanes<float>::fits(plan);
}
bool has_pairs(const PoolGradPlan& plan, const Machine&) { return PairPlanes<float>::fits(plan); }
bool has_thirds(const PoolGradPlan& plan, const Machine&) {
  return AverageThirds<float>::fits(plan);
}
bool has_blocks(const PoolGradPlan& plan, const Machine&) { return BlockShape::fits(plan); }
bool has_neighbours(const PoolGradPlan& plan, const Machine&) { return has_lanes(plan); }

void planes(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() { AveragePlanes<T>(plan, a).run(); });
}

void pairs(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (kVectorBytes > 16 && !std::is_same_v<T, double>)  // others are kept small
      PairPlanes<T>(plan, static_cast<const T*>(a.inputs[1]), static_cast<T*>(a.outputs[0])).run();
  });
}

/// Short rows of planes that there is room for side by side, be they few or many: sums of thirds
/// have another order, and are as fast along longer rows.
bool are_rows_short(const PoolGradPlan& plan) {
  return plan.forward.axis[2].in <= kVectorBytes / 4 &&
         TurnedShape(plan).lanes.room >= tuning::turn::kFewest;
}
bool are_rows_long(const PoolGradPlan& plan, const Machine&) { return !are_rows_short(plan); }

void turned(const PoolGradPlan& plan, const Arrays& a) {
  run_turned(average_pool_grad_paths(), plan, a);
}

void rows(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)  // which is rare, and a copy of all this
      AverageRows<T>(plan, a.inputs[1], a.outputs[0]).run();
  });
}

template <class A>
[[gnu::noinline]] void gather(const AverageElements<A>& elements, const PoolGradPlan& plan,
                              const Arrays& a) {
  if (most_covers(plan.forward) > kLongestChain)
    RowGather<A, double>(elements, plan, a).run();
  else
    RowGather<A, A>(elements, plan, a).run();
}

void one_by_one(const PoolGradPlan& plan, const Arrays& a) {
  if (plan.forward.outputs() == 0) return;
  visit(plan.forward.dtype, FloatTypes{},
        [&]<class T>() { gather(average_elements<T>(), plan, a); });
}

constexpr Predicate<PoolGradPlan> kShort{"no element has more windows than one sum may join",
                                         are_sums_short};
constexpr Predicate<PoolGradPlan> kRows{
    "rows are packed, and the windows along them are small and 1 apart, or pairs", has_rows};

constexpr Path<PoolGradPlan> kPaths[] = {
    {"pool_grad/average_planes",
     {{"one window covers each plane, which is one packed row, or 8 planes or more lie side by "
       "side, their pixels equally far apart",
       has_planes}},
     planes,
     {2.9, "global average grad, 8x64x56x56, float32 C, on Zen 4"}},
    {"pool_grad/average_pairs",
     {{"the processor has vectors wider than 16 bytes", has_wide_vectors},
      kNarrow,
      kShort,
      kRows,
      {"windows of two columns cover packed planes without gaps or overlap", has_pairs}},
     pairs,
     {2.78, "77 average grad 2x2/2, 64x256x56x56, float16 C"}},
    {"pool_grad/average_rows",
     {kNarrow, kShort, kRows},
     rows,
     {3.65, "12 average grad 3x3/1, 32x192x35x35, float32 C"}},
    {"pool_grad/average_thirds",
     {kHasAvx,
      kNarrow,
      {"windows are 3 x 3, two apart, on packed planes, and begin at most one element before them",
       has_thirds},
      {"rows are longer than 16 elements, 8 by vectors of 32 bytes, or planes too long to be put "
       "side by side",
       are_rows_long}},
     average_thirds,
     {2.83, "75 average grad 3x3/2, 64x240x28x28, float32 C"}},
    {"pool_grad/average_turned",
     {kHasAvx,
      kShort,
      {"8 planes or more are packed, one after the other, and so short that 32 of them stay in the "
       "caches side by side",
       fits_average_turned}},
     turned,
     {14.9, "104 average grad 2x2/2, 2x512x7x7, float16 C"}},
    {"pool_grad/average_side_by_side",
     {kShort, {"8 planes or more lie side by side in the result", has_neighbours}},
     average_side_by_side,
     {38.8, "11 average grad 2x2/2, 64x256x56x56, float32 L"}},
    {"pool_grad/average_blocks",
     {kShort,
      {"windows have few taps, at most 8 apart, and no element has many of them", has_blocks}},
     average_blocks,
     {4.78, "112 average grad 3x3/1, 1x3x224x224, float64 C"}},
    {"pool_grad/average_gather", {}, one_by_one},
};

}  // namespace

Paths<PoolGradPlan> average_pool_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
