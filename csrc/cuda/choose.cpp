// Choosing among a family's kernels, by list or by force, and saying why.
#include "cuda/choose.h"

#include <string_view>

#include "core/check.h"
#include "core/environment.h"
#include "cuda/pad_kernels.h"

namespace cudml::cuda {
namespace {

Kernels<PoolPlan> kernels_for(const PoolPlan&) { return pool_kernels(); }
Kernels<PoolGradPlan> kernels_for(const PoolGradPlan& plan) {
  return plan.forward.kind == PoolKind::max ? max_pool_grad_kernels() : average_pool_grad_kernels();
}
Kernels<PadPlan> kernels_for(const PadPlan&) { return pad_kernels(); }
Kernels<MvnPlan> kernels_for(const MvnPlan&) { return mvn_kernels(); }

/// The name CUDML_KERNEL gives, empty where none; read at every call, so that tests can change it.
std::string_view forced_name() { return environment_text("CUDML_KERNEL"); }

template <class Plan>
int find(Kernels<Plan> kernels, std::string_view name) {
  for (size_t i = 0; i < kernels.size(); ++i)
    if (name == kernels[i].name) return int(i);
  return -1;
}

/// Hands the list of every family to `visit`.
template <class Visitor>
void for_each_family(Visitor&& visit) {
  visit(pool_kernels());
  visit(max_pool_grad_kernels());
  visit(average_pool_grad_kernels());
  visit(pad_kernels());
  visit(mvn_kernels());
}

bool is_known(std::string_view name) {
  bool found = false;
  for_each_family([&](auto kernels) { found = found || find(kernels, name) >= 0; });
  return found;
}

std::string every_name() {
  std::string text;
  for_each_family([&](auto kernels) {
    for (const auto& kernel : kernels)
      text += (text.empty() ? "" : ", ") + std::string(kernel.name);
  });
  return text;
}

// A batch or a kept dimension may be empty: predicates and geometries divide by sizes.
bool is_empty(const PoolPlan& plan) { return plan.outputs() == 0; }
bool is_empty(const PoolGradPlan& plan) { return plan.forward.outputs() == 0; }
bool is_empty(const PadPlan& plan) { return pad_elements(plan) == 0; }
bool is_empty(const MvnPlan& plan) { return plan.groups == 0; }

/// The forced kernel's place, or -1 where none is forced for this family.
template <class Plan>
int forced(const char* op, Kernels<Plan> kernels, const Plan& plan, const Situation& situation) {
  const std::string_view name = forced_name();
  if (name.empty()) return -1;
  const int index = find(kernels, name);
  if (index < 0) {
    check_forced_name(op);
    return -1;
  }
  const char* refusal = kernels[size_t(index)].refusal(plan, situation);
  check(!refusal, op, ": CUDML_KERNEL is \"", name, "\", which needs that ", refusal);
  return index;
}

template <class Plan>
Choice choose_among(const char* op, const Plan& plan, const Situation& situation) {
  const Kernels<Plan> kernels = kernels_for(plan);
  if (is_empty(plan)) return {int(kernels.size()) - 1, kernels.back().name, Geometry{}};
  int index = forced(op, kernels, plan, situation);
  // The last kernel has no predicates.
  for (index = index < 0 ? 0 : index; kernels[size_t(index)].refusal(plan, situation);) ++index;
  const Kernel<Plan>& kernel = kernels[size_t(index)];
  return {index, kernel.name, kernel.geometry(plan, situation)};
}

template <class Plan>
std::string reason_among(const Plan& plan, const Situation& situation, const Choice& choice) {
  const Kernels<Plan> kernels = kernels_for(plan);
  std::string text = choice.name;
  if (is_empty(plan)) return text + ": nothing to compute";
  const char* separator = ": ";
  for (const Predicate<Plan>& p : kernels[size_t(choice.kernel)].needs) {
    if (!p.name) continue;
    text += separator + std::string(p.name);
    separator = ", ";
  }
  if (*separator == ':') text += ": it takes every plan";
  if (forced_name() == choice.name) text += "; forced by CUDML_KERNEL";
  for (int i = 0; i < choice.kernel; ++i)
    if (const char* refusal = kernels[size_t(i)].refusal(plan, situation))
      text += std::string("; not ") + kernels[size_t(i)].name + ", which needs that " + refusal;
  return text;
}

struct Architecture {
  const char* name;
  Situation usual;
};

// Multiprocessors, shared memory and L2 of the architecture's best-known GPU: T4, A100, RTX 3090,
// L40, H100, B200, RTX 5090.
constexpr Architecture kArchitectures[] = {
    {"sm_75", {75, 40, 64 << 10, 4 << 20}},     {"sm_80", {80, 108, 163 << 10, 40 << 20}},
    {"sm_86", {86, 82, 99 << 10, 6 << 20}},     {"sm_89", {89, 142, 99 << 10, 96 << 20}},
    {"sm_90", {90, 132, 227 << 10, 50 << 20}},  {"sm_100", {100, 148, 227 << 10, 126 << 20}},
    {"sm_120", {120, 170, 99 << 10, 96 << 20}},
};

}  // namespace

void check_forced_name(const char* op) {
  const std::string_view name = forced_name();
  if (!name.empty() && !is_known(name))
    refuse_variable(op, "CUDML_KERNEL", name, "it must be one of " + every_name());
}

Choice choose(const char* op, const PoolPlan& plan, const Situation& situation) {
  return choose_among(op, plan, situation);
}
Choice choose(const char* op, const PoolGradPlan& plan, const Situation& situation) {
  return choose_among(op, plan, situation);
}
Choice choose(const char* op, const PadPlan& plan, const Situation& situation) {
  return choose_among(op, plan, situation);
}
Choice choose(const char* op, const MvnPlan& plan, const Situation& situation) {
  return choose_among(op, plan, situation);
}

std::string reason(const PoolPlan& plan, const Situation& situation, const Choice& choice) {
  return reason_among(plan, situation, choice);
}
std::string reason(const PoolGradPlan& plan, const Situation& situation, const Choice& choice) {
  return reason_among(plan, situation, choice);
}
std::string reason(const PadPlan& plan, const Situation& situation, const Choice& choice) {
  return reason_among(plan, situation, choice);
}
std::string reason(const MvnPlan& plan, const Situation& situation, const Choice& choice) {
  return reason_among(plan, situation, choice);
}

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
