// Explanations, the log and the kernel lists.
#include "bindings/explain.h"

#include <cstdio>
#include <sstream>
#include <vector>

#include "bindings/text.h"
#include "core/environment.h"
#include "cpu/isa/backend.h"
#include "cpu/threads/parallel.h"

namespace cudml::bindings {
namespace {

const char* cpu_name(const PoolPlan&) { return "cpu_pool"; }
const char* cpu_name(const PoolGradPlan& plan) {
  return plan.forward.kind == PoolKind::max ? "cpu_max_pool_grad" : "cpu_average_pool_grad";
}
const char* cpu_name(const PadPlan&) { return "cpu_pad"; }
const char* cpu_name(const MvnPlan&) { return "cpu_mvn"; }

template <class Plan>
py::list listed(cuda::Kernels<Plan> kernels) {
  py::list result;
  for (const cuda::Kernel<Plan>& kernel : kernels) {
    py::list needs;
    for (const cuda::Predicate<Plan>& p : kernel.needs)
      if (p.name) needs.append(p.name);
    result.append(py::make_tuple(kernel.name, py::tuple(needs)));
  }
  return result;
}

}  // namespace

template <class Plan>
Explanation explain_cpu(const Plan& plan) {
  const int threads = cpu::num_threads();
  return {cpu_name(plan),
          join("the arrays are on the CPU; instruction set ", cpu::backend().isa, ", at most ",
               threads, threads == 1 ? " thread" : " threads"),
          plan.compulsory_bytes(), cpu_workspace_bytes(plan), std::nullopt};
}

template <class Plan>
Explanation explain_cuda(const Plan& plan, const cuda::Situation& situation,
                         const cuda::Choice& choice) {
  return {choice.name, cuda::reason(plan, situation, choice), plan.compulsory_bytes(),
          choice.geometry.workspace_bytes, choice.geometry};
}

template <class Plan>
py::object explained(const Call& call, const Plan& plan, const Operands& operands) {
  if (!call.situation && !call.place.is_cuda()) return to_python(call, explain_cpu(plan));
  cuda::Situation situation =
      call.situation ? *call.situation : cuda::situation_of_device(call.place.device);
  situation.alignment = operands.alignment();
  return to_python(call, explain_cuda(plan, situation, cuda::choose(call.op, plan, situation)));
}

template Explanation explain_cpu(const PoolPlan&);
template Explanation explain_cpu(const PoolGradPlan&);
template Explanation explain_cpu(const PadPlan&);
template Explanation explain_cpu(const MvnPlan&);
template Explanation explain_cuda(const PoolPlan&, const cuda::Situation&, const cuda::Choice&);
template Explanation explain_cuda(const PoolGradPlan&, const cuda::Situation&, const cuda::Choice&);
template Explanation explain_cuda(const PadPlan&, const cuda::Situation&, const cuda::Choice&);
template Explanation explain_cuda(const MvnPlan&, const cuda::Situation&, const cuda::Choice&);
template py::object explained(const Call&, const PoolPlan&, const Operands&);
template py::object explained(const Call&, const PoolGradPlan&, const Operands&);
template py::object explained(const Call&, const PadPlan&, const Operands&);
template py::object explained(const Call&, const MvnPlan&, const Operands&);

py::object to_python(const Call& call, const Explanation& e) {
  py::object grid = py::none(), block = py::none(), shared = py::none();
  if (e.geometry) {
    grid = py::make_tuple(e.geometry->blocks, 1, 1);
    block = py::make_tuple(e.geometry->threads, 1, 1);
    shared = py::int_(e.geometry->shared_bytes);
  }
  py::object pooled = py::none();
  if (call.pooled_axes)
    pooled = py::tuple(py::cast(std::vector(call.pooled_axes->begin(), call.pooled_axes->end())));
  const std::string device = call.device_name.empty() ? name_of(call.place) : call.device_name;
  return py::module_::import("cudml._explain")
      .attr("Explanation")(call.op, device, e.kernel, e.reason, e.bytes, e.workspace_bytes, grid,
                           block, shared, pooled);
}

bool is_logging() { return environment().is_logging; }

void log_call(const Call& call, const Explanation& e, NamedTensors tensors) {
  std::ostringstream line;
  line << "cudml: " << call.op;
  for (const NamedTensor& t : tensors)
    line << ' ' << t.field << '=' << name_of(t.desc->dtype) << t.desc->sizes << "strides"
         << t.desc->strides;
  line << " device=" << name_of(call.place) << " stream=";
  if (call.place.is_cuda())
    line << "0x" << std::hex << reinterpret_cast<uintptr_t>(call.stream) << std::dec;
  else
    line << "none";
  line << " kernel=" << e.kernel << " bytes=" << e.bytes << " reason=\"" << e.reason << "\"\n";
  const std::string text = line.str();
  std::fwrite(text.data(), 1, text.size(), stderr);  // at once: threads' lines must not mix
}

py::list kernels(const py::object& family) {
  check_type(py::isinstance<py::str>(family), "kernels: family is ", text_of(family), " (",
             type_name(family), "); it must be a string");
  const std::string name = utf8(family);
  const auto is = [&](auto... names) { return ((name == names) || ...); };
  if (is("pool", "max_pooling", "average_pooling", "lp_pooling"))
    return listed(cuda::pool_kernels());
  if (is("max_pool_grad", "max_pooling_grad")) return listed(cuda::max_pool_grad_kernels());
  if (is("average_pool_grad", "average_pooling_grad"))
    return listed(cuda::average_pool_grad_kernels());
  if (is("pad", "padding")) return listed(cuda::pad_kernels());
  if (is("mvn", "mean_variance_normalization")) return listed(cuda::mvn_kernels());
  refuse("kernels: family is ", text_of(family),
         "; it must be an operator's name or pool, max_pool_grad, average_pool_grad, pad or mvn");
}

}  // namespace cudml::bindings
