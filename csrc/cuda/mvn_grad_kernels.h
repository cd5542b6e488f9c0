// What the list of the kernels of normalization's gradients and the kernels themselves agree on:
// order, shapes, memory.
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

/// In the order of the list.
enum class MvnGradKernel : int { row, pieces, columns, generic, count };

inline constexpr int kMvnGradThreads = 256;

/// Accesses of 16 bytes of one thread to each tensor of a row that is kept, and threads of a block.
inline constexpr int kMvnGradSlots = 4, kMvnGradRowThreads = 256;

/// Threads that share a row, of its length alone: some lanes of a warp, or whole warps. Of rows of
/// at most a warp a block takes several.
int mvn_grad_row_threads(const MvnGradPlan& plan);

/// How a total is cut: blocks take `lanes` of its elements side by side and the other threads their
/// terms, of which `parts` blocks take a share each. Whatever the device, so that it adds alike,
/// and where cells' sums are the totals, whatever other cells there are.
struct MvnGradCut {
  int64_t lanes = 1, tiles = 0, parts = 0;
  bool is_along_rows = false;  // each lane takes kMvnGradColumns elements
};
MvnGradCut mvn_grad_cut(const MvnGradPlan& plan, int total);

/// Threads that add up the parts of a total's element.
inline constexpr int kMvnGradJoinLanes = 8;

/// Whether both totals are wanted and are sums over the same dimensions: one pass makes both.
bool are_totals_alike(const MvnGradPlan& plan);

/// The cells' states, then what the blocks add of each total.
struct MvnGradWorkspace {
  int64_t parts[2] = {}, total = 0;  // bytes: where each begins, where all ends
};
MvnGradWorkspace mvn_grad_workspace(const MvnGradPlan& plan);

/// The dimensions of a plan in x's order, kept and reduced ones among each other, the fastest last;
/// `cell` is the stride in the cells' numbers.
struct MvnGradDimensions {
  int rank = 0;
  MvnGradAxis axis[2 * kMaxRank];
  int64_t cell[2 * kMaxRank];
};
MvnGradDimensions mvn_grad_dimensions(const MvnGradPlan& plan);

}  // namespace cudml::cuda
