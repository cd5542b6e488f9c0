// The kernels of the pooling gradients, first choice first.
#include "cuda/pool_grad_kernels.h"

#include <algorithm>
#include <iterator>

namespace cudml::cuda {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;
constexpr int64_t kMostCovers = 1024;  // windows over an element that are summed in float32

bool is_common_type(const PoolGradPlan& plan, const Situation&) {
  return plan.forward.dtype != Dtype::float64;
}

bool are_windows_dense(const PoolGradPlan& plan, const Situation&) {
  for (const PoolAxis& a : plan.forward.axis)
    if (a.dilation != 1) return false;
  return true;
}

bool are_covers_few(const PoolGradPlan& plan, const Situation&) {
  int64_t covers = 1, taps = 1;
  for (const PoolAxis& a : plan.forward.axis) {
    covers = std::min(kLimit, covers * std::min(a.out, (a.window - 1) / a.stride + 1));
    taps = std::min(kLimit, taps * a.window);
  }
  return covers <= kMostCovers && taps < kLimit;
}

/// Largest offset of any tensor, counted a little further than its last element.
bool are_offsets_small(const PoolGradPlan& plan, const Situation&) {
  const PoolPlan& f = plan.forward;
  int64_t result = 0, grad = 0, norms = 0, windows = f.batch[0] * f.batch[1];
  for (int i = 0; i < 2; ++i) {
    result += f.batch[i] * plan.result.batch[i];
    grad += f.batch[i] * f.y.batch[i];
    norms += f.batch[i] * f.indices.batch[i];
  }
  for (int i = 0; i < 3; ++i) {
    result += f.axis[i].in * plan.result.space[i];
    grad += f.axis[i].out * f.y.space[i];
    norms += f.axis[i].out * f.indices.space[i];
    windows *= f.axis[i].out;
  }
  const int64_t most = kLimit - 1024;
  if (f.kind == PoolKind::lp && norms >= most) return false;  // winners are packed
  // Strips of maxima have up to two units for a window.
  if (f.kind == PoolKind::max && windows >= most / 2) return false;
  return result < most && grad < most && windows < most && pool_grad_elements(plan) < most;
}

bool is_input_small(const PoolGradPlan& plan, const Situation&) {
  const PoolPlan& f = plan.forward;
  int64_t end = 0;
  for (int i = 0; i < 2; ++i) end += f.batch[i] * f.x.batch[i];
  for (int i = 0; i < 3; ++i) end += f.axis[i].in * f.x.space[i];
  return end < kLimit - 1024;
}

/// Dimensions of one element have strides of 0 everywhere.
bool is_input_like_result(const PoolGradPlan& plan, const Situation&) {
  const PoolPlan& f = plan.forward;
  return std::equal(f.x.batch, f.x.batch + 2, plan.result.batch) &&
         std::equal(f.x.space, f.x.space + 3, plan.result.space);
}

bool are_columns_packed(const PoolGradPlan& plan, const Situation&) {
  return plan.result.space[2] == 1;
}

/// Planes are neighbours, in aligned vectors, wherever a kernel of lanes reads or writes.
bool are_planes_vectors(const PoolGradPlan& plan, const Situation& situation) {
  const PoolPlan& f = plan.forward;
  const int64_t lanes = kGradVectorBytes / int64_t(size_of(f.dtype));
  if (f.y.batch[1] != 1 || plan.result.batch[1] != 1 || !has_lanes(plan)) return false;
  if (f.kind == PoolKind::max && f.indices.batch[1] != 1) return false;
  int64_t strides = f.batch[1] | f.y.batch[0] | plan.result.batch[0];
  for (int i = 0; i < 3; ++i) strides |= f.y.space[i] | plan.result.space[i];
  for (int i = 0; i < f.outer_rank; ++i) strides |= f.outer[i].y | plan.result_outer[i];
  return situation.alignment % kGradVectorBytes == 0 && strides % lanes == 0;
}

/// An axis along which each window is one plane.
bool is_plane_alone(const PoolAxis& a) {
  return a.window == 1 && a.stride == 1 && a.start == 0 && a.end == 0 && a.in == a.out;
}

bool are_windows_pairs(const PoolGradPlan& plan, const Situation&) {
  const PoolAxis* const a = plan.forward.axis;
  for (int i = 1; i < 3; ++i)
    if (a[i].window != 2 || a[i].stride != 2 || a[i].dilation != 1 || a[i].start != 0) return false;
  return is_plane_alone(a[0]);
}

/// Columns are neighbours in aligned vectors: 16 bytes of x and result, and of the gradient as many
/// as stand at their place.
bool are_columns_vectors(const PoolGradPlan& plan, const Situation& situation) {
  const PoolPlan& f = plan.forward;
  const int64_t lanes = kGradVectorBytes / int64_t(size_of(f.dtype));
  const bool is_max = f.kind == PoolKind::max;
  if (f.y.space[2] != 1 || plan.result.space[2] != 1) return false;
  if (is_max && f.x.space[2] != 1) return false;
  const auto bits = [](const PoolStrides& s) {
    return s.batch[0] | s.batch[1] | s.space[0] | s.space[1];
  };
  int64_t grad = bits(f.y), other = bits(plan.result) | (is_max ? bits(f.x) : 0);
  for (int i = 0; i < f.outer_rank; ++i) {
    grad |= f.outer[i].y;
    other |= plan.result_outer[i] | (is_max ? f.outer[i].x : 0);
  }
  return situation.alignment % kGradVectorBytes == 0 && grad % (lanes / f.axis[2].stride) == 0 &&
         other % lanes == 0;
}

/// A plane's rows and columns; windows begin in it or at most two before it.
bool are_windows_threes(const PoolGradPlan& plan, const Situation&) {
  const PoolAxis* const a = plan.forward.axis;
  for (int i = 1; i < 3; ++i)
    if (a[i].window != 3 || a[i].dilation != 1 || a[i].start > 2 || a[i].stride != a[2].stride)
      return false;
  const bool is_max = plan.forward.kind == PoolKind::max;
  return (a[2].stride == 2 || (a[2].stride == 1 && !is_max)) && is_plane_alone(a[0]);
}

/// Rows of whole vectors, each with as many windows at its place as fit beside each other.
bool are_windows_even(const PoolGradPlan& plan, const Situation& situation) {
  const PoolAxis& w = plan.forward.axis[2];
  const int64_t lanes = kGradVectorBytes / int64_t(size_of(plan.forward.dtype));
  return are_windows_threes(plan, situation) && w.in == w.out * w.stride && w.in % lanes == 0 &&
         (w.stride == 1 ? w.start == 1 : w.start <= 1);
}

bool are_all_columns_packed(const PoolGradPlan& plan, const Situation&) {
  const PoolPlan& f = plan.forward;
  return plan.result.space[2] == 1 && f.y.space[2] == 1 &&
         (f.kind != PoolKind::max || f.x.space[2] == 1);
}

/// The winners, and what finding them may need: aligned vectors never need more than this.
int64_t workspace_of(const PoolGradPlan& plan, Situation situation) {
  if (plan.forward.kind != PoolKind::max || plan.forward.outputs() == 0) return 0;
  situation.alignment = 1;
  return winners_bytes(plan) +
         winners_choice(winners_plan(plan), situation).geometry.workspace_bytes;
}

Geometry geometry_of(const PoolGradPlan& plan, const Situation& s, const RowTiles& tiles) {
  const uint32_t blocks = pool_grad_elements(plan) == 0 ? 0 : blocks_of(tiles);
  return {blocks, kPoolGradThreads, int64_t(tiles.tile_rows * sizeof(GradRow)),
          workspace_of(plan, s)};
}

Geometry row_geometry(const PoolGradPlan& plan, const Situation& s) {
  const int64_t n = kGradVectorBytes / int64_t(size_of(plan.forward.dtype));
  return geometry_of(plan, s, rows_of(plan, n, 1, n - 1).tiles);
}

Geometry lanes_geometry(const PoolGradPlan& plan, const Situation& s) {
  const int64_t n = kGradVectorBytes / int64_t(size_of(plan.forward.dtype));
  return geometry_of(plan, s, rows_of(plan, 1, n, 0).tiles);
}

Geometry place_geometry(const PoolGradPlan& plan, const Situation& s) {
  return geometry_of(plan, s, rows_of(plan, 1, 1, 0).tiles);
}

/// n threads, which loop where the grid is cut short.
Geometry threads_for(int64_t n) {
  const int64_t blocks = (n + kPoolGradThreads - 1) / kPoolGradThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kPoolGradThreads, 0, 0};
}

