// Choosing a kernel: one ordered list per family, predicates with names, a plain kernel last.
// Nothing here needs a toolkit, so that every build can explain what a GPU would run.
#pragma once

#include <span>
#include <string>

#include "choose/path.h"
#include "ops/plans.h"

namespace cudml::cuda {

/// What a choice depends on beside the plan: the GPU, and where the arrays begin.
struct Situation {
  int compute_capability = 90;  // 10 * major + minor
  int multiprocessors = 132;
  int64_t shared_bytes = 227 << 10;  // of one block, opted in
  int64_t l2_bytes = 50 << 20;
  bool has_clusters = true;  // of blocks that read each other's shared memory
  int64_t alignment = 256;   // the largest power of two that divides every address, at most 256
};

/// Blocks of a kernel that loops by 32-bit numbers; beyond, they take several turns.
constexpr int64_t kMostLoopBlocks = int64_t{1} << 20;

/// How a kernel is launched; one that takes several launches states its largest.
struct Geometry {
  uint32_t blocks = 0, threads = 0;
  int64_t shared_bytes = 0;     // dynamic
  int64_t workspace_bytes = 0;  // device memory that lives from launch to launch
  uint32_t cluster = 1;         // blocks that run together and share their shared memory
};

template <class Plan>
using Predicate = choose::Predicate<Plan, Situation>;

/// One kernel of a family. It takes a plan where all its predicates hold.
template <class Plan>
struct Kernel {
  const char* name;  // unique over all families: "mvn_warp", "pool_tile"
  choose::Needs<Plan, Situation> needs;
  Geometry (*geometry)(const Plan& plan, const Situation& situation);
};

template <class Plan>
using Kernels = std::span<const Kernel<Plan>>;

// The lists, first choice first. Plans of all pooling gradients are of one type but have lists of
// their own.
Kernels<PoolPlan> pool_kernels();
Kernels<PoolGradPlan> max_pool_grad_kernels();
Kernels<PoolGradPlan> average_pool_grad_kernels();
Kernels<PoolGradPlan> lp_pool_grad_kernels();
Kernels<PadPlan> pad_kernels();
Kernels<PadGradPlan> pad_grad_kernels();
Kernels<MvnPlan> mvn_kernels();
Kernels<MvnGradPlan> mvn_grad_kernels();
Kernels<UnpoolPlan> unpool_kernels();
Kernels<StatisticsPlan> statistics_kernels();
Kernels<MergePlan> merge_kernels();
Kernels<NormalizePlan> normalize_kernels();

/// A kernel for a plan: its place in the list and how it is launched.
struct Choice {
  int kernel = 0;
  const char* name = "";
  Geometry geometry;
};

/// The names of all families' kernels, comma-separated.
std::string kernel_names();

/// The first kernel of the family's list that can take the plan, or the one that CUDML_KERNEL
/// forces: a name that is none of the family's is ignored, one whose predicate fails is refused
/// with that predicate. `op` begins the refusal.
template <class Plan>
Choice choose(const char* op, const Plan& plan, const Situation& situation);

/// Why: the predicates that held, and for every earlier kernel the one that failed.
template <class Plan>
std::string reason(const Plan& plan, const Situation& situation, const Choice& choice);

/// The usual GPU of an architecture, "sm_75" to "sm_120"; refuses other names.
Situation situation_of_architecture(const char* op, const std::string& name);

}  // namespace cudml::cuda
