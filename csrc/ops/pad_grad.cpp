// The gradient of padding: every check, and the plans.
#include "ops/pad_grad.h"

#include <algorithm>
#include <cstdlib>

#include "core/layout.h"
#include "math/long_sum.h"
#include "ops/pool_shape.h"

namespace cudml {
namespace {

constexpr const char* kGrad = "InputGradientTensor";
constexpr const char* kResult = "OutputGradientTensor";

void check_size(const PadGradDesc& desc, const Dims& grad, int d) {
  const int64_t n = desc.input_sizes[d], start = desc.start_padding[d], end = desc.end_padding[d];
  check(n >= 0 && n <= kMaxPaddedSize, desc.op, ": ", kResult, ".Sizes[", d, "] is ", n,
        "; it must be between 0 and ", kMaxPaddedSize);
  check(n > 0 || start + end == 0, desc.op, ": ", kResult, ".Sizes[", d,
        "] is 0; a dimension with padding must not be empty");
  check(grad[d] == start + n + end, desc.op, ": ", kGrad, ".Sizes[", d, "] is ", grad[d],
        "; it must be ", start, " + ", n, " + ", end, " = ", start + n + end);
  check(grad[d] <= kMaxPaddedSize, desc.op, ": ", kGrad, ".Sizes[", d, "] is ", grad[d],
        "; it must be at most ", kMaxPaddedSize);
}

void check_result(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result) {
  check_type(result.dtype == grad.dtype, desc.op, ": ", kResult, ".DataType is ",
             name_of(result.dtype), "; it must be that of ", kGrad, ", ", name_of(grad.dtype));
  check_same_sizes(desc.op, kResult, result.sizes, desc.input_sizes, "as in the forward input");
  check_extent(desc.op, kResult, result);
  check_output_strides(desc.op, kResult, result);
}

/// The elements that no pad shows: those behind what the start padding repeats, before what the
/// end padding does. Empty where the two meet.
void find_inner(PadGradAxis& a) {
  const int64_t n = a.in, before = a.start, behind = a.out - a.in - a.start;
  int64_t begin = before, end = n - behind;
  if (a.mode == Border::edge) {
    begin = std::min<int64_t>(before, 1);
    end = n - std::min<int64_t>(behind, 1);
  } else if (a.mode == Border::reflection) {
    begin = before > 0 ? before + 1 : 0;
    end = n - (behind > 0 ? behind + 1 : 0);
  } else if (a.mode == Border::wrap) {
    begin = behind;
    end = n - before;
  }
  if (begin >= end) begin = end = n;
  a.inner_begin = begin;
  a.inner_end = end;
}

PadGradAxis axis_of(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result,
                    int d) {
  PadGradAxis a;
  a.in = result.sizes[d];
  a.out = grad.sizes[d];
  a.start = desc.start_padding[d];
  a.grad_stride = grad.strides[d];
  a.stride = a.in == 1 ? 0 : result.strides[d];
  a.mode = a.in == 1 || !a.is_padded() ? Border::edge : desc.mode;
  return a;
}

/// A dimension takes the one inside it along where both keep their elements, where a wrapped one
/// moves whole blocks of it, and where both are summed up altogether.
bool can_merge(const PadGradAxis& outer, const PadGradAxis& inner) {
  if (outer.grad_stride != inner.grad_stride * inner.out) return false;
  if (outer.in == 1) return inner.in == 1;
  const bool moves_blocks = !outer.is_padded() || outer.mode == Border::wrap;
  return moves_blocks && !inner.is_padded() && outer.stride == inner.stride * inner.in;
}

PadGradAxis merged(const PadGradAxis& outer, const PadGradAxis& inner) {
  PadGradAxis a = inner;
  a.in = outer.in * inner.in;
  a.out = outer.out * inner.out;
  a.start = outer.start * inner.in;
  a.mode = outer.mode;
  return a;
}

/// The axis with the most positions of one element where these are very many, so that they can be
/// shared out; else the fastest axis with pads, else the fastest.
int folded_axis(const PadGradPlan& plan) {
  int folded = -1;
  int64_t most = kChain;
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (folded < 0 && plan.axis[d].is_padded()) folded = d;
    const int64_t count = most_preimages(plan.axis[d]);
    if (count <= most) continue;
    most = count;
    folded = d;
  }
  return folded < 0 ? plan.rank - 1 : folded;
}

/// Few elements of very many terms, whose pieces are shared out. Others have threads enough.
void find_long_sums(PadGradPlan& plan) {
  constexpr int64_t kMostPieces = int64_t{1} << 21;
  plan.pieces = (most_preimages(plan.axis[plan.folded]) + kPadGradPiece - 1) / kPadGradPiece;
  if (plan.pieces == 1) return;
  const int64_t sums = PadGradLongSums(plan).count(plan.elements());
  if (sums <= kMostPieces / plan.pieces) plan.long_sums = sums;
}

}  // namespace

