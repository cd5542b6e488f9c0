// Choosing among a family's kernels, by list or by force, and saying why.
#include "cuda/choose.h"

#include <string_view>

#include "core/check.h"
#include "cuda/pad_kernels.h"
#include "cuda/pool_grad_kernels.h"

namespace cudml::cuda {
namespace {

Kernels<PoolPlan> kernels_for(const PoolPlan&) { return pool_kernels(); }
Kernels<PoolGradPlan> kernels_for(const PoolGradPlan& plan) {
  switch (plan.forward.kind) {
    case PoolKind::max: return max_pool_grad_kernels();
    case PoolKind::average: return average_pool_grad_kernels();
    default: return lp_pool_grad_kernels();
  }
}
Kernels<PadPlan> kernels_for(const PadPlan&) { return pad_kernels(); }
Kernels<PadGradPlan> kernels_for(const PadGradPlan&) { return pad_grad_kernels(); }
Kernels<MvnPlan> kernels_for(const MvnPlan&) { return mvn_kernels(); }
Kernels<MvnGradPlan> kernels_for(const MvnGradPlan&) { return mvn_grad_kernels(); }
Kernels<UnpoolPlan> kernels_for(const UnpoolPlan&) { return unpool_kernels(); }
Kernels<StatisticsPlan> kernels_for(const StatisticsPlan&) { return statistics_kernels(); }
Kernels<MergePlan> kernels_for(const MergePlan&) { return merge_kernels(); }
Kernels<NormalizePlan> kernels_for(const NormalizePlan&) { return normalize_kernels(); }

/// What one launch takes of a plan.
template <class Plan>
const Plan& launched(const Plan& plan) {
  return plan;
}
PoolPlan launched(const PoolPlan& plan) { return in_slices(plan); }
PoolGradPlan launched(const PoolGradPlan& plan) { return in_slices(plan); }

struct Architecture {
  const char* name;
  Situation usual;
};

// Multiprocessors, shared memory and L2 of the architecture's best-known GPU: T4, A100, RTX 3090,
// L40, H100, B200, RTX 5090.
constexpr Architecture kArchitectures[] = {
    {"sm_75", {75, 40, 64 << 10, 4 << 20, false}}, {"sm_80", {80, 108, 163 << 10, 40 << 20, false}},
    {"sm_86", {86, 82, 99 << 10, 6 << 20, false}}, {"sm_89", {89, 142, 99 << 10, 96 << 20, false}},
    {"sm_90", {90, 132, 227 << 10, 50 << 20}},     {"sm_100", {100, 148, 227 << 10, 126 << 20}},
    {"sm_120", {120, 170, 99 << 10, 96 << 20}},
};

}  // namespace

std::string kernel_names() {
  return choose::names_of(pool_kernels(), max_pool_grad_kernels(), average_pool_grad_kernels(),
                          lp_pool_grad_kernels(), unpool_kernels(), pad_kernels(),
                          pad_grad_kernels(), mvn_kernels(), mvn_grad_kernels(),
                          statistics_kernels(), merge_kernels(), normalize_kernels());
}

// Where a batch or a kept dimension is empty, predicates and geometries would divide by its size.
template <class Plan>
Choice choose(const char* op, const Plan& whole, const Situation& situation) {
  const Kernels<Plan> kernels = kernels_for(whole);
  if (whole.is_empty()) return {int(kernels.size()) - 1, kernels.back().name, Geometry{}};
  const Plan& plan = launched(whole);
  int index = choose::forced(op, kernels, plan, situation);
  if (index < 0) index = choose::first(kernels, plan, situation);
  const Kernel<Plan>& kernel = kernels[size_t(index)];
  return {index, kernel.name, kernel.geometry(plan, situation)};
}

template <class Plan>
std::string reason(const Plan& whole, const Situation& situation, const Choice& choice) {
  const Kernels<Plan> kernels = kernels_for(whole);
  const std::string name = std::string(choice.name) + ": ";
  if (whole.is_empty()) return name + "nothing to compute";
  const Plan& plan = launched(whole);
  return name + choose::because(kernels, choice.kernel) +
         choose::instead_of(kernels, choice.kernel, plan, situation);
}

#define CUDML_INSTANTIATE(Plan)                                       \
  template Choice choose(const char*, const Plan&, const Situation&); \
  template std::string reason(const Plan&, const Situation&, const Choice&);
CUDML_PLANS(CUDML_INSTANTIATE)
#undef CUDML_INSTANTIATE

Situation situation_of_architecture(const char* op, const std::string& name) {
  std::string names;
  for (const Architecture& a : kArchitectures) {
    if (name == a.name) return a.usual;
    names += (names.empty() ? "" : ", ") + std::string(a.name);
  }
  refuse(op, ": device is \"", name,
         "\"; it must be \"cpu\", \"cuda\", \"cuda:<number>\" or one of ", names);
}

}  // namespace cudml::cuda
