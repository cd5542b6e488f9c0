// The kernels of the gradient of padding, first choice first, and how they cut the work.
#include "cuda/pad_grad_kernels.h"

#include <algorithm>
#include <iterator>

#include "math/long_sum.h"
#include "ops/pool_shape.h"

namespace cudml::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kLongestRow = int64_t{1} << 27;  // elements, so that 32 bits count its bytes
constexpr int64_t kMostRows = 256;                 // of a tile, for the sake of shared memory

const PadGradAxis& row_axis(const PadGradPlan& plan) { return plan.axis[plan.rank - 1]; }

int64_t row_count(const PadGradPlan& plan) { return plan.elements() / row_axis(plan).in; }

/// The most terms of one element.
int64_t most_terms(const PadGradPlan& plan) {
  int64_t terms = 1;
  for (int d = 0; d < plan.rank; ++d)
    terms = saturating_product(terms, most_preimages(plan.axis[d]));
  return terms;
}

}  // namespace

PadGradRows rows_of(const PadGradPlan& plan) {
  PadGradRows r;
  r.outer_rank = plan.rank - 1;
  for (int d = 0; d < r.outer_rank; ++d)
    r.outer[d] = {FastDiv(uint32_t(plan.axis[d].in)), plan.axis[d]};
  const PadGradAxis& a = row_axis(plan);
  r.axis.in = int32_t(a.in);
  r.axis.out = int32_t(a.out);
  r.axis.start = int32_t(a.start);
  r.axis.inner_begin = int32_t(a.inner_begin);
  r.axis.inner_end = int32_t(a.inner_end);
  r.axis.mode = a.mode;
  // Rows begin anywhere in their first unit.
  const int64_t item = int64_t(size_of(plan.dtype));
  const int64_t units = (a.in * item + 2 * kVectorBytes - item - 1) / kVectorBytes;
  r.tiles = cut_rows(row_count(plan), units, units, kMostRows);
  r.by_units = FastDiv(uint32_t(units));
  return r;
}

namespace {

bool are_rows_packed(const PadGradPlan& plan, const Situation&) {
  return row_axis(plan).grad_stride == 1 && row_axis(plan).stride == 1;
}

bool are_sums_short(const PadGradPlan& plan, const Situation&) {
  return most_terms(plan) <= kChain;
}

bool has_few_rows(const PadGradPlan& plan, const Situation&) {
  return row_count(plan) < int64_t{1} << 31 && row_axis(plan).out < kLongestRow;
}

bool has_long_sums(const PadGradPlan& plan, const Situation&) { return plan.long_sums > 0; }

Geometry rows_geometry(const PadGradPlan& plan, const Situation&) {
  const RowTiles tiles = rows_of(plan).tiles;
  return {blocks_of(tiles), kPadGradThreads, int64_t(tiles.tile_rows * sizeof(PadGradRow)), 0};
}

Geometry generic_geometry(const PadGradPlan& plan, const Situation&) {
  const int64_t blocks = (plan.elements() + kPadGradThreads - 1) / kPadGradThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kPadGradThreads, 0, 0};
}

/// A warp for each piece.
Geometry pieces_geometry(const PadGradPlan& plan, const Situation&) {
  constexpr int64_t kWarps = kPadGradThreads / 32;
  const int64_t blocks = (plan.long_sums * plan.pieces + kWarps - 1) / kWarps;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kPadGradThreads, 0, plan.workspace_bytes()};
}

constexpr Kernel<PadGradPlan> kKernels[] = {
    {"pad_grad_rows",
     {{"the elements of a row are neighbours in both gradients", are_rows_packed},
      {"elements have at most 256 terms", are_sums_short},
      {"there are fewer than 2^31 rows of fewer than 2^27 positions", has_few_rows}},
     rows_geometry},
    {"pad_grad_pieces",
     {{"few elements have more than 4096 terms along one axis", has_long_sums}},
     pieces_geometry},
    {"pad_grad_generic", {}, generic_geometry},
};
static_assert(std::size(kKernels) == size_t(PadGradKernel::count));

}  // namespace

Kernels<PadGradPlan> pad_grad_kernels() { return kKernels; }

}  // namespace cudml::cuda
