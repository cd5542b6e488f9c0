// The kernels of normalization's gradients, first choice first, and how they cut the work.
#include "cuda/mvn_grad_kernels.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "cuda/mvn_grad_parts.h"

namespace cudml::cuda {
namespace {

constexpr int64_t kMostParts = 256;    // of a total's terms
constexpr int64_t kMostBlocks = 2048;  // that share the terms of all elements of dscale or dbias
constexpr int64_t kLeastTurns = 16;    // terms of a thread
constexpr int64_t kLeastRun = 32;      // elements side by side where a cell has several runs

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t aligned(int64_t bytes) { return ceil_div(bytes, 256) * 256; }

Geometry generic_geometry(const MvnGradPlan& plan, const Situation& situation) {
  const int64_t most = int64_t{situation.multiprocessors} * 16;
  return {uint32_t(std::min(plan.cells, most)), uint32_t(kMvnGradThreads), 0,
          mvn_grad_workspace(plan).total};
}

bool is_tile_type(const MvnGradPlan& plan, const Situation&) {
  return plan.dtype != Dtype::float64;
}

/// Of the cell alone, whose order of additions this chooses. Where scale and bias do not change
/// along a cell with given statistics, pieces tell totals as well.
bool has_row_statistics(const MvnGradPlan& plan, const Situation&) {
  if (!plan.are_given || plan.reduced_rank == 0) return plan.has_own_statistics();
  const MvnGradAxis& run = plan.reduced[plan.reduced_rank - 1];
  const bool has_parameters = plan.has_scale || plan.has_bias;
  return plan.kind != MvnGradKind::sums && (run.scale != 0 || run.bias != 0 || !has_parameters);
}

bool is_packed(const MvnGradPlan& plan, const Situation&) {
  if (plan.reduced_rank != 1) return false;
  const MvnGradAxis& run = plan.reduced[0];
  return run.x == 1 && run.grad == 1 && (run.dx == 1 || !plan.wants_dx);
}

bool has_plain_parameters(const MvnGradPlan& plan, const Situation&) {
  const MvnGradAxis& run = plan.reduced[0];
  return run.scale >= 0 && run.scale <= 1 && run.bias >= 0 && run.bias <= 1;
}

/// Accesses that hold a row.
int64_t row_accesses(const MvnGradPlan& plan) {
  return ceil_div(plan.cell_size * int64_t(size_of(plan.dtype)), 16);
}

bool fits_registers(const MvnGradPlan& plan, const Situation&) {
  return row_accesses(plan) <= kMvnGradRowThreads * kMvnGradSlots;
}

Geometry row_geometry(const MvnGradPlan& plan, const Situation&) {
  const int threads = mvn_grad_row_threads(plan);
  const int64_t rows = threads <= 32 ? kMvnGradRowThreads / threads : 1;
  return {uint32_t(std::min(ceil_div(plan.cells, rows), kMostLoopBlocks)), uint32_t(rows * threads),
          0, mvn_grad_workspace(plan).total};
}

/// Whether rows' kernel would take the cell if something were asked of its statistics: totals are
/// to have the same bits whatever is asked for beside them.
bool is_no_row(const MvnGradPlan& plan, const Situation& situation) {
  const bool is_row = plan.reduced_rank == 1 && fits_registers(plan, situation);
  return plan.are_given || plan.has_own_statistics() || !is_row;
}

/// Sums of a group may be over several cells or a part of one, which other groups then share.
bool has_no_sums(const MvnGradPlan& plan, const Situation&) {
  return plan.kind != MvnGradKind::sums;
}

/// Of the cell alone, as all that this kernel needs.
bool has_runs(const MvnGradPlan& plan, const Situation&) {
  if (plan.reduced_rank == 0) return false;
  const MvnGradAxis& run = plan.reduced[plan.reduced_rank - 1];
  return run.size < int64_t{1} << 30 && run.x == 1 && run.grad == 1 &&
         (run.dx == 1 || !plan.wants_dx);
}

bool are_runs_plain(const MvnGradPlan& plan, const Situation&) {
  const MvnGradAxis& run = plan.reduced[plan.reduced_rank - 1];
  if (plan.reduced_rank == 1)
    return run.scale >= 0 && run.scale <= 1 && run.bias >= 0 && run.bias <= 1;
  return run.size >= kLeastRun && run.scale == 0 && run.bias == 0;
}

Geometry pieces_geometry(const MvnGradPlan& plan, const Situation&) {
  const MvnGradPieces cut = mvn_grad_pieces(plan);
  const int64_t blocks = ceil_div(cut.parts.count * cut.lanes, kMvnGradPartThreads);
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), uint32_t(kMvnGradPartThreads), 0,
          mvn_grad_workspace(plan).total + cut.parts.count * kMvnGradPartBytes};
}

