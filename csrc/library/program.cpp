// The operators' plans on the CPU and on a GPU.
#include "library/program.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/check.h"
#include "cpu/isa/backend.h"
#include "cuda/operator_range.h"
#include "library/environment.h"

namespace cudml::library {
namespace {

// Some ten microseconds of work. Handing a lock over and back costs a tenth of one where nobody
// wants it, and waiting for a thread that took it costs milliseconds.
constexpr double kLongWork = 32 * 1024;  // elements read

double elements(const PoolPlan& plan) {
  double n = double(plan.outputs());
  for (const PoolAxis& axis : plan.axis) n *= double(axis.window);
  return n;
}
double elements(const PoolGradPlan& plan) {
  return elements(plan.forward) +
         double(plan.compulsory_bytes()) / double(size_of(plan.forward.dtype));
}
double elements(const PadPlan& plan) { return double(plan.compulsory_bytes()) / plan.item_size; }
double elements(const PadGradPlan& plan) { return double(plan.terms()) + double(plan.elements()); }
double elements(const MvnPlan& plan) { return 8 * double(plan.groups) * double(plan.group_size); }
double elements(const MvnGradPlan& plan) {
  return 16 * double(plan.cells) * double(plan.cell_size);
}
double elements(const UnpoolPlan& plan) { return 2 * double(plan.sources() + plan.targets()); }
double elements(const StatisticsPlan& plan) {
  return 4 * double(plan.groups) * double(plan.group_size + 4);
}
double elements(const MergePlan& plan) { return 8 * double(plan.elements); }
double elements(const NormalizePlan& plan) { return 8 * double(plan.elements); }

void run_cuda(const PoolPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::pool(plan, choice, o.inputs[0], o.outputs[0], o.outputs[1], target);
}

void run_cuda(const PoolGradPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  if (plan.forward.kind == PoolKind::max)
    cuda::max_pool_grad(plan, choice, o.inputs[0], o.inputs[1], o.outputs[0], target);
  else if (plan.forward.kind == PoolKind::average)
    cuda::average_pool_grad(plan, choice, o.inputs[1], o.outputs[0], target);
  else
    cuda::lp_pool_grad(plan, choice, o.inputs[0], o.inputs[1], o.inputs[2], o.outputs[0], target);
}

void run_cuda(const PadPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::pad(plan, choice, o.inputs[0], o.outputs[0], target);
}

void run_cuda(const PadGradPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::pad_grad(plan, choice, o.inputs[0], o.outputs[0], target);
}

void run_cuda(const MvnPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::mvn(plan, choice, o, target);
}

void run_cuda(const MvnGradPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::mvn_grad(plan, choice, o, target);
}

void run_cuda(const UnpoolPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::unpool(plan, choice, o.inputs[0], o.inputs[1], o.outputs[0], target);
}

void run_cuda(const StatisticsPlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::statistics(plan, choice, o, target);
}

void run_cuda(const MergePlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::merge(plan, choice, o, target);
}

void run_cuda(const NormalizePlan& plan, const cuda::Choice& choice, const Operands& o,
              const cuda::Target& target) {
  cuda::normalize(plan, choice, o, target);
}

/// Holds a program's working memory while its work is enqueued; none where no bytes are needed.
class Held {
 public:
  Held(Scratch& scratch, int64_t bytes, void* stream)
      : scratch_(bytes ? &scratch : nullptr), stream_(stream) {
    if (!scratch_) return;
    try {
      data = scratch.begin(bytes, stream);
    } catch (...) {
      scratch.release();
      throw;
    }
  }
  ~Held() {
    if (scratch_) scratch_->release();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void end() {
    if (scratch_) scratch_->end(stream_);
  }

  void* data = nullptr;

 private:
  Scratch* scratch_;
  void* stream_;
};

}  // namespace

void* NewMemory::begin(int64_t bytes, void* stream) {
  if (given_) return given_;
  if (is_cuda_) return on_stream_.emplace(bytes, stream).data();
  on_cpu_.reset(new std::byte[size_t(bytes)]);
  return on_cpu_.get();
}

Program::Program(const char* op, const Plan& plan, Place place)
    : op_(op), plan_(plan), place_(place) {
  check_environment(op);
  if (place.is_cuda()) {
    choose_kernels();
    return;
  }
  path_ = std::visit([&](const auto& p) -> const void* { return &cpu::choose(op, p); }, plan_);
  workspace_bytes_ = std::visit([](const auto& p) { return cpu_workspace_bytes(p); }, plan_);
  is_long_ = std::visit([](const auto& p) { return elements(p); }, plan_) > kLongWork;
}

void Program::choose_kernels() {
  situation_ = cuda::situation_of_device(place_.device);
  for (int log = int(choices_.size()) - 1; log >= 0; --log) {
    cuda::Situation situation = situation_;
    situation.alignment = int64_t(1) << log;
    try {
      choices_[size_t(log)] =
          std::visit([&](const auto& p) { return cuda::choose(op_, p, situation); }, plan_);
    } catch (const std::invalid_argument&) {  // the forced kernel cannot take such addresses
      if (situation.alignment == situation_.alignment) throw;
      continue;
    }
    workspace_bytes_ = std::max(workspace_bytes_, choices_[size_t(log)]->geometry.workspace_bytes);
  }
}

void Program::load_kernels() const {
  const cuda::DeviceGuard guard(place_.device);
  for (size_t log = 0; log < choices_.size(); ++log)
    if (choices_[log])
      for (size_t at = log; at < choices_.size(); ++at) rehearse(*choices_[log], at);
}

/// A kernel may have variants for those operands' alignment that it reads in vectors, which is at
/// least that of all.
void Program::rehearse(const cuda::Choice& choice, size_t alignment_log) const {
  const uintptr_t odd = alignment_log < choices_.size() - 1 ? uintptr_t(1) << alignment_log : 0;
  void* const anywhere = reinterpret_cast<void*>((uintptr_t(1) << 20) + odd);  // never followed
  Operands operands;
  std::fill(std::begin(operands.inputs), std::end(operands.inputs), anywhere);
  std::fill(std::begin(operands.outputs), std::end(operands.outputs), anywhere);
  std::visit(
      [&](const auto& p) {
        run_cuda(p, choice, operands, {place_.device, nullptr, anywhere, true});
      },
      plan_);
}

cuda::Situation Program::situation_for(const Operands& operands) const {
  cuda::Situation situation = situation_;
  situation.alignment = operands.alignment();
  return situation;
}

cuda::Choice Program::choice_for(const Operands& operands) const {
  const auto& known = choices_[size_t(std::countr_zero(uint64_t(operands.alignment())))];
  if (known) return *known;
  // Without a known one the forced kernel cannot run, and this says why.
  return std::visit([&](const auto& p) { return cuda::choose(op_, p, situation_for(operands)); },
                    plan_);
}

void Program::run_on_cpu(const Operands& operands, Scratch& scratch) const {
  Held memory(scratch, workspace_bytes_, nullptr);
  const cpu::Arrays arrays{operands, memory.data};
  std::visit([&](const auto& p) { path_for(p).run(p, arrays); }, plan_);
  memory.end();
}

void Program::run_on_cuda(const Operands& operands, Scratch& scratch, void* stream) const {
  const cuda::Choice choice = choice_for(operands);
  const cuda::OperatorRange range(op_);
  const cuda::DeviceGuard guard(place_.device);
  Held memory(scratch, choice.geometry.workspace_bytes, stream);
  const cuda::Target target{place_.device, stream, memory.data};
  std::visit([&](const auto& p) { run_cuda(p, choice, operands, target); }, plan_);
  memory.end();
}

void Program::run(const Operands& operands, Scratch& scratch, void* stream) const {
  if (!place_.is_cuda()) return run_on_cpu(operands, scratch);
  try {
    run_on_cuda(operands, scratch, stream);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(op_, ": "));
  }
}

int64_t Program::workspace_bytes_for(const Operands& operands) const {
  return place_.is_cuda() && workspace_bytes_ ? choice_for(operands).geometry.workspace_bytes
                                              : workspace_bytes_;
}

Explanation Program::explain(const Operands& operands) const {
  return std::visit(
      [&](const auto& p) {
        if (!place_.is_cuda()) return explain_cpu(p, path_for(p));
        return explain_cuda(p, situation_for(operands), choice_for(operands));
      },
      plan_);
}

}  // namespace cudml::library
