// The gradients of normalization, at once and in two phases: what a caller asks for, what a kernel
// reads, and the rules between.
#pragma once

#include "core/tensor.h"
#include "math/activation.h"

namespace cudml {

enum class MvnGradKind : uint8_t {
  whole,  // mean_variance_normalization_grad
  sums,   // normalize_grad_sums
  part,   // normalize_grad
};

struct MvnGradDesc {
  const char* op = "";
  MvnGradKind kind = MvnGradKind::whole;
  Dims axes;                                  // of `whole` and `sums`, as MvnDesc has them
  bool use_mean = true, use_variance = true;  // of `whole`; else whether there is a tensor
  double epsilon = 1e-5;
  Activation activation;
  Dtype sum_dtype = Dtype::float64;  // of the results of `sums`
};

/// The tensors of a call in the order of its operands; null where one is absent or not asked for.
/// Outputs are the gradients of x, scale and bias, or the sums of w and of w * z.
struct MvnGradTensors {
  const TensorDesc *x = nullptr, *grad = nullptr, *scale = nullptr, *bias = nullptr;
  const TensorDesc *mean = nullptr, *variance = nullptr, *count = nullptr;
  const TensorDesc* sums[2] = {};
  const TensorDesc* outputs[3] = {};
};

/// One collapsed dimension and the strides of all tensors along it, 0 where one is broadcast.
/// `totals` are those of the totals as they are kept while they are added up.
struct MvnGradAxis {
  int64_t size = 1, x = 0, grad = 0, dx = 0, scale = 0, bias = 0;
  int64_t mean = 0, variance = 0, count = 0, sums[2] = {}, totals[2] = {};

  /// Whether scale, bias or their gradients differ along it.
  bool has_parameters() const { return scale || bias || totals[0] || totals[1]; }
};

/// Joins neighbours that every tensor can walk as one; returns how many axes remain.
int collapse(MvnGradAxis* axes, int rank);

/// A sum over all dimensions in which its tensor has size 1. Its elements are kept densely, in the
/// order of `axis`.
struct MvnGradTotal {
  bool is_wanted = false;
  Dtype dtype = Dtype::float32;
  int64_t count = 1;  // elements
  int64_t terms = 1;  // of each of them, wanted or not
  int output = 0;     // which operand it is
  int rank = 0;
  struct {
    int64_t size, stride;
  } axis[kMaxRank];
};

/// What a kernel reads. A cell is a set of elements that share their statistics: a group, or, where
/// statistics are given, whatever they are the same for, of `sums` in one group. Kept dimensions
/// tell cells apart, reduced ones run through a cell; both collapsed and sorted by x's memory, the
/// fastest last.
///
/// With h = grad * f'(v) and w = h * scale the first total is the sum of h * z and the second that
/// of h; of `sums` the first is the sum of w and the second that of w * z.
struct MvnGradPlan {
  MvnGradKind kind = MvnGradKind::whole;
  Dtype dtype = Dtype::float32;
  Dtype scale_dtype = Dtype::float32, bias_dtype = Dtype::float32;
  Dtype mean_dtype = Dtype::float32, variance_dtype = Dtype::float32, count_dtype = Dtype::float32;
  Dtype sum_dtypes[2] = {Dtype::float32, Dtype::float32};
  bool has_scale = false, has_bias = false;  // as tensors that are read
  bool use_mean = true, use_variance = true;
  bool are_given = false;  // mean and variance, else they are the cell's own
  bool has_sums = false;   // given ones
  bool wants_dx = false;
  double epsilon = 1e-5;
  Activation activation;  // parameters as given: a slope of 0 is none that blocks
  int kept_rank = 0, reduced_rank = 0;
  MvnGradAxis kept[kMaxRank], reduced[kMaxRank];
  MvnGradTotal totals[2];
  int64_t cells = 1, cell_size = 1;

  /// There is nothing to read; totals are 0 then.
  bool is_empty() const { return cells == 0 || cell_size == 0; }
  bool has_totals() const { return totals[0].is_wanted || totals[1].is_wanted; }
  /// Whether elements share statistics that are used; else each of them is a group.
  bool uses_statistics() const { return use_mean || use_variance; }
  /// Whether each of the groups that are summed up is one cell.
  bool is_cell_a_group() const;
  /// Whether z is needed, and with it x and statistics.
  bool reads_x() const;
  /// Whether the statistics are those of the cell, and are needed.
  bool has_own_statistics() const;
  /// Whether dx takes sums over the cell itself.
  bool has_own_sums() const;
  int64_t compulsory_bytes() const;
};

/// Every check of the specification, then the plan.
MvnGradPlan make_plan(const MvnGradDesc& desc, const MvnGradTensors& tensors);

}  // namespace cudml
