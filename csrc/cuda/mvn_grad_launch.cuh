// The launchers of the gradients of normalization, by file; `mvn_grad` in mvn_grad.cu chooses among
// them.
#pragma once

#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/mvn_grad_generic.cuh"

namespace cudml::cuda {

using MvnGradPartTypes = Types<float, Float16, BFloat16>;

void mvn_grad_on_pieces(const MvnGradPlan& plan, const Choice& choice, const Operands& o,
                        const Target& target);
void mvn_grad_on_columns(const MvnGradPlan& plan, const Choice& choice, const Operands& o,
                         const Target& target);

/// The states of cells of which tensors say all, but for sums over the cells.
void mvn_grad_given(const MvnGradPlan& plan, const Operands& o, void* states, const Target& target);

/// Both totals, element by element; states stand at the workspace's beginning.
void mvn_grad_totals(const MvnGradPlan& plan, const Operands& o, const void* states,
                     const Target& target);

/// What begins `offset` bytes into the workspace.
template <class V>
V* at_byte(void* workspace, int64_t offset) {
  return reinterpret_cast<V*>(static_cast<char*>(workspace) + offset);
}

/// Blocks for so many items, one after another beyond a bound.
inline Geometry mvn_grad_geometry(int64_t items, int64_t items_of_block, int threads) {
  constexpr int64_t kMostBlocks = int64_t{1} << 16;
  const int64_t blocks = (items + items_of_block - 1) / items_of_block;
  return {uint32_t(std::min(blocks, kMostBlocks)), uint32_t(threads)};
}

inline MvnGradResult result_of(const MvnGradTotal& total, const Operands& o) {
  MvnGradResult result{o.outputs[total.output], total.dtype, total.rank, total.count, {}, {}};
  for (int d = 0; d < total.rank; ++d) {
    result.size[d] = total.axis[d].size;
    result.stride[d] = total.axis[d].stride;
  }
  return result;
}

}  // namespace cudml::cuda
