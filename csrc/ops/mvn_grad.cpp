// The gradients of normalization: every check, and the plan.
#include "ops/mvn_grad.h"

#include <algorithm>

#include "core/layout.h"
#include "math/slope.h"
#include "ops/activation.h"
#include "ops/mvn_checks.h"

namespace cudml {
namespace {

/// Mean and Variance of `whole`: both absent, or each there exactly where it is used.
void check_given(const MvnGradDesc& desc, const MvnGradTensors& t, const Dims& sizes) {
  if (!t.mean && !t.variance) return;
  const auto check_one = [&](const char* field, const TensorDesc* tensor, bool is_used) {
    check((tensor != nullptr) == is_used, desc.op, ": ", field, " is ", tensor ? "given" : "absent",
          " and Use", field, " is ", is_used ? "True" : "False",
          "; Mean and Variance must both be absent, or each be given exactly where it is used");
    if (!tensor) return;
    check_wide(desc.op, field, *t.x, *tensor);
    check_sizes(desc.op, field, *tensor, sizes);
  };
  check_one("Mean", t.mean, desc.use_mean);
  check_one("Variance", t.variance, desc.use_variance);
}

/// Statistics that broadcast to x, and the sums that go with them.
void check_statistics(const MvnGradDesc& desc, const MvnGradTensors& t) {
  const auto check_one = [&](const char* field, const TensorDesc* tensor) {
    if (tensor) check_statistic(desc.op, field, *t.x, *tensor);
  };
  check_one("Mean", t.mean);
  check_one("Variance", t.variance);
  check((t.count != nullptr) == (t.sums[0] != nullptr), desc.op, ": Count is ",
        t.count ? "given" : "absent", " and sums are ", t.sums[0] ? "given" : "absent",
        "; both must be given, or neither");
  check_one("Count", t.count);
  check_one("GradientSum", t.sums[0]);
  check_one("ProductSum", t.sums[1]);
}

void check_outputs(const MvnGradDesc& desc, const MvnGradTensors& t, const Dims& sizes) {
  const auto check_one = [&](int i, const char* field, const TensorDesc* like, const char* owner) {
    if (t.outputs[i]) check_result(desc.op, field, *t.outputs[i], like->dtype, owner, like->sizes);
  };
  if (desc.kind == MvnGradKind::sums) {
    const TensorDesc like{desc.sum_dtype, sizes, {}};
    check_one(0, "GradientSum", &like, "");
    check_one(1, "ProductSum", &like, "");
  } else {
    check_one(0, "OutputGradientTensor", t.x, "InputTensor's");
    check_one(1, "ScaleGradientTensor", t.scale, "ScaleTensor's");
    check_one(2, "BiasGradientTensor", t.bias, "BiasTensor's");
  }
}

/// Everything but the activation and epsilon; tells which dimensions are in Axes.
void check_tensors(const MvnGradDesc& desc, const MvnGradTensors& t, bool (&reduced)[kMaxRank]) {
  check_normalized(desc.op, *t.x);
  check_type(t.grad->dtype == t.x->dtype, desc.op, ": InputGradientTensor.DataType is ",
             name_of(t.grad->dtype), "; it must be InputTensor's, ", name_of(t.x->dtype));
  check_sizes(desc.op, "InputGradientTensor", *t.grad, t.x->sizes);
  if (t.scale) check_parameter(desc.op, "ScaleTensor", *t.x, *t.scale);
  if (t.bias) check_parameter(desc.op, "BiasTensor", *t.x, *t.bias);
  check_axes(desc.op, desc.axes, *t.x, desc.kind != MvnGradKind::whole, reduced);
  const Dims sizes = group_sizes(desc.axes, *t.x);
  if (desc.kind == MvnGradKind::whole)
    check_given(desc, t, sizes);
  else
    check_statistics(desc, t);
  check_outputs(desc, t, sizes);
}

Dtype dtype_or(const TensorDesc* tensor, Dtype other) { return tensor ? tensor->dtype : other; }

void set_types(MvnGradPlan& plan, const MvnGradTensors& t) {
  plan.dtype = t.x->dtype;
  plan.scale_dtype = dtype_or(t.scale, plan.dtype);
  plan.bias_dtype = dtype_or(t.bias, plan.dtype);
  plan.mean_dtype = dtype_or(t.mean, plan.dtype);
  plan.variance_dtype = dtype_or(t.variance, plan.dtype);
  plan.count_dtype = dtype_or(t.count, plan.dtype);
  for (int i = 0; i < 2; ++i) plan.sum_dtypes[i] = dtype_or(t.sums[i], plan.dtype);
}

/// Whether a dimension runs through the cells, which the statistics tell of the two phases; of
/// `sums` a cell belongs to one group alone, as what a group is added up of follows from that.
bool runs_through_cells(const MvnGradDesc& desc, bool has_one_statistic, bool is_in_axes) {
  switch (desc.kind) {
    case MvnGradKind::whole: return is_in_axes || !(desc.use_mean || desc.use_variance);
    case MvnGradKind::sums: return is_in_axes && has_one_statistic;
    default: return has_one_statistic;
  }
}

/// The dimensions of x, the fastest last, but those of size 1.
struct Axes {
  int rank = 0;
  MvnGradAxis axis[kMaxRank];
  int64_t outputs[2][kMaxRank] = {};  // strides of the totals' tensors
  bool is_summed[2][kMaxRank] = {}, is_reduced[kMaxRank] = {};

