// Planes whose elements lie in another order than their positions, or apart, brought into that
// order for the paths of such planes: a few at a time.
#pragma once

#include "cpu/isa/paths.h"
#include "ops/pool.h"

namespace cudml::cpu::CUDML_ISA {

/// Planes of a plan: `count` positions of each batch dimension from `first` on.
struct PlaneBlock {
  int64_t first[2], count[2];

  int64_t planes() const { return count[0] * count[1]; }
};

/// Blocks of all planes, for which a call has room at once: all positions of the inner dimension in
/// one, or some of one position of the outer one.
struct PlaneBlocks {
  int64_t step[2];

  /// `bytes`: of what a plane's tensors take.
  PlaneBlocks(const PoolPlan& plan, int64_t bytes);

  PlaneBlock first() const { return {{0, 0}, {step[0], step[1]}}; }

  /// Calls fn(block).
  template <class Fn>
  void for_each(const PoolPlan& plan, const Fn& fn) const {
    for (int64_t i = 0; i < plan.batch[0]; i += step[0])
      for (int64_t j = 0; j < plan.batch[1]; j += step[1])
        fn(PlaneBlock{
            {i, j}, {std::min(step[0], plan.batch[0] - i), std::min(step[1], plan.batch[1] - j)}});
  }
};

/// A tensor of a plan: its strides, and its sizes along the axes.
struct PlaneTensor {
  const PoolStrides& strides;
  int64_t PoolAxis::* size;
  int64_t bytes;  // of an element

  int64_t plane_bytes(const PoolPlan& plan) const;
  /// Bytes that its planes of a block take: whole lines of memory.
  int64_t block_bytes(const PoolPlan& plan, const PlaneBlock& block) const;
};

/// Packs a block's planes one behind the other, rows of rows of elements; or takes them back.
void pack_planes(const PoolPlan& plan, const PlaneBlock& block, const PlaneTensor& tensor,
                 const void* from, void* to);
void unpack_planes(const PoolPlan& plan, const PlaneBlock& block, const PlaneTensor& tensor,
                   const void* from, void* to);

/// The plan of a block's planes, packed in all tensors.
PoolPlan packed_plan(const PoolPlan& plan, const PlaneBlock& block);

/// Whether x or the result lies in another order than its positions, or apart.
bool are_planes_apart(const PoolPlan& plan);

/// Whether there are blocks of planes, and so many elements that copies, which cost some
/// microseconds, are worth it. Large planes that are expanded take less memory than copies would.
bool are_copies_worth(const PoolPlan& plan);

}  // namespace cudml::cpu::CUDML_ISA
