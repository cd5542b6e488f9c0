// How the cells of normalization's gradients are cut into parts that warps or blocks add up: at
// places that follow from the cell alone, so that its bits do (D-TEN-9).
#pragma once

#include "cuda/choose.h"

namespace cudml::cuda {

inline constexpr int kMvnGradPartThreads = 256;

/// Accesses of one thread to each tensor that are on their way together, in pieces.
inline constexpr int kMvnGradPieceSlots = 4;

/// One dimension of the parts' numbers: its strides in them, in scale and in the cells' numbers.
struct MvnGradPartAxis {
  int64_t size = 1, part = 0, scale = 0, cell = 0, totals[2] = {};
  bool is_kept = false;
};
struct MvnGradPartAxes {
  int rank = 0;
  MvnGradPartAxis axis[kMaxRank + 2];
  int64_t count = 1;     // parts
  int64_t per_cell = 1;  // of one cell

  void add(const MvnGradPartAxis& added) {
    if (added.size > 1) axis[rank++] = added;
    count *= added.size;
    if (!added.is_kept) per_cell *= added.size;
  }
};

/// Cells of packed runs, the innermost reduced dimension: a piece is a segment of one run, or some
/// runs side by side along the dimension outside, where nothing else changes along it. Some
/// neighbouring lanes take a piece.
struct MvnGradPieces {
  bool is_constant = true;   // scale and bias do not change inside a run
  bool tells_totals = true;  // nor do totals inside a piece
  int lanes = 32;
  int64_t run = 1, segment = 1, segments = 1;        // elements; of all but the last; of one run
  int64_t rows = 1, piece_rows = 1, row_pieces = 1;  // runs side by side; of one piece
  int outer_rank = 0;                                // reduced dimensions outside of both
  MvnGradAxis row;                                   // the dimension of the runs side by side
  MvnGradPartAxes parts;
};
MvnGradPieces mvn_grad_pieces(const MvnGradPlan& plan);

/// Columns side by side, of which neighbours belong to different cells or are short runs of one:
/// the fastest kept dimension, and the reduced one inside of it where that is the fastest. A block
/// takes some columns and some rows, the other reduced dimensions; its column is a part.
struct MvnGradColumns {
  bool tells_totals = true;  // they do not change from row to row
  int column_rank = 0;       // of the columns' dimensions, the fastest last
  MvnGradAxis column[2];
  int64_t cells[2] = {};  // their strides in the cells' numbers
  int row_rank = 0;       // reduced dimensions that tell rows apart
  int outer_rank = 0;     // kept dimensions outside
  int64_t columns = 1, rows = 1, outer = 1;
  int64_t part_rows = 1, row_parts = 1, tiles = 1;  // rows of all parts but the last
  MvnGradPartAxes parts;
};
MvnGradColumns mvn_grad_columns(const MvnGradPlan& plan);

/// Columns of one thread, whatever their type, and of a block; the other threads take other rows.
inline constexpr int kMvnGradColumns = 4, kMvnGradColumnLanes = 16;
/// Rows of one thread that are on their way together, of sixteen bits; half as many of more.
inline constexpr int kMvnGradColumnRows = 8;

/// Bytes of what is known of one part.
inline constexpr int64_t kMvnGradPartBytes = 40;

/// The strides of the kept dimensions in the cells' numbers.
struct MvnGradCellStrides {
  int64_t kept[kMaxRank];

  explicit MvnGradCellStrides(const MvnGradPlan& plan);
};

}  // namespace cudml::cuda