Geometry pairs_geometry(const PoolGradPlan& plan, const Situation&) {
  return threads_for(pool_grad_elements(plan) == 0 ? 0 : pairs_of(plan).units);
}

Geometry strips_geometry(const PoolGradPlan& plan, const Situation&) {
  if (pool_grad_elements(plan) == 0) return threads_for(0);
  const int64_t units = strips_of(plan, false).units,
                warps = (units + kStripLanes - 1) / kStripLanes;
  return threads_for(plan.forward.kind == PoolKind::max ? warps * 32 : units);
}

Geometry vector_strips_geometry(const PoolGradPlan& plan, const Situation&) {
  return threads_for(pool_grad_elements(plan) == 0 ? 0 : strips_of(plan, true).units);
}

Geometry generic_geometry(const PoolGradPlan& plan, const Situation& s) {
  const int64_t n = (pool_grad_elements(plan) + kPoolGradThreads - 1) / kPoolGradThreads;
  return {uint32_t(std::min(n, kMostLoopBlocks)), kPoolGradThreads, 0, workspace_of(plan, s)};
}

using Need = Predicate<PoolGradPlan>;
constexpr Need kCommonType{"elements are float32, float16 or bfloat16", is_common_type};
constexpr Need kDense{"no window is dilated", are_windows_dense};
constexpr Need kFewCovers{"at most 1024 windows cover an element", are_covers_few};
constexpr Need kSmallOffsets{"all offsets are below 2^31 elements", are_offsets_small};
constexpr Need kSmallInput{"the input's offsets are below 2^31 elements", is_input_small};
constexpr Need kPackedColumns{"the result's columns are packed", are_columns_packed};
constexpr Need kAlike{"input and result have the same strides", is_input_like_result};
constexpr Need kPairs{"windows are 2x2, 2 apart, from the first row and column on",
                      are_windows_pairs};