/// Of the cell alone, too: whether elements, or runs of which neighbours belong together, are
/// apart.
bool has_columns(const MvnGradPlan& plan, const Situation&) {
  if (plan.reduced_rank == 0) return false;
  return plan.reduced[plan.reduced_rank - 1].x != 1 || plan.reduced_rank > 1;
}

bool are_rows_alike(const MvnGradPlan& plan, const Situation&) {
  const MvnGradColumns columns = mvn_grad_columns(plan);
  const MvnGradAxis& run = plan.reduced[plan.reduced_rank - 1];
  bool are_alike = columns.rows < int64_t{1} << 30 && (run.x != 1 || run.size < int64_t{1} << 31);
  for (int d = 0; d < columns.row_rank; ++d) {
    const MvnGradAxis& a = plan.reduced[d];
    are_alike &= a.scale == 0 && a.bias == 0;
  }
  return are_alike;
}

Geometry columns_geometry(const MvnGradPlan& plan, const Situation&) {
  const MvnGradColumns cut = mvn_grad_columns(plan);
  const int64_t blocks = cut.outer * cut.row_parts * cut.tiles;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), uint32_t(kMvnGradPartThreads), 0,
          mvn_grad_workspace(plan).total + cut.parts.count * kMvnGradPartBytes};
}

constexpr Kernel<MvnGradPlan> kKernels[] = {
    {"mvn_grad_row",
     {{"elements are float32, float16 or bfloat16", is_tile_type},
      {"statistics are needed and a cell's own, or given and scale or bias, if any, change along "
       "it",
       has_row_statistics},
      {"a cell is a packed run of x, grad and the result", is_packed},
      {"scale and bias are packed along it or one for it", has_plain_parameters},
      {"a cell has at most 16 KiB of x", fits_registers}},
     row_geometry},
    {"mvn_grad_pieces",
     {{"elements are float32, float16 or bfloat16", is_tile_type},
      {"sums of groups are not what is asked for", has_no_sums},
      {"a cell consists of packed runs of x, grad and the result", has_runs},
      {"the cell is one run with scale and bias packed along it or one for it, or runs of 32 or "
       "more elements have one each",
       are_runs_plain},
      {"statistics are given or needed, or a cell is no row of at most 16 KiB", is_no_row}},
     pieces_geometry},
    {"mvn_grad_columns",
     {{"elements are float32, float16 or bfloat16", is_tile_type},
      {"sums of groups are not what is asked for", has_no_sums},
      {"a cell's elements, or runs of them, stand apart in x", has_columns},
      {"a cell has fewer than 2^30 of these, shorter than 2^31, which scale and bias do not tell "
       "from each other",
       are_rows_alike}},
     columns_geometry},
    {"mvn_grad_generic", {}, generic_geometry},
};
static_assert(std::size(kKernels) == size_t(MvnGradKernel::count));

}  // namespace

int mvn_grad_row_threads(const MvnGradPlan& plan) {
  const int64_t threads = ceil_div(row_accesses(plan), kMvnGradSlots);
  if (threads > 32) return int(ceil_div(threads, 32) * 32);
  return int(std::max(std::bit_ceil(uint64_t(threads)), uint64_t{4}));
}

MvnGradDimensions mvn_grad_dimensions(const MvnGradPlan& plan) {
  MvnGradDimensions all;
  int64_t cell[kMaxRank];
  int64_t cells = 1;
  for (int d = plan.kept_rank - 1; d >= 0; --d) {
    cell[d] = cells;
    cells *= plan.kept[d].size;
  }
  for (int k = 0, r = 0; k < plan.kept_rank || r < plan.reduced_rank;) {
    const bool is_kept =
        r == plan.reduced_rank || (k < plan.kept_rank && plan.kept[k].x >= plan.reduced[r].x);
    all.axis[all.rank] = is_kept ? plan.kept[k] : plan.reduced[r];
    all.cell[all.rank++] = is_kept ? cell[k] : 0;
    ++(is_kept ? k : r);
  }
  return all;
}

