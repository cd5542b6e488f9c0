// The CPU back end: lists of paths, compiled for three instruction sets, one of which is chosen
// once; and the choice of a path for a plan.
#pragma once

#include <string>

#include "cpu/isa/paths.h"

namespace cudml::cpu {

struct Backend {
  const char* isa;  // "base", "v3" (x86-64-v3) or "v4" (x86-64-v4)
  Paths<PoolPlan> (*pool)();
  Paths<PoolPlan> (*winners)();  // of max pooling with indices
  Paths<PoolGradPlan> (*max_pool_grad)();
  Paths<PoolGradPlan> (*average_pool_grad)();
  Paths<PoolGradPlan> (*lp_pool_grad)();
  Paths<UnpoolPlan> (*unpool)();
  Paths<PadPlan> (*pad)();
  Paths<PadGradPlan> (*pad_grad)();
  Paths<MvnPlan> (*mvn)();
  Paths<MvnGradPlan> (*mvn_grad)();
  Paths<StatisticsPlan> (*statistics)();
  Paths<MergePlan> (*merge)();
  Paths<NormalizePlan> (*normalize)();
};

namespace base {
extern const Backend backend;
}
namespace v3 {
extern const Backend backend;
}
namespace v4 {
extern const Backend backend;
}

/// The table for this processor, or the one CUDML_CPU_ISA forces. Throws std::invalid_argument
/// where that names an instruction set this processor or this build does not have.
const Backend& backend();

/// The names of all families' paths, comma-separated.
std::string path_names();

/// The first path of the family's list that takes the plan, or the one that CUDML_KERNEL forces: a
/// name that is none of the family's is ignored, one whose predicate fails is refused with that
/// predicate. `op` begins the refusal.
template <class Plan>
const Path<Plan>& choose(const char* op, const Plan& plan);

/// Why: the predicates that held, the machine, and for every earlier path the one that failed.
template <class Plan>
std::string reason(const Plan& plan, const Path<Plan>& path);

/// Comma-separated names of the instruction sets compiled in, lowest first.
const char* built_instruction_sets();

}  // namespace cudml::cpu