  Axes(const MvnGradDesc& desc, const MvnGradTensors& t, const bool (&reduced)[kMaxRank]) {
    int order[kMaxRank];
    for (int d = 0; d < t.x->rank(); ++d)
      if (t.x->sizes[d] != 1) order[rank++] = d;
    std::stable_sort(order, order + rank, [&](int a, int b) {
      const Dims &x = t.x->strides, &grad = t.grad->strides;
      return x[a] != x[b] ? x[a] > x[b] : grad[a] > grad[b];
    });
    const int first = desc.kind == MvnGradKind::sums ? 0 : 1;
    for (int i = 0; i < rank; ++i) {
      const int d = order[i];
      MvnGradAxis& a = axis[i];
      a = {t.x->sizes[d], t.x->strides[d], t.grad->strides[d]};
      if (first && t.outputs[0]) a.dx = t.outputs[0]->strides[d];
      a.scale = broadcast_stride(t.scale, d);
      a.bias = broadcast_stride(t.bias, d);
      a.mean = broadcast_stride(t.mean, d);
      a.variance = broadcast_stride(t.variance, d);
      a.count = broadcast_stride(t.count, d);
      for (int k = 0; k < 2; ++k) {
        a.sums[k] = broadcast_stride(t.sums[k], d);
        const TensorDesc* const total = t.outputs[first + k];
        outputs[k][i] = broadcast_stride(total, d);
        // A parameter's sizes, not its strides: one that repeats a number has a sum for each place.
        const TensorDesc* const like = first == 0 ? total : k == 0 ? t.scale : t.bias;
        is_summed[k][i] = !like || like->sizes[d] == 1;
      }
      const bool has_one =
          a.mean == 0 && a.variance == 0 && a.count == 0 && a.sums[0] == 0 && a.sums[1] == 0;
      is_reduced[i] = runs_through_cells(desc, has_one, reduced[d]);
    }
  }

  /// Adds the next faster axis of a total, to the one before where they stand like one.
  static void append(MvnGradTotal& total, int64_t size, int64_t stride) {
    if (size == 1) return;
    if (total.rank > 0) {
      auto& [outer_size, outer_stride] = total.axis[total.rank - 1];
      if (outer_stride == size * stride) {
        outer_size *= size;
        outer_stride = stride;
        return;
      }
    }
    total.axis[total.rank++] = {size, stride};
  }

