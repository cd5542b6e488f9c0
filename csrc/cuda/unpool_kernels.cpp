// The kernels of max unpooling, first choice first, and how they cut the work.
#include "cuda/unpool_kernels.h"

#include <algorithm>
#include <iterator>

namespace cudml::cuda {

Geometry unpool_geometry(int64_t n) {
  const int64_t blocks = (n + kUnpoolThreads - 1) / kUnpoolThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kUnpoolThreads, 0, 0};
}

UnpoolPacked::UnpoolPacked(const UnpoolPlan& plan) {
  int64_t sources = 1, targets = 1;
  for (int i = 2; i >= 0; --i) {
    const UnpoolSource& s = plan.source[i];
    const UnpoolTarget& t = plan.target[i];
    x &= s.size == 1 || s.x == sources;
    indices &= s.size == 1 || s.indices == sources;
    y &= t.size == 1 || t.y == targets;
    sources *= s.size;
    targets *= t.size;
  }
  for (int i = 1; i >= 0; --i) {
    const UnpoolBatch& b = plan.batch[i];
    x &= b.size == 1 || b.x == sources;
    indices &= b.size == 1 || b.indices == sources;
    y &= b.size == 1 || b.y == targets;
    sources *= b.size;
    targets *= b.size;
  }
}

UnpoolChunks::UnpoolChunks(const UnpoolPlan& plan)
    : sources(plan.sources()), targets(plan.targets()) {
  const int64_t plane = plan.plane_targets();
  const int64_t planes = std::clamp(kUnpoolTile / plane, int64_t{1}, plan.planes());
  unit_sources = planes * plan.plane_sources();
  unit_targets = planes * plane;
  units = (plan.planes() + planes - 1) / planes;
  chunks = (unit_targets + kUnpoolTile - 1) / kUnpoolTile;
  // Maxima of small windows stand less than two rows or slices away.
  if (chunks > 1) reach = 2 * std::max(plan.step, int64_t{32});
}

namespace {

int64_t claim_bytes(const UnpoolPlan& plan) {
  return plan.targets() * (are_claims_wide(plan) ? 8 : 4);
}

bool are_packed(const UnpoolPlan& plan, const Situation&) {
  const UnpoolPacked packed(plan);
  return packed.x && packed.indices && packed.y;
}

bool are_chunks_small(const UnpoolPlan& plan, const Situation&) {
  if (plan.is_empty() || plan.plane_sources() == 0) return false;
  const UnpoolChunks chunks(plan);
  const int64_t own = kUnpoolTile * chunks.unit_sources / chunks.unit_targets;
  return chunks.unit_sources < int64_t{1} << 30 && chunks.unit_targets < int64_t{1} << 30 &&
         (chunks.chunks == 1 || chunks.reach <= own);
}

Geometry near_geometry(const UnpoolPlan& plan, const Situation&) {
  const int64_t blocks = std::min(UnpoolChunks(plan).count(), kMostLoopBlocks);
  return {uint32_t(blocks), kUnpoolThreads, kUnpoolTile * int64_t(sizeof(uint32_t)),
          kUnpoolFlagBytes + claim_bytes(plan)};
}

Geometry generic_geometry(const UnpoolPlan& plan, const Situation&) {
  Geometry g = unpool_geometry(std::max(plan.sources(), plan.targets()));
  g.workspace_bytes = kUnpoolFlagBytes + claim_bytes(plan);
  return g;
}

constexpr Kernel<UnpoolPlan> kKernels[] = {
    {"unpool_near",
     {{"x, indices and the result follow each other in memory", are_packed},
      {"a plane has at most 8192 elements, or so many come from two rows or slices of x or more",
       are_chunks_small}},
     near_geometry},
    {"unpool_generic", {}, generic_geometry}};
static_assert(std::size(kKernels) == size_t(UnpoolKernel::count));

}  // namespace

Kernels<UnpoolPlan> unpool_kernels() { return kKernels; }

}  // namespace cudml::cuda
