// Copies of planes for pooling's paths along rows.
#include "cpu/pool/copied.h"

#include "cpu/memory/tuning.h"
#include "cpu/pad/copy.h"
#include "cpu/pool/turned.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::copied::kBlockBytes;
using tuning::copied::kFewestElements;

PoolStrides packed(const PoolPlan& plan, const PlaneBlock& block, int64_t PoolAxis::* size) {
  PoolStrides strides = strides_of_lanes(plan, 1, size);
  strides.batch[1] = plane_elements(plan, size);
  strides.batch[0] = strides.batch[1] * block.count[1];
  return strides;
}

Dims dims_of(const PoolStrides& s) {
  return {s.batch[0], s.batch[1], s.space[0], s.space[1], s.space[2]};
}

Dims sizes_of(const PoolPlan& plan, const PlaneBlock& block, int64_t PoolAxis::* size) {
  return {block.count[0], block.count[1], plan.axis[0].*size, plan.axis[1].*size,
          plan.axis[2].*size};
}

/// Bytes from a tensor's first element to that of a block.
int64_t offset_of(const PlaneBlock& block, const PlaneTensor& t) {
  return t.bytes * (block.first[0] * t.strides.batch[0] + block.first[1] * t.strides.batch[1]);
}

}  // namespace

PlaneBlocks::PlaneBlocks(const PoolPlan& plan, int64_t bytes) {
  const int64_t most = std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, bytes));
  step[1] = std::min(most, plan.batch[1]);
  step[0] = step[1] < plan.batch[1] ? 1 : std::min(most / step[1], plan.batch[0]);
}

int64_t PlaneTensor::plane_bytes(const PoolPlan& plan) const {
  return plane_elements(plan, size) * bytes;
}

int64_t PlaneTensor::block_bytes(const PoolPlan& plan, const PlaneBlock& block) const {
  return (block.planes() * plane_bytes(plan) + 63) / 64 * 64;
}

void pack_planes(const PoolPlan& plan, const PlaneBlock& block, const PlaneTensor& t,
                 const void* from, void* to) {
  copy_elements(t.bytes, sizes_of(plan, block, t.size),
                static_cast<const char*>(from) + offset_of(block, t), dims_of(t.strides), to,
                dims_of(packed(plan, block, t.size)));
}

void unpack_planes(const PoolPlan& plan, const PlaneBlock& block, const PlaneTensor& t,
                   const void* from, void* to) {
  copy_elements(t.bytes, sizes_of(plan, block, t.size), from, dims_of(packed(plan, block, t.size)),
                static_cast<char*>(to) + offset_of(block, t), dims_of(t.strides));
}

PoolPlan packed_plan(const PoolPlan& plan, const PlaneBlock& block) {
  PoolPlan inner = plan;
  inner.batch[0] = block.count[0];
  inner.batch[1] = block.count[1];
  inner.x = packed(plan, block, &PoolAxis::in);
  inner.y = inner.indices = packed(plan, block, &PoolAxis::out);
  return inner;
}

bool are_planes_apart(const PoolPlan& plan) {
  return !has_packed_planes(plan, plan.x, &PoolAxis::in) ||
         !has_packed_planes(plan, plan.y, &PoolAxis::out);
}

bool are_copies_worth(const PoolPlan& plan) {
  const int64_t plane = plane_elements(plan, &PoolAxis::in);
  int64_t span = 1;
  for (int i = 0; i < 3; ++i) span += (plan.axis[i].in - 1) * plan.x.space[i];
  return plan.outer_rank == 0 && plan.batch[0] * plan.batch[1] * plane >= kFewestElements &&
         (plane <= span || plane * int64_t(size_of(plan.dtype)) <= kBlockBytes);
}

}  // namespace cudml::cpu::CUDML_ISA