namespace {

/// Whether the terms of total k are neighbours. Where the totals are groups' sums (D-TEN-9), of the
/// group alone, not of what is kept beside it.
bool are_terms_packed(const MvnGradPlan& plan, int k) {
  const MvnGradDimensions all = mvn_grad_dimensions(plan);
  if (plan.kind == MvnGradKind::sums) {
    const auto is_packed = [k](const MvnGradAxis& a) { return a.totals[k] == 0 && a.x == 1; };
    return std::any_of(all.axis, all.axis + all.rank, is_packed);
  }
  return all.rank == 0 || all.axis[all.rank - 1].totals[k] == 0;
}

/// Whether total k runs along packed cells, with scale and bias, and is the same for all of them.
bool is_along_rows(const MvnGradPlan& plan, int k) {
  if (plan.kind == MvnGradKind::sums || plan.dtype == Dtype::float64) return false;
  if (plan.reduced_rank != 1) return false;
  const MvnGradAxis& run = plan.reduced[0];
  const auto is_same = [k](const MvnGradAxis& a) {
    return a.totals[k] == 0 && a.scale == 0 && a.bias == 0;
  };
  return run.x == 1 && run.grad == 1 && run.totals[k] == 1 && run.scale >= 0 && run.scale <= 1 &&
         run.bias >= 0 && run.bias <= 1 &&
         std::all_of(plan.kept, plan.kept + plan.kept_rank, is_same);
}

}  // namespace

MvnGradCut mvn_grad_cut(const MvnGradPlan& plan, int k) {
  const MvnGradTotal& total = plan.totals[k];
  MvnGradCut cut;
  if (!total.is_wanted || plan.is_empty()) return cut;
  cut.is_along_rows = is_along_rows(plan, k);
  if (cut.is_along_rows) {
    const auto accesses = uint64_t(ceil_div(total.count, kMvnGradColumns));
    cut.lanes = int64_t(std::clamp(std::bit_ceil(accesses), uint64_t{4}, uint64_t{32}));
    cut.tiles = ceil_div(total.count, cut.lanes * kMvnGradColumns);
  } else {
    cut.lanes = are_terms_packed(plan, k) ? 1 : 32;
    cut.tiles = ceil_div(total.count, cut.lanes);
  }
  const int64_t turns = ceil_div(total.terms, kMvnGradThreads / cut.lanes);
  const int64_t most = plan.kind == MvnGradKind::sums
                           ? kMostParts
                           : std::clamp(kMostBlocks / cut.tiles, int64_t{1}, kMostParts);
  cut.parts = std::clamp(turns / kLeastTurns, int64_t{1}, most);
  return cut;
}

bool are_totals_alike(const MvnGradPlan& plan) {
  bool are_alike = plan.totals[0].is_wanted && plan.totals[1].is_wanted;
  for (int d = 0; d < plan.kept_rank; ++d)
    are_alike &= plan.kept[d].totals[0] == plan.kept[d].totals[1];
  for (int d = 0; d < plan.reduced_rank; ++d)
    are_alike &= plan.reduced[d].totals[0] == plan.reduced[d].totals[1];
  return are_alike;
}

MvnGradWorkspace mvn_grad_workspace(const MvnGradPlan& plan) {
  const bool is_wide = plan.dtype == Dtype::float64;
  const int64_t number = is_wide ? 8 : 4, sum = is_wide ? 16 : 8;
  MvnGradWorkspace w;
  w.total = plan.is_empty() ? 0 : aligned(plan.cells * 5 * number);
  for (int k = 0; k < 2; ++k) {
    w.parts[k] = w.total;
    w.total += aligned(mvn_grad_cut(plan, k).parts * plan.totals[k].count * sum);
  }
  return w;
}

Kernels<MvnGradPlan> mvn_grad_kernels() { return kKernels; }

}  // namespace cudml::cuda
