// The gradient of normalization for short packed groups: tiles of them are put side by side, so
// that each lane of a vector has one, and their results taken back.
#include "cpu/mvn_grad/turned.h"

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/cell_block.h"
#include "cpu/mvn_grad/cell_turn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kTurnedElements;

/// Cells of a block for each lane, in which they are added up before they go to the totals.
constexpr int64_t kMostInLanes = 16;

constexpr int64_t kMostTurned = tuning::mvn_grad::kShortestRow - 1;

/// Whether cells along an axis share what belongs to their rows.
bool is_shared(const MvnGradAxis& a) { return !a.scale && !a.bias && !a.totals[0] && !a.totals[1]; }

/// kOwn: scale and bias belong to the cells.
template <class T, bool kOwn>
class TurnedTiles {
 public:
  TurnedTiles(const MvnGradPlan& plan, const Operands& o)
      : plan_(plan),
        operands_(o),
        x_(plan.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        rows_(plan.cell_size),
        width_(std::clamp(kTurnedElements / rows_ / kTileColumns * kTileColumns, kTileColumns,
                          kMostInLanes * kFloats)) {
    for (int d = 0; d < plan.kept_rank; ++d) {
      Cells& cells = kOwn || is_shared(plan.kept[d]) ? inner_ : outer_;
      cells.count *= plan.kept[d].size;
      cells.axis[cells.rank++] = plan.kept[d];
    }
    if (inner_.rank == 0) inner_.axis[inner_.rank++] = MvnGradAxis{};
    blocks_ = (inner_.count + width_ - 1) / width_;
  }

  void run() const {
    run_blocks<Thread>(plan_, operands_, outer_.count * blocks_,
                       [&](int64_t block, Thread& thread, CellRows& rows, const Share& share) {
                         run_block(block, thread, rows, share);
                       });
  }

 private:
  using Share = TotalsShare<float>;

  /// Dimensions that tell cells apart.
  struct Cells {
    int rank = 0;
    int64_t count = 1;
    MvnGradAxis axis[kMaxRank];
  };

  /// What one thread works on.
  struct Thread {
    alignas(64) float x[kMostTurned * kTileColumns] = {}, grad[kMostTurned * kTileColumns];
    T none[kMostTurned] = {};
    CellPlaces<kTileColumns> at;
    CellTile<kOwn> tile;

    Thread(const MvnGradPlan& plan, const Operands& o) : tile(plan, o) {}
  };

  void run_block(int64_t block, Thread& thread, CellRows& rows, const Share& share) const {
    const GradOffsets origin = GradWalk(outer_.axis, outer_.rank, block / blocks_).offsets();
    const auto row = [&](int64_t r) { return origin.after(plan_.reduced[0], r); };
    int64_t first = block % blocks_ * width_;
    const int64_t end = std::min(first + width_, inner_.count);
    if constexpr (!kOwn) rows.take_parameters(plan_, operands_, row);
    for (; first < end; first += kTileColumns) {
      const int64_t n = std::min(kTileColumns, end - first);
      for_axis_pieces(inner_.axis, inner_.rank, origin, first, n,
                      [&](const GradOffsets& at, int64_t i, int64_t count) {
                        const MvnGradAxis& axis = inner_.axis[inner_.rank - 1];
                        thread.at.set(plan_, i, count, at, axis);
                        if constexpr (kOwn) thread.at.set_parameters(i, count, at, axis);
                      });
      run_tile(n, thread, rows);
      if (kOwn && plan_.has_totals()) add_cells(n, thread, share);
    }
    if (kOwn || !plan_.has_totals()) return;
    rows.settle(rows_);
    rows.hand_over(rows_, share, row);
  }

  void run_tile(int64_t n, Thread& thread, CellRows& rows) const {
    const T* const none = thread.none;
    if (x_) turn_in(cells_of(x_, thread.at.x, n, none), thread.x);
    turn_in(cells_of(grad_, thread.at.grad, n, none), thread.grad);
    thread.tile.run(thread.x, thread.grad, thread.at, n, rows);
    if (dx_ && plan_.reduced[0].dx == 1)
      turn_out(cells_of(dx_, thread.at.dx, n, static_cast<T*>(nullptr)), n, thread.grad);
    else if (dx_)
      put_apart(n, thread);
  }

  /// Results whose elements stand apart.
  void put_apart(int64_t n, const Thread& thread) const {
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < rows_; ++i)
        dx_[thread.at.dx[k] + i * plan_.reduced[0].dx] =
            store_as<T>(thread.grad[i * kTileColumns + k]);
  }

  /// Behind n cells there are those of `none`.
  template <class E>
  TurnedCells<E> cells_of(E* tensor, const int64_t* at, int64_t n, E* none) const {
    TurnedCells<E> cells;
    for (int64_t i = 0; i < kTileColumns; ++i) cells.at[i] = i < n ? tensor + at[i] : none;
    cells.n = rows_;
    cells.ahead = n > 1 ? kTileColumns * (at[1] - at[0]) : 0;
    return cells;
  }

  /// Hands the sums of n cells over.
  void add_cells(int64_t n, const Thread& thread, const Share& share) const {
    const TileSums& sums = thread.tile.sums();
    for (int k = 0; k < 2; ++k)
      for (int64_t i = 0; i < n && share.totals.is_wanted(k); ++i)
        share.totals.add_one(share.index, k, thread.at.totals[k][i],
                             (k == 0 ? sums.second : sums.first)[i]);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const T *x_, *grad_;
  T* dx_;
  int64_t rows_, width_, blocks_;  // elements of a cell; cells of a block
  Cells outer_, inner_;            // those that share what belongs to rows are the inner ones
};

}  // namespace

bool are_grad_rows_short(const MvnGradPlan& plan) {
  if (plan.kind == MvnGradKind::sums || plan.reduced_rank > 1 || plan.is_empty()) return false;
  const MvnGradAxis& row = plan.reduced[0];
  const bool is_row = plan.reduced_rank == 0 || (row.x == 1 && row.grad == 1);
  return is_row && plan.cell_size <= kMostTurned;
}

template <class T>
void mvn_grad_turned(const MvnGradPlan& plan, const Operands& operands) {
  if (has_own_parameters(plan))
    TurnedTiles<T, true>(plan, operands).run();
  else
    TurnedTiles<T, false>(plan, operands).run();
}

template void mvn_grad_turned<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_turned<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_turned<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
