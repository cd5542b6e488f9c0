// Gradients of max pooling over planes that are copied.
#include "cpu/pool_grad/max_copied.h"

#include "cpu/isa/families.h"
#include "cpu/pool/copied.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The tensors of a call.
struct MaxCopies {
  PlaneTensor x, grad, result;
  PlaneBlocks blocks;

  explicit MaxCopies(const PoolGradPlan& plan)
      : x{plan.forward.x, &PoolAxis::in, int64_t(size_of(plan.forward.dtype))},
        grad{plan.forward.y, &PoolAxis::out, x.bytes},
        result{plan.result, &PoolAxis::in, x.bytes},
        blocks(plan.forward, 2 * x.plane_bytes(plan.forward) + grad.plane_bytes(plan.forward)) {}
};

PoolGradPlan packed_plan(const PoolGradPlan& plan, const PlaneBlock& block) {
  PoolGradPlan inner = plan;
  inner.forward = packed_plan(plan.forward, block);
  inner.result = inner.forward.x;
  return inner;
}

/// The place of the first path that takes a plan.
int first_of(const PoolGradPlan& plan) {
  return choose::first(max_pool_grad_paths(), plan, Machine{num_threads()});
}

}  // namespace

bool fits_copied_max(const PoolGradPlan& plan) {
  const PoolGradPlan inner = packed_plan(plan, MaxCopies(plan).blocks.first());
  return first_of(inner) < int(max_pool_grad_paths().size()) - 1;
}

void run_copied_max(const PoolGradPlan& plan, const Arrays& a) {
  const MaxCopies copies(plan);
  const PoolPlan& forward = plan.forward;
  const PlaneBlock first = copies.blocks.first();
  const int64_t x_bytes = copies.x.block_bytes(forward, first);
  const RoomOfBytes room(2 * x_bytes + copies.grad.block_bytes(forward, first));
  char *const x = room.at, *const result = x + x_bytes, *const grad = result + x_bytes;
  Arrays inner = a;
  inner.inputs[0] = x;
  inner.inputs[1] = grad;
  inner.outputs[0] = result;
  copies.blocks.for_each(forward, [&](const PlaneBlock& block) {
    const PoolGradPlan packed = packed_plan(plan, block);
    pack_planes(forward, block, copies.x, a.inputs[0], x);
    pack_planes(forward, block, copies.grad, a.inputs[1], grad);
    max_pool_grad_paths()[size_t(first_of(packed))].run(packed, inner);
    unpack_planes(forward, block, copies.result, result, a.outputs[0]);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
