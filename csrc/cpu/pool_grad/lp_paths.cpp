// The paths of Lp pooling's gradient on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pool_grad/lp_planes.h"
#include "cpu/pool_grad/lp_rows.h"
#include "cpu/pool_grad/lp_side_by_side.h"
#include "cpu/pool_grad/lp_thirds.h"
#include "cpu/pool_grad/lp_turned.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool are_sums_short(const PoolGradPlan& plan, const Machine&) {
  return most_covers(plan.forward) <= kLongestChain;
}

bool has_planes(const PoolGradPlan& plan, const Machine&) { return LpPlanes<float>::fits(plan); }
/// Planes of less than a vector take less side by side.
bool are_planes_long(const PoolGradPlan& plan, const Machine& machine) {
  const bool is_turned =
      !kIsKeptSmall && are_sums_short(plan, machine) && fits_lp_turned(plan, machine);
  return plan.forward.axis[2].in >= kLanes<float> || !is_turned;
}
bool has_neighbours(const PoolGradPlan& plan, const Machine&) {
  return LpSideBySide<float>::fits(plan);
}
bool has_thirds(const PoolGradPlan& plan, const Machine&) { return LpThirds<float>::fits(plan); }
bool has_rows(const PoolGradPlan& plan, const Machine&) { return LpRows<float>::fits(plan); }

/// Runs a path for the plan's element type.
template <template <class> class Loop>
void run(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() { Loop<T>(LpArrays<T>(plan, a)).run(); });
}

void thirds(const PoolGradPlan& plan, const Arrays& a) {
  visit_usual(plan, [&]<class T>() { LpThirds<T>(LpArrays<T>(plan, a)).run(); });
}

void turned(const PoolGradPlan& plan, const Arrays& a) {
  run_turned(lp_pool_grad_paths(), plan, a);
}

void one_by_one(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    const LpArrays<T> arrays(plan, a);
    if (most_covers(plan.forward) > kLongestChain)
      LpGather<T, true>(arrays).run();
    else
      LpGather<T, false>(arrays).run();
  });
}

constexpr Predicate<PoolGradPlan> kShort{"no element has more windows than one sum may join",
                                         are_sums_short};

constexpr Path<PoolGradPlan> kPaths[] = {
    {"pool_grad/lp_planes",
     {{"each plane is one packed row that one window covers", has_planes},
      {"planes are as long as a vector of float32, or cannot be put side by side",
       are_planes_long}},
     run<LpPlanes>,
     {99, "79 L2 grad global, 32x512x30x40, float16 C"}},
    {"pool_grad/lp_side_by_side",
     {kShort, {"8 planes or more lie side by side in all tensors", has_neighbours}},
     run<LpSideBySide>,
     {38.5, "114 L2 grad 2x2/2, 2x512x7x7, float16 L"}},
    {"pool_grad/lp_turned",
     {kHasAvx,
      kShort,
      {"8 planes or more are packed, one after the other, of elements of the norms' type, and so "
       "short that 32 of them stay in the caches side by side",
       fits_lp_turned}},
     turned,
     {17.6, "114 L2 grad 2x2/2, 2x512x7x7, float16 C"}},
    {"pool_grad/lp_thirds",
     {kHasAvx,
      kNarrow,
      {"windows are 3 x 3, two apart, on packed planes, and begin at most one element before them",
       has_thirds}},
     thirds,
     {2.85, "81 L2 grad 3x3/2, 32x512x30x40, float32 C"}},
    {"pool_grad/lp_rows",
     {kShort,
      {"rows have several windows, at most 64 apart, and at most 64 such steps from the first tap "
       "to the last",
       has_rows}},
     run<LpRows>,
     {35.5, "114 L2 grad 2x2/2, 1x3x224x224, float16 C"}},
    {"pool_grad/lp_gather", {}, one_by_one},
};

}  // namespace

Paths<PoolGradPlan> lp_pool_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
