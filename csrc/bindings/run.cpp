// The seven operators' plans on the CPU and on a GPU.
#include "bindings/run.h"

#include <cstddef>
#include <memory>
#include <string>

#include "bindings/explain.h"
#include "bindings/unlocked.h"
#include "core/check.h"
#include "cpu/backend.h"
#include "cuda/operator_range.h"

namespace cudml::bindings {
namespace {

template <class Plan>
void run_on_cpu(const Call& call, const Plan& plan, const Operands& operands,
                NamedTensors tensors) {
  if (is_logging()) log_call(call, explain_cpu(plan), tensors);
  const int64_t bytes = cpu_workspace_bytes(plan);
  const std::unique_ptr<std::byte[]> workspace(bytes ? new std::byte[size_t(bytes)] : nullptr);
  const Unlocked unlocked;
  run_cpu(plan, operands, workspace.get());
}

template <class Plan>
void run_on_cuda(const Call& call, const Plan& plan, const Operands& operands,
                 NamedTensors tensors) {
  cuda::Situation situation = cuda::situation_of_device(call.place.device);
  situation.alignment = operands.alignment();
  const cuda::Choice choice = cuda::choose(call.op, plan, situation);
  if (is_logging()) log_call(call, explain_cuda(plan, situation, choice), tensors);
  const Unlocked unlocked;
  const cuda::OperatorRange range(call.op);
  const cuda::DeviceGuard guard(call.place.device);
  const cuda::StreamMemory workspace(choice.geometry.workspace_bytes, call.stream);
  run_cuda(plan, choice, operands, {call.place.device, call.stream, workspace.data()});
}

}  // namespace

template <class Plan>
void run(const Call& call, const Plan& plan, const Operands& operands, NamedTensors tensors) {
  if (!call.place.is_cuda()) return run_on_cpu(call, plan, operands, tensors);
  try {
    run_on_cuda(call, plan, operands, tensors);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(call.op, ": "));
  }
}

template void run(const Call&, const PoolPlan&, const Operands&, NamedTensors);
template void run(const Call&, const PoolGradPlan&, const Operands&, NamedTensors);
template void run(const Call&, const PadPlan&, const Operands&, NamedTensors);
template void run(const Call&, const MvnPlan&, const Operands&, NamedTensors);

int64_t cpu_workspace_bytes(const PoolPlan&) { return 0; }
int64_t cpu_workspace_bytes(const PoolGradPlan& plan) { return plan.workspace_bytes; }
int64_t cpu_workspace_bytes(const PadPlan&) { return 0; }
int64_t cpu_workspace_bytes(const MvnPlan&) { return 0; }

void run_cpu(const PoolPlan& plan, const Operands& o, void*) {
  cpu::backend().pool(plan, o.x, o.y, o.indices);
}

void run_cpu(const PoolGradPlan& plan, const Operands& o, void* workspace) {
  if (plan.forward.kind == PoolKind::max)
    cpu::backend().max_pool_grad(plan, o.x, o.second, o.y, workspace);
  else
    cpu::backend().average_pool_grad(plan, o.second, o.y);
}

void run_cpu(const PadPlan& plan, const Operands& o, void*) { cpu::backend().pad(plan, o.x, o.y); }

void run_cpu(const MvnPlan& plan, const Operands& o, void*) {
  cpu::backend().mvn(plan, o.x, o.second, o.third, o.y);
}

void run_cuda(const PoolPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::pool(plan, choice, o.x, o.y, o.indices, target);
}

void run_cuda(const PoolGradPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  if (plan.forward.kind == PoolKind::max)
    cuda::max_pool_grad(plan, choice, o.x, o.second, o.y, target);
  else
    cuda::average_pool_grad(plan, choice, o.second, o.y, target);
}

void run_cuda(const PadPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::pad(plan, choice, o.x, o.y, target);
}

void run_cuda(const MvnPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::mvn(plan, choice, o.x, o.second, o.third, o.y, target);
}

}  // namespace cudml::bindings
