// Choosing among a family's paths, by list or by force, and saying why.
#include "cpu/isa/backend.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu {
namespace {

Paths<PoolPlan> paths_for(const PoolPlan& plan) {
  return plan.with_indices ? backend().winners() : backend().pool();
}
Paths<PoolGradPlan> paths_for(const PoolGradPlan& plan) {
  return plan.forward.kind == PoolKind::max ? backend().max_pool_grad()
                                            : backend().average_pool_grad();
}
Paths<PadPlan> paths_for(const PadPlan&) { return backend().pad(); }
Paths<MvnPlan> paths_for(const MvnPlan&) { return backend().mvn(); }

// A batch or a kept dimension may be empty: predicates divide by sizes.
bool is_empty(const PoolPlan& plan) { return plan.outputs() == 0; }
bool is_empty(const PoolGradPlan& plan) { return plan.forward.outputs() == 0; }
bool is_empty(const PadPlan& plan) { return plan.axis[0].out == 0; }
bool is_empty(const MvnPlan& plan) { return plan.groups == 0; }

Machine machine() { return {num_threads()}; }

template <class Plan>
const Path<Plan>& choose_among(const char* op, const Plan& plan) {
  const Paths<Plan> paths = paths_for(plan);
  if (is_empty(plan)) return paths.back();
  const int forced = choose::forced(op, paths, plan, machine());
  return paths[size_t(forced < 0 ? choose::first(paths, plan, machine()) : forced)];
}

template <class Plan>
std::string reason_among(const Plan& plan, const Path<Plan>& path) {
  const Paths<Plan> paths = paths_for(plan);
  const std::string name = std::string(path.name) + ": ";
  if (is_empty(plan)) return name + "nothing to compute";
  const int chosen = int(&path - paths.data()), threads = num_threads();
  return name + choose::because(paths, chosen) + "; instruction set " + backend().isa +
         ", at most " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         choose::instead_of(paths, chosen, plan, machine());
}

}  // namespace

std::string path_names() {
  const Backend& all = backend();
  return choose::names_of(all.pool(), all.winners(), all.max_pool_grad(), all.average_pool_grad(),
                          all.pad(), all.mvn());
}

const Path<PoolPlan>& choose(const char* op, const PoolPlan& plan) {
  return choose_among(op, plan);
}
const Path<PoolGradPlan>& choose(const char* op, const PoolGradPlan& plan) {
  return choose_among(op, plan);
}
const Path<PadPlan>& choose(const char* op, const PadPlan& plan) { return choose_among(op, plan); }
const Path<MvnPlan>& choose(const char* op, const MvnPlan& plan) { return choose_among(op, plan); }

std::string reason(const PoolPlan& plan, const Path<PoolPlan>& path) {
  return reason_among(plan, path);
}
std::string reason(const PoolGradPlan& plan, const Path<PoolGradPlan>& path) {
  return reason_among(plan, path);
}
std::string reason(const PadPlan& plan, const Path<PadPlan>& path) {
  return reason_among(plan, path);
}
std::string reason(const MvnPlan& plan, const Path<MvnPlan>& path) {
  return reason_among(plan, path);
}

}  // namespace cudml::cpu