constexpr Need kThrees{"windows are 3x3, 1 or 2 apart", are_windows_threes};
constexpr Need kMaxThrees{"windows are 3x3, 2 apart", are_windows_threes};
constexpr Need kEvenThrees{
    "windows are 3x3, 1 or 2 apart, and 1 or 2 columns to a window make rows of whole vectors",
    are_windows_even};
constexpr Need kEvenMaxThrees{
    "windows are 3x3, 2 apart, and two columns to a window make rows of whole vectors",
    are_windows_even};
constexpr Need kAllPacked{"the columns of all tensors are packed", are_all_columns_packed};
constexpr Need kVectorColumns{"columns lie side by side in aligned vectors of 16 bytes",
                              are_columns_vectors};
constexpr Need kVectorPlanes{"planes lie side by side in aligned vectors of 16 bytes",
                             are_planes_vectors};

constexpr Kernel<PoolGradPlan> kMax[] = {
    {"max_pool_grad_pairs",
     {kPairs, kVectorColumns, kCommonType, kSmallInput, kSmallOffsets},
     pairs_geometry},
    {"max_pool_grad_vector_strips",
     {kEvenMaxThrees, kVectorColumns, kCommonType, kSmallInput, kSmallOffsets},
     vector_strips_geometry},
    {"max_pool_grad_strips",
     {kMaxThrees, kAllPacked, kCommonType, kSmallInput, kSmallOffsets},
     strips_geometry},
    {"max_pool_grad_lanes",
     {kVectorPlanes, kDense, kCommonType, kFewCovers, kSmallOffsets},
     lanes_geometry},
    {"max_pool_grad_row",
     {kPackedColumns, kDense, kCommonType, kFewCovers, kSmallOffsets},
     row_geometry},
    {"max_pool_grad_place", {kDense, kCommonType, kFewCovers, kSmallOffsets}, place_geometry},
    {"max_pool_grad_generic", {}, generic_geometry},
};
constexpr Kernel<PoolGradPlan> kAverage[] = {
    {"average_pool_grad_pairs",
     {kPairs, kVectorColumns, kCommonType, kSmallOffsets},
     pairs_geometry},
    {"average_pool_grad_vector_strips",
     {kEvenThrees, kVectorColumns, kCommonType, kSmallOffsets},
     vector_strips_geometry},
    {"average_pool_grad_strips",
     {kThrees, kAllPacked, kCommonType, kSmallOffsets},
     strips_geometry},
    {"average_pool_grad_lanes",
     {kVectorPlanes, kDense, kCommonType, kFewCovers, kSmallOffsets},
     lanes_geometry},
    {"average_pool_grad_row",
     {kPackedColumns, kDense, kCommonType, kFewCovers, kSmallOffsets},
     row_geometry},
    {"average_pool_grad_place", {kDense, kCommonType, kFewCovers, kSmallOffsets}, place_geometry},
    {"average_pool_grad_generic", {}, generic_geometry},
};
constexpr Kernel<PoolGradPlan> kLp[] = {
    {"lp_pool_grad_row",
     {kPackedColumns, kAlike, kDense, kCommonType, kFewCovers, kSmallOffsets},
     row_geometry},
    {"lp_pool_grad_generic", {}, generic_geometry},
};
static_assert(std::size(kMax) == size_t(MaxPoolGradKernel::count));
static_assert(std::size(kAverage) == size_t(AveragePoolGradKernel::count));
static_assert(std::size(kLp) == size_t(LpPoolGradKernel::count));

}  // namespace

PoolGradPlan in_slices(const PoolGradPlan& plan) {
  PoolGradPlan cut = plan;
  PoolPlan& f = cut.forward;
  const auto fits = [&] {
    return are_offsets_small(cut, {}) && (f.kind == PoolKind::average || is_input_small(cut, {}));
  };
  for (int d = 0; d < 2 && !fits(); ++d) {
    if (f.batch[d] == 1 || f.outer_rank == kMaxRank) continue;
    cut.result_outer[f.outer_rank] = cut.result.batch[d];
    cut_batch(f, d, fits);
  }
  return fits() ? cut : plan;
}

Kernels<PoolGradPlan> max_pool_grad_kernels() { return kMax; }
Kernels<PoolGradPlan> average_pool_grad_kernels() { return kAverage; }
Kernels<PoolGradPlan> lp_pool_grad_kernels() { return kLp; }

}  // namespace cudml::cuda
