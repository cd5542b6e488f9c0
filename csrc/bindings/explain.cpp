// Explanations and the kernel lists.
#include "bindings/explain.h"

#include <vector>

#include "bindings/raise.h"
#include "bindings/text.h"
#include "core/check.h"
#include "cpu/isa/backend.h"

namespace cudml::bindings {
namespace {

/// Of a path that is measured, else nothing: kernels of a GPU have none.
std::string gain_of(const auto& way) {
  TextStream text;
  if constexpr (requires { way.gain; })
    if (way.gain.times > 0) text << way.gain.times << " in " << way.gain.where;
  return text.str();
}

/// A list of kernels or of paths.
py::list listed(auto ways) {
  py::list result;
  for (const auto& way : ways) {
    py::list needs;
    for (const auto& p : way.needs)
      if (p.name) needs.append(p.name);
    result.append(py::make_tuple(way.name, py::tuple(needs), gain_of(way)));
  }
  return result;
}

enum class Family {
  none,
  pool,
  winners,
  max_pool_grad,
  average_pool_grad,
  lp_pool_grad,
  unpool,
  pad,
  pad_grad,
  mvn,
  mvn_grad,
  statistics,
  merge,
  normalize,
};

Family family_named(const std::string& name) {
  const auto is = [&](auto... names) { return ((name == names) || ...); };
  if (is("pool", "max_pooling", "average_pooling", "lp_pooling")) return Family::pool;
  if (is("winners")) return Family::winners;
  if (is("max_pool_grad", "max_pooling_grad")) return Family::max_pool_grad;
  if (is("average_pool_grad", "average_pooling_grad")) return Family::average_pool_grad;
  if (is("lp_pool_grad", "lp_pooling_grad")) return Family::lp_pool_grad;
  if (is("pad", "padding")) return Family::pad;
  if (is("pad_grad", "padding_grad")) return Family::pad_grad;
  if (is("mvn", "mean_variance_normalization")) return Family::mvn;
  if (is("mvn_grad", "mean_variance_normalization_grad", "normalize_grad_sums", "normalize_grad"))
    return Family::mvn_grad;
  if (is("unpool", "max_unpooling")) return Family::unpool;
  if (is("statistics", "normalization_statistics")) return Family::statistics;
  if (is("merge", "merge_statistics")) return Family::merge;
  if (is("normalize")) return Family::normalize;
  return Family::none;
}

py::list kernels_of(Family family) {
  switch (family) {
    case Family::max_pool_grad: return listed(cuda::max_pool_grad_kernels());
    case Family::average_pool_grad: return listed(cuda::average_pool_grad_kernels());
    case Family::lp_pool_grad: return listed(cuda::lp_pool_grad_kernels());
    case Family::pad: return listed(cuda::pad_kernels());
    case Family::pad_grad: return listed(cuda::pad_grad_kernels());
    case Family::mvn: return listed(cuda::mvn_kernels());
    case Family::mvn_grad: return listed(cuda::mvn_grad_kernels());
    case Family::unpool: return listed(cuda::unpool_kernels());
    case Family::statistics: return listed(cuda::statistics_kernels());
    case Family::merge: return listed(cuda::merge_kernels());
    case Family::normalize: return listed(cuda::normalize_kernels());
    default: return listed(cuda::pool_kernels());  // values and winners are of one kernel
  }
}

py::list paths_of(Family family) {
  const cpu::Backend& paths = cpu::backend();
  switch (family) {
    case Family::winners: return listed(paths.winners());
    case Family::max_pool_grad: return listed(paths.max_pool_grad());
    case Family::average_pool_grad: return listed(paths.average_pool_grad());
    case Family::lp_pool_grad: return listed(paths.lp_pool_grad());
    case Family::pad: return listed(paths.pad());
    case Family::pad_grad: return listed(paths.pad_grad());
    case Family::mvn: return listed(paths.mvn());
    case Family::mvn_grad: return listed(paths.mvn_grad());
    case Family::unpool: return listed(paths.unpool());
    case Family::statistics: return listed(paths.statistics());
    case Family::merge: return listed(paths.merge());
    case Family::normalize: return listed(paths.normalize());
    default: return listed(paths.pool());
  }
}

}  // namespace

template <class Plan>
py::object explained(const Call& call, const Plan& plan, const Operands& operands) {
  if (!call.situation && !call.place.is_cuda())
    return to_python(call, library::explain_cpu(plan, cpu::choose(call.op, plan)));
  cuda::Situation situation =
      call.situation ? *call.situation : cuda::situation_of_device(call.place.device);
  situation.alignment = operands.alignment();
  return to_python(call,
                   library::explain_cuda(plan, situation, cuda::choose(call.op, plan, situation)));
}

#define CUDML_INSTANTIATE(Plan) \
  template py::object explained(const Call&, const Plan&, const Operands&);
CUDML_PLANS(CUDML_INSTANTIATE)
#undef CUDML_INSTANTIATE

py::object to_python(const Call& call, const Explanation& e) {
  py::object grid = py::none(), block = py::none(), shared = py::none(), cluster = py::none();
  if (e.geometry) {
    grid = py::make_tuple(e.geometry->blocks, 1, 1);
    block = py::make_tuple(e.geometry->threads, 1, 1);
    shared = py::int_(e.geometry->shared_bytes);
    cluster = py::int_(e.geometry->cluster);
  }
  py::object pooled = py::none();
  if (call.pooled_axes)
    pooled = py::tuple(py::cast(std::vector(call.pooled_axes->begin(), call.pooled_axes->end())));
  const std::string device = call.device_name.empty() ? name_of(call.place) : call.device_name;
  return called(py::module_::import("cudml._explain").attr("Explanation"), call.op, device,
                e.kernel, e.reason, e.bytes, e.workspace_bytes, grid, block, shared, cluster,
                pooled);
}

py::list kernels(const py::object& family, const py::object& device) {
  check_type(py::isinstance<py::str>(family), "kernels: family is ", text_of(family), " (",
             type_name(family), "); it must be a string");
  check_type(py::isinstance<py::str>(device), "kernels: device is ", text_of(device), " (",
             type_name(device), "); it must be a string");
  const std::string where = utf8(device);
  check(where == "cuda" || where == "cpu", "kernels: device is ", text_of(device),
        "; it must be \"cuda\" or \"cpu\"");
  const Family found = family_named(utf8(family));
  check(found != Family::none, "kernels: family is ", text_of(family),
        "; it must be an operator's name or pool, winners, max_pool_grad, average_pool_grad, "
        "lp_pool_grad, unpool, pad, pad_grad, mvn, mvn_grad, statistics, merge or normalize");
  return where == "cpu" ? paths_of(found) : kernels_of(found);
}

}  // namespace cudml::bindings
