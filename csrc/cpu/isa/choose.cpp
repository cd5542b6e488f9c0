// Choosing among a family's paths, by list or by force, and saying why.
#include "cpu/isa/backend.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu {
namespace {

Paths<PoolPlan> paths_for(const PoolPlan& plan) {
  return plan.with_indices ? backend().winners() : backend().pool();
}
Paths<PoolGradPlan> paths_for(const PoolGradPlan& plan) {
  switch (plan.forward.kind) {
    case PoolKind::max: return backend().max_pool_grad();
    case PoolKind::average: return backend().average_pool_grad();
    default: return backend().lp_pool_grad();
  }
}
Paths<PadPlan> paths_for(const PadPlan&) { return backend().pad(); }
Paths<PadGradPlan> paths_for(const PadGradPlan&) { return backend().pad_grad(); }
Paths<MvnPlan> paths_for(const MvnPlan&) { return backend().mvn(); }
Paths<MvnGradPlan> paths_for(const MvnGradPlan&) { return backend().mvn_grad(); }
Paths<UnpoolPlan> paths_for(const UnpoolPlan&) { return backend().unpool(); }
Paths<StatisticsPlan> paths_for(const StatisticsPlan&) { return backend().statistics(); }
Paths<MergePlan> paths_for(const MergePlan&) { return backend().merge(); }
Paths<NormalizePlan> paths_for(const NormalizePlan&) { return backend().normalize(); }

Machine machine() { return {num_threads()}; }

}  // namespace

std::string path_names() {
  const Backend& all = backend();
  return choose::names_of(all.pool(), all.winners(), all.max_pool_grad(), all.average_pool_grad(),
                          all.lp_pool_grad(), all.unpool(), all.pad(), all.pad_grad(), all.mvn(),
                          all.mvn_grad(), all.statistics(), all.merge(), all.normalize());
}

// Where a batch or a kept dimension is empty, predicates would divide by its size.
template <class Plan>
const Path<Plan>& choose(const char* op, const Plan& plan) {
  const Paths<Plan> paths = paths_for(plan);
  if (plan.is_empty()) return paths.back();
  const int forced = choose::forced(op, paths, plan, machine());
  return paths[size_t(forced < 0 ? choose::first(paths, plan, machine()) : forced)];
}

template <class Plan>
std::string reason(const Plan& plan, const Path<Plan>& path) {
  const Paths<Plan> paths = paths_for(plan);
  const std::string name = std::string(path.name) + ": ";
  if (plan.is_empty()) return name + "nothing to compute";
  const int chosen = int(&path - paths.data()), threads = num_threads();
  return name + choose::because(paths, chosen) + "; instruction set " + backend().isa +
         ", at most " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         choose::instead_of(paths, chosen, plan, machine());
}

#define CUDML_INSTANTIATE(Plan)                                \
  template const Path<Plan>& choose(const char*, const Plan&); \
  template std::string reason(const Plan&, const Path<Plan>&);
CUDML_PLANS(CUDML_INSTANTIATE)
#undef CUDML_INSTANTIATE

}  // namespace cudml::cpu
