// How the cells of normalization's gradients are cut into parts.
#include "cuda/mvn_grad_parts.h"

#include <algorithm>
#include <bit>

namespace cudml::cuda {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Turns of a piece's lanes, each over kMvnGradPieceSlots accesses: more where there are many
/// pieces even so, and so many that a cell has at most some ten thousand.
int64_t piece_turns(int64_t cell_size, int64_t turn) {
  constexpr int64_t kManyPieces = 128, kMostTurns = 8, kMostPieces = 16384;
  const int64_t turns = std::clamp(cell_size / (turn * kManyPieces), int64_t{1}, kMostTurns);
  return std::max(turns, ceil_div(cell_size, turn * kMostPieces));
}

bool changes(const MvnGradAxis& a) { return a.scale != 0 || a.bias != 0; }
bool has_totals(const MvnGradAxis& a) { return a.totals[0] != 0 || a.totals[1] != 0; }

/// Kept dimensions first, whose parts follow each other cell by cell.
void add_kept(const MvnGradPlan& plan, int64_t per_cell, MvnGradPartAxes& parts) {
  const MvnGradCellStrides cells(plan);
  for (int d = 0; d < plan.kept_rank; ++d) {
    const MvnGradAxis& a = plan.kept[d];
    parts.add({a.size,
               cells.kept[d] * per_cell,
               a.scale,
               cells.kept[d],
               {a.totals[0], a.totals[1]},
               true});
  }
}

/// By outer position, part of the rows and column.
void number_columns(const MvnGradPlan& plan, bool is_folded, MvnGradColumns& c) {
  const MvnGradCellStrides cells(plan);
  int64_t step = c.columns * c.row_parts;
  for (int d = c.outer_rank - 1; d >= 0; step *= plan.kept[d--].size) {
    const MvnGradAxis& a = plan.kept[d];
    c.parts.add({a.size, step, a.scale, cells.kept[d], {a.totals[0], a.totals[1]}, true});
  }
  c.parts.add({c.row_parts, c.columns});
  step = 1;
  for (int d = c.column_rank - 1; d >= 0; step *= c.column[d--].size) {
    const MvnGradAxis& a = c.column[d];
    const bool is_kept = !is_folded || d + 1 < c.column_rank;
    c.parts.add({a.size, step, a.scale, c.cells[d], {a.totals[0], a.totals[1]}, is_kept});
  }
}

}  // namespace

MvnGradCellStrides::MvnGradCellStrides(const MvnGradPlan& plan) {
  int64_t cells = 1;
  for (int d = plan.kept_rank - 1; d >= 0; --d) {
    kept[d] = cells;
    cells *= plan.kept[d].size;
  }
}

MvnGradPieces mvn_grad_pieces(const MvnGradPlan& plan) {
  const int64_t vector = 16 / int64_t(size_of(plan.dtype));
  const MvnGradAxis& inner = plan.reduced[plan.reduced_rank - 1];
  MvnGradPieces p;
  p.is_constant = !changes(inner);
  p.tells_totals = p.is_constant && !has_totals(inner);
  p.run = inner.size;
  p.lanes =
      int(std::clamp(std::bit_ceil(uint64_t(ceil_div(p.run, vector))), uint64_t{4}, uint64_t{32}));
  const int64_t turn = p.lanes * vector * kMvnGradPieceSlots;
  const int64_t most = piece_turns(plan.cell_size, turn) * turn;
  p.segments = ceil_div(p.run, most);
  p.segment = ceil_div(ceil_div(p.run, p.segments), p.lanes * vector) * p.lanes * vector;
  p.segments = ceil_div(p.run, p.segment);
  p.outer_rank = plan.reduced_rank - 1;
  if (p.outer_rank > 0 && !changes(plan.reduced[p.outer_rank - 1])) {
    p.row = plan.reduced[--p.outer_rank];
    p.tells_totals &= !has_totals(p.row);
    p.rows = p.row.size;
    if (p.segments == 1) p.piece_rows = std::clamp(most / p.segment, int64_t{1}, p.rows);
    p.row_pieces = ceil_div(p.rows, p.piece_rows);
  }
  int64_t step = p.segments * p.row_pieces;
  int64_t per_cell = step;
  for (int d = 0; d < p.outer_rank; ++d) per_cell *= plan.reduced[d].size;
  add_kept(plan, per_cell, p.parts);
  for (int64_t d = 0, outer = per_cell; d < p.outer_rank; ++d) {
    const MvnGradAxis& a = plan.reduced[d];
    outer /= a.size;
    p.parts.add({a.size, outer, a.scale, 0, {a.totals[0], a.totals[1]}, false});
  }
  p.parts.add({p.row_pieces, p.segments});
  p.parts.add({p.segments, 1});
  return p;
}

MvnGradColumns mvn_grad_columns(const MvnGradPlan& plan) {
  constexpr int64_t kSteps = kMvnGradPartThreads / kMvnGradColumnLanes, kManyParts = 64;
  const MvnGradCellStrides cells(plan);
  const bool is_folded = plan.reduced[plan.reduced_rank - 1].x == 1;
  MvnGradColumns c;
  c.outer_rank = plan.kept_rank;
  c.row_rank = plan.reduced_rank - (is_folded ? 1 : 0);
  if (c.outer_rank > 0) {
    c.cells[c.column_rank] = cells.kept[--c.outer_rank];
    c.column[c.column_rank++] = plan.kept[c.outer_rank];
  }
  if (is_folded) c.column[c.column_rank++] = plan.reduced[c.row_rank];
  for (int d = 0; d < c.column_rank; ++d) c.columns *= c.column[d].size;
  for (int d = 0; d < c.row_rank; ++d) {
    c.rows *= plan.reduced[d].size;
    c.tells_totals &= !has_totals(plan.reduced[d]);
  }
  for (int d = 0; d < c.outer_rank; ++d) c.outer *= plan.kept[d].size;
  // Two to four batches of a thread's rows, one where there are few parts otherwise.
  const int64_t rows = std::clamp(c.rows / (kSteps * kManyParts), int64_t{kMvnGradColumnRows},
                                  int64_t{4 * kMvnGradColumnRows});
  c.part_rows = rows * kSteps;
  c.row_parts = ceil_div(c.rows, c.part_rows);
  c.tiles = ceil_div(c.columns, kMvnGradColumns * kMvnGradColumnLanes);
  number_columns(plan, is_folded, c);
  return c;
}

}  // namespace cudml::cuda
