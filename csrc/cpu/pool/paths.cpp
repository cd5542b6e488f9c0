// The paths of pooling without indices on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pool/parts.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <ValuePath kPath>
bool has(const PoolPlan& plan, const Machine&) {
  if (plan.kind == PoolKind::max) return max_has(plan, kPath);
  return plan.kind == PoolKind::average ? average_has(plan, kPath) : lp_has(plan, kPath);
}

template <ValuePath kPath>
void run(const PoolPlan& plan, const Arrays& a) {
  if (plan.outputs() == 0) return;
  if (plan.kind == PoolKind::max) return max_values(plan, kPath, a.x, a.y);
  if (plan.kind == PoolKind::average) return average_values(plan, kPath, a.x, a.y);
  lp_values(plan, kPath, a.x, a.y);
}

bool has_vectors(const PoolPlan&, const Machine&) {
#if defined(__x86_64__) && !defined(__AVX__)
  return false;
#else
  return true;
#endif
}

bool is_usual(const PoolPlan& plan, const Machine&) {
  const bool is_wide = size_of(plan.dtype) > 2 && plan.dtype != Dtype::float32;
  return plan.kind != PoolKind::lp && !is_wide;
}

bool have_neighbours(const PoolPlan& plan, const Machine&) {
  return plan.x.batch[1] == 1 && plan.y.batch[1] == 1;
}

constexpr Path<PoolPlan> kPaths[] = {
    {"pool/taps",
     {{"the processor has AVX", has_vectors},
      {"maxima or averages of 8 or 16 bits or of float32", is_usual},
      {"planes lie side by side in x and y", have_neighbours},
      {"rows have several windows of at most 4 taps, or of 8, in enough planes for a vector",
       has<ValuePath::taps>}},
     run<ValuePath::taps>},
    {"pool/strips",
     {{"rows have several windows whose columns lie together, or close by, and fit a line of the "
       "first cache",
       has<ValuePath::strips>}},
     run<ValuePath::strips>},
    {"pool/planes",
     {{"each plane is one packed row that one window covers", has<ValuePath::planes>}},
     run<ValuePath::planes>},
    {"pool/side_by_side",
     {{"8 planes or more lie side by side in x, or 64 of packed rows",
       has<ValuePath::side_by_side>}},
     run<ValuePath::side_by_side>},
    {"pool/plain", {}, run<ValuePath::plain>},
};

}  // namespace

Paths<PoolPlan> pool_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