int64_t most_preimages(const PadGradAxis& a) {
  if (a.inner_end - a.inner_begin == a.in) return 1;
  if (a.mode == Border::edge)
    return std::max(preimages_of(a, 0).count, preimages_of(a, a.in - 1).count);
  // Elements of one axis differ by two positions at most.
  return preimages_of(a, a.in / 2).count + 2;
}

Dims output_sizes(const PadGradDesc& desc, const TensorDesc& grad) {
  const int rank = grad.rank();
  check_type(is_float(grad.dtype), desc.op, ": ", kGrad, ".DataType is ", name_of(grad.dtype),
             "; it must be float16, bfloat16, float32 or float64");
  check(rank >= 1 && rank <= kMaxRank, desc.op, ": ", kGrad, ".DimensionCount is ", rank,
        "; it must be between 1 and ", kMaxRank);
  check(desc.input_sizes.rank == rank, desc.op, ": ", kResult, ".Sizes are ", desc.input_sizes,
        "; there must be ", rank, ", one for each dimension of ", kGrad);
  check_pads(desc.op, "StartPadding", desc.start_padding, rank, kGrad);
  check_pads(desc.op, "EndPadding", desc.end_padding, rank, kGrad);
  for (int d = 0; d < rank; ++d) check_size(desc, grad.sizes, d);
  check_extent(desc.op, kGrad, grad);
  return desc.input_sizes;
}

PadPlan make_slice_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result) {
  const Dims sizes = output_sizes(desc, grad);
  check_result(desc, grad, result);
  PadDesc copy;
  copy.op = desc.op;
  copy.start_padding = copy.end_padding = Dims::filled(sizes.rank, 0);
  PadPlan plan = make_plan(copy, {grad.dtype, sizes, grad.strides}, result);
  for (int d = 0; d < sizes.rank; ++d) plan.x_first += desc.start_padding[d] * grad.strides[d];
  return plan;
}

PadGradPlan make_plan(const PadGradDesc& desc, const TensorDesc& grad, const TensorDesc& result) {
  const Dims sizes = output_sizes(desc, grad);
  check_result(desc, grad, result);
  PadGradPlan plan;
  plan.dtype = grad.dtype;
  if (count(sizes) == 0) {
    plan.axis[0].in = plan.axis[0].out = 0;
    return plan;
  }
  PadGradAxis axes[kMaxRank];
  int rank = 0;
  for (int d = 0; d < sizes.rank; ++d)
    if (grad.sizes[d] > 1) axes[rank++] = axis_of(desc, grad, result, d);
  std::stable_sort(axes, axes + rank, [](const PadGradAxis& a, const PadGradAxis& b) {
    return std::abs(a.grad_stride) > std::abs(b.grad_stride);
  });
  plan.rank = 0;
  for (int d = 0; d < rank; ++d) {
    PadGradAxis axis = axes[d];
    while (plan.rank > 0 && can_merge(plan.axis[plan.rank - 1], axis))
      axis = merged(plan.axis[--plan.rank], axis);
    plan.axis[plan.rank++] = axis;
  }
  plan.rank = std::max(plan.rank, 1);
  for (int d = 0; d < plan.rank; ++d) find_inner(plan.axis[d]);
  plan.folded = folded_axis(plan);
  find_long_sums(plan);
  return plan;
}

int64_t PadGradPlan::workspace_bytes() const {
  return long_sums * pieces * int64_t(std::max<size_t>(size_of(dtype), sizeof(float)));
}

int64_t PadGradPlan::elements() const {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= axis[d].in;
  return n;
}

int64_t PadGradPlan::terms() const {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n = saturating_product(n, axis[d].out);
  return n;
}

int64_t PadGradPlan::compulsory_bytes() const {
  int64_t read = 1;
  for (int d = 0; d < rank; ++d)
    if (axis[d].grad_stride != 0 || axis[d].out == 0) read *= axis[d].out;
  return (read + elements()) * int64_t(size_of(dtype));
}

}  // namespace cudml
