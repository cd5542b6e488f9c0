// Winners of planes that are copied.
#include "cpu/winners/copied.h"

#include "cpu/isa/families.h"
#include "cpu/pool/copied.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The tensors of a call with indices, y being absent where only these are wanted.
struct WinnerCopies {
  PlaneTensor x, y, indices;
  PlaneBlocks blocks;

  explicit WinnerCopies(const PoolPlan& plan)
      : x{plan.x, &PoolAxis::in, int64_t(size_of(plan.dtype))},
        y{plan.y, &PoolAxis::out, x.bytes},
        indices{plan.indices, &PoolAxis::out, int64_t(size_of(plan.index_dtype))},
        blocks(plan, x.plane_bytes(plan) + y.plane_bytes(plan) + indices.plane_bytes(plan)) {}
};

/// Indices of a block count from its own first element.
template <class Index>
void add_to(void* indices, int64_t n, Index offset) {
  Index* const at = static_cast<Index*>(indices);
  for (int64_t i = 0; i < n; ++i) at[i] = Index(at[i] + (at[i] == Index(-1) ? Index(0) : offset));
}

}  // namespace

bool fits_copied_winners(const PoolPlan& plan) {
  const PoolPlan inner = packed_plan(plan, WinnerCopies(plan).blocks.first());
  const Paths<PoolPlan> paths = winner_paths();
  return choose::first(paths, inner, Machine{num_threads()}) < int(paths.size()) - 1;
}

void run_copied_winners(const PoolPlan& plan, const Arrays& a) {
  const WinnerCopies copies(plan);
  const PlaneBlock first = copies.blocks.first();
  const int64_t x_bytes = copies.x.block_bytes(plan, first),
                y_bytes = copies.y.block_bytes(plan, first);
  const RoomOfBytes room(x_bytes + y_bytes + copies.indices.block_bytes(plan, first));
  Arrays inner;
  inner.inputs[0] = room.at;
  inner.outputs[0] = a.outputs[0] ? room.at + x_bytes : nullptr;
  inner.outputs[1] = room.at + x_bytes + y_bytes;
  const Paths<PoolPlan> paths = winner_paths();
  copies.blocks.for_each(plan, [&](const PlaneBlock& block) {
    const PoolPlan packed = packed_plan(plan, block);
    pack_planes(plan, block, copies.x, a.inputs[0], room.at);
    paths[size_t(choose::first(paths, packed, Machine{num_threads()}))].run(packed, inner);
    if (a.outputs[0]) unpack_planes(plan, block, copies.y, inner.outputs[0], a.outputs[0]);
    const int64_t offset =
        block.first[0] * plan.flat.batch[0] + block.first[1] * plan.flat.batch[1];
    if (plan.index_dtype == Dtype::uint32)
      add_to<uint32_t>(inner.outputs[1], packed.outputs(), uint32_t(offset));
    else
      add_to<uint64_t>(inner.outputs[1], packed.outputs(), uint64_t(offset));
    unpack_planes(plan, block, copies.indices, inner.outputs[1], a.outputs[1]);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
