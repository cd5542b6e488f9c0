// The paths of max pooling with indices on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/winners/winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <WinnerPath kPath>
bool has(const PoolPlan& plan, const Machine&) {
  return winners_have(plan, kPath);
}

template <WinnerPath kPath>
void run(const PoolPlan& plan, const Arrays& a) {
  if (plan.outputs() > 0) max_winners(plan, kPath, a.x, a.y, a.indices);
}

constexpr Path<PoolPlan> kPaths[] = {
    {"winners/strips",
     {{"rows have several windows whose columns lie together and fit a line of the first cache, "
       "in planes whose positions fit a lane",
       has<WinnerPath::strips>}},
     run<WinnerPath::strips>},
    {"winners/side_by_side",
     {{"8 planes or more lie side by side in x, or 64 of packed rows",
       has<WinnerPath::side_by_side>}},
     run<WinnerPath::side_by_side>},
    {"winners/plain", {}, run<WinnerPath::plain>},
};

}  // namespace

Paths<PoolPlan> winner_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