  /// Gives total `k` its dense order, and the axes their strides in it.
  MvnGradTotal total(int k, int output, const TensorDesc* tensor) {
    MvnGradTotal result;
    for (int i = 0; i < rank; ++i)
      if (is_summed[k][i]) result.terms *= axis[i].size;
    if (!tensor) return result;
    result.is_wanted = true;
    result.dtype = tensor->dtype;
    result.output = output;
    for (int i = rank - 1; i >= 0; --i) {
      if (is_summed[k][i]) continue;
      axis[i].totals[k] = result.count;
      result.count *= axis[i].size;
    }
    for (int i = 0; i < rank; ++i)
      if (!is_summed[k][i]) append(result, axis[i].size, outputs[k][i]);
    return result;
  }
};

void set_cells(MvnGradPlan& plan, const Axes& axes) {
  for (int i = 0; i < axes.rank; ++i) {
    const MvnGradAxis& axis = axes.axis[i];
    if (axes.is_reduced[i]) {
      plan.cell_size *= axis.size;
      plan.reduced[plan.reduced_rank++] = axis;
    } else {
      plan.cells *= axis.size;
      plan.kept[plan.kept_rank++] = axis;
    }
  }
  if (plan.is_empty()) return;
  plan.kept_rank = collapse(plan.kept, plan.kept_rank);
  plan.reduced_rank = collapse(plan.reduced, plan.reduced_rank);
}

}  // namespace

int collapse(MvnGradAxis* axes, int rank) {
  const auto can_merge = [](const MvnGradAxis& outer, const MvnGradAxis& inner) {
    const auto joins = [&](auto... strides) {
      return ((outer.*strides == inner.*strides * inner.size) && ...);
    };
    using A = MvnGradAxis;
    bool result =
        joins(&A::x, &A::grad, &A::dx, &A::scale, &A::bias, &A::mean, &A::variance, &A::count);
    for (int k = 0; k < 2; ++k)
      result &= outer.sums[k] == inner.sums[k] * inner.size &&
                outer.totals[k] == inner.totals[k] * inner.size;
    return result;
  };
  int collapsed = 0;
  for (int d = 0; d < rank; ++d) {
    MvnGradAxis axis = axes[d];
    while (collapsed > 0 && can_merge(axes[collapsed - 1], axis))
      axis.size *= axes[--collapsed].size;
    axes[collapsed++] = axis;
  }
  return collapsed;
}

MvnGradPlan make_plan(const MvnGradDesc& desc, const MvnGradTensors& t) {
  bool reduced[kMaxRank] = {};
  check_tensors(desc, t, reduced);
  MvnGradPlan plan;
  plan.kind = desc.kind;
  plan.epsilon = checked_epsilon(desc.op, desc.epsilon, t.x->dtype);
  plan.activation = desc.activation;
  check_parameters(desc.op, plan.activation, t.x->dtype);
  set_types(plan, t);
  const bool is_whole = desc.kind == MvnGradKind::whole;
  plan.use_mean = is_whole ? desc.use_mean : t.mean != nullptr;
  plan.use_variance = is_whole ? desc.use_variance : t.variance != nullptr;
  plan.are_given = !is_whole || t.mean || t.variance;
  plan.has_sums = t.sums[0] != nullptr;
  plan.has_scale = t.scale != nullptr;
  plan.has_bias = t.bias && reads_input(plan.activation.kind);
  const int first = desc.kind == MvnGradKind::sums ? 0 : 1;
  plan.wants_dx = first && t.outputs[0];
  Axes axes(desc, t, reduced);
  for (int k = 0; k < 2; ++k) plan.totals[k] = axes.total(k, first + k, t.outputs[first + k]);
  set_cells(plan, axes);
  return plan;
}

bool MvnGradPlan::is_cell_a_group() const {
  return std::all_of(kept, kept + kept_rank,
                     [](const MvnGradAxis& a) { return a.totals[0] || a.totals[1]; });
}

bool MvnGradPlan::has_own_statistics() const {
  return !are_given && reads_x() && (use_mean || use_variance);
}

bool MvnGradPlan::has_own_sums() const {
  return kind == MvnGradKind::whole && wants_dx && (use_mean || use_variance);
}

bool MvnGradPlan::reads_x() const {
  const bool takes_product = wants_dx && use_variance && (kind == MvnGradKind::whole || has_sums);
  return kind == MvnGradKind::sums || takes_product || totals[0].is_wanted ||
         reads_input(activation.kind);
}

int64_t MvnGradPlan::compulsory_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](auto stride_of, bool is_there, Dtype tensor) {
    int64_t n = is_there ? int64_t(size_of(tensor)) : 0;
    for (int d = 0; d < kept_rank; ++d) n *= stride_of(kept[d]) ? kept[d].size : 1;
    for (int d = 0; d < reduced_rank; ++d) n *= stride_of(reduced[d]) ? reduced[d].size : 1;
    bytes += n;
  };
  using A = MvnGradAxis;
  const auto of = [](int64_t A::* stride) { return [=](const A& a) { return a.*stride; }; };
  for (const MvnGradTotal& total : totals)
    if (total.is_wanted) bytes += total.count * int64_t(size_of(total.dtype));
  if (is_empty()) return bytes;
  add(of(&A::x), reads_x(), dtype);
  add(of(&A::grad), true, dtype);
  add(of(&A::dx), wants_dx, dtype);
  add(of(&A::scale), has_scale, scale_dtype);
  add(of(&A::bias), has_bias, bias_dtype);
  add(of(&A::mean), are_given && use_mean, mean_dtype);
  add(of(&A::variance), are_given && use_variance, variance_dtype);
  add(of(&A::count), has_sums, count_dtype);
  for (int k = 0; k < 2; ++k) add([k](const A& a) { return a.sums[k]; }, has_sums, sum_dtypes[k]);
  return bytes;
}

}  // namespace cudml
