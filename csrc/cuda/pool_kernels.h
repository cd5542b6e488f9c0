// The kernels of forward pooling by number, in the order of their list, and what the list and the
// launchers must agree on.
//
// Kernels that find winners store no values where y is null: max pooling's gradient wants only
// indices. The choice's workspace_bytes hold for it too.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

enum class PoolKernel {
  tile_2x2_s2,
  tile_3x3_s2,
  tile_3x3_s1,
  tile_2_s2,
  tile_3_s2,
  lanes,
  reduce,
  separable,
  window,
  generic,
  count,
};

inline constexpr uint32_t kPoolThreads = 256;

/// Outputs of a tile whose windows have `height` rows of elements of `bytes`, `stride` apart.
constexpr int tile_rows(int height) { return height == 1 ? 1 : 2; }
constexpr int tile_columns(size_t bytes, int height, int stride) {
  const int columns = bytes == 1 && stride == 1 ? 8 : 4;
  return height == 1 ? 2 * columns : columns;
}

int64_t tiles_of(const PoolPlan& plan, int height, int stride);

/// Bytes of the vectors in which the lanes kernel takes neighbouring planes: 16, 4, or 0 where it
/// cannot. Addresses are multiples of `alignment`.
int lane_bytes(const PoolPlan& plan, int64_t alignment);

/// How the separable kernel cuts planes: the outputs of a tile, the rows of the input that it
/// needs and the vectors of 16 bytes in each, and the tiles of a plane.
struct SeparableTile {
  int32_t rows = 0, columns = 0;
  int32_t in_rows = 0, units = 0;
  int32_t down = 0, across = 0;

  /// In shared memory, of the tile's input and of the columns that are joined from it.
  int64_t bytes(const PoolPlan& plan) const;
};
SeparableTile separable_tile(const PoolPlan& plan);
int64_t tiles_of(const PoolPlan& plan, const SeparableTile& tile);

/// How many threads of the reduce kernel share an output, and whether neighbouring threads have
/// neighbouring planes.
uint32_t reduce_members(const PoolPlan& plan);
bool reduces_lanes(const PoolPlan& plan);
/// Bytes of the state of one piece of a window.
inline constexpr int64_t kReduceState = 16;

/// Taps of the largest window; no window has more real ones.
int64_t most_taps(const PoolPlan& plan);

/// Outputs of one launch: all but the outer batch dimensions.
int64_t inner_outputs(const PoolPlan& plan);

/// The plan with batch dimensions cut to slices, one launch each, where that makes all offsets of a
/// launch fit 32 bits: a large batch gets the kernels of a small one, and their bits (D-TEN-9).
PoolPlan in_slices(const PoolPlan& plan);

/// Cuts a batch dimension, and no further than until fits().
template <class Fits>
void cut_batch(PoolPlan& plan, int d, const Fits& fits) {
  PoolOuter& o = plan.outer[plan.outer_rank++];
  o = {plan.batch[d], plan.x.batch[d], plan.y.batch[d], plan.indices.batch[d], plan.flat.batch[d]};
  while (plan.batch[d] > 1 && !fits()) plan.batch[d] = (plan.batch[d] + 1) / 2;
  o.step = plan.batch[d];
}

/// Neighbouring planes are closer together in memory than neighbouring columns.
bool planes_are_closest(const PoolPlan& plan);

}  // namespace cudml::cuda
