// The gradient of normalization for groups side by side: a block of them is read once, into packed
// floats, from which all else follows.
#include "cpu/mvn_grad/side_by_side.h"

#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/cell_block.h"
#include "cpu/mvn_grad/column_layout.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kBlockElements;
using tuning::mvn_grad::kMostBareRows;
using tuning::mvn_grad::kMostCellRows;
using tuning::mvn_grad::kMostCells;
using tuning::mvn_grad::kRowsAhead;

class CellsAbreast {
 public:
  using Tile = CellTile<false>;

  CellsAbreast(const MvnGradPlan& plan, const Operands& o)
      : plan_(plan),
        operands_(o),
        outer_rank_(plan.kept_rank),
        rows_(plan.cell_size),
        width_(width_of(plan)),
        at_(new GradOffsets[size_t(rows_)]),
        are_sums_(plan.kind == MvnGradKind::sums),
        is_streamed_(is_norm_streamed(plan.compulsory_bytes() / 2)) {
    if (outer_rank_ > 0 && is_shared(plan, plan.kept[outer_rank_ - 1]))
      kept_ = plan.kept[--outer_rank_];
    blocks_ = (kept_.size + width_ - 1) / width_;
    GradWalk walk(plan.reduced, plan.reduced_rank, 0);
    for (int64_t r = 0; r < rows_; ++r, walk.advance()) at_[size_t(r)] = walk.offsets();
  }

  void run() const {
    run_blocks<Thread>(plan_, operands_, plan_.cells / kept_.size * blocks_,
                       [&](int64_t block, Thread& thread, CellRows& rows, const Share& share) {
                         run_block(block, thread, rows, share);
                       });
  }

 private:
  using Share = TotalsShare<float>;

  /// What one thread works on: a block of cells, in tiles one after the other.
  struct Thread {
    std::unique_ptr<float[]> x, grad;
    Tile tile;

    Thread(const MvnGradPlan& plan, const Operands& o)
        : x(room(plan)), grad(room(plan)), tile(plan, o) {}
    static float* room(const MvnGradPlan& plan) {
      return new float[size_t(plan.cell_size * width_of(plan))]();
    }
  };

  /// Cells of a block.
  static int64_t width_of(const MvnGradPlan& plan) {
    return std::clamp(kBlockElements / plan.cell_size / kTileColumns * kTileColumns, kTileColumns,
                      kMostCells);
  }

  /// Whether cells along an axis share what belongs to their rows, but for sums of cells.
  static bool is_shared(const MvnGradPlan& plan, const MvnGradAxis& a) {
    return !a.scale && !a.bias &&
           (plan.kind == MvnGradKind::sums || (!a.totals[0] && !a.totals[1]));
  }

  void run_block(int64_t block, Thread& thread, CellRows& rows, const Share& share) const {
    const GradOffsets origin = GradWalk(plan_.kept, outer_rank_, block / blocks_).offsets();
    const auto row = [&](int64_t r) {
      GradOffsets at = origin;
      at.add(at_[size_t(r)]);
      return at;
    };
    const int64_t first = block % blocks_ * width_, n = std::min(width_, kept_.size - first);
    const GradOffsets at = origin.after(kept_, first);
    rows.take_parameters(plan_, operands_, row);
    float *const x = thread.x.get(), *const grad = thread.grad.get();
    visit_floats([&]<class T>() {
      const auto from = [&](int k) { return static_cast<const T*>(operands_.inputs[k]); };
      if (plan_.reads_x()) copy_in(from(0) + at.x, &GradOffsets::x, kept_.x, n, x);
      copy_in(from(1) + at.grad, &GradOffsets::grad, kept_.grad, n, grad);
    });
    CellPlaces<kTileColumns> places;
    for (int64_t c = 0; c < n; c += kTileColumns) {
      const int64_t count = std::min(kTileColumns, n - c);
      if (plan_.are_given || plan_.has_sums) places.set(plan_, 0, count, at.after(kept_, c), kept_);
      thread.tile.run(x + c * rows_, grad + c * rows_, places, count, rows);
      if (are_sums_) add_sums(at, c, count, thread.tile.sums(), share);
    }
    rows.settle(rows_);
    if (plan_.has_totals() && !are_sums_) rows.hand_over(rows_, share, row);
    if (!plan_.wants_dx) return;
    visit_floats(
        [&]<class T>() { copy_out(static_cast<T*>(operands_.outputs[0]) + at.dx, n, grad); });
  }

  template <class Fn>
  void visit_floats(const Fn& fn) const {
    visit(plan_.dtype, FloatTypes{}, [&]<class T>() {
      if constexpr (!std::is_same_v<T, double>) fn.template operator()<T>();
    });
  }

  /// n numbers of each row, `step` elements apart, into tiles, zeros behind them.
  template <class T>
  [[gnu::noinline]] void copy_in(const T* from, int64_t GradOffsets::* along, int64_t step,
                                 int64_t n, float* to) const {
    for (int64_t r = 0; r < rows_; ++r) {
      const T* const row = from + at_[size_t(r)].*along;
      if (step != 1) {
        for (int64_t c = 0; c < n; c += kTileColumns) {
          float* const tile = to + c * rows_ + r * kTileColumns;
          const int64_t count = std::min(kTileColumns, n - c);
          load_row<T>(tile, row + c * step, step, count);
          std::fill_n(tile + count, kTileColumns - count, 0.0f);
        }
        continue;
      }
      if (r + kRowsAhead < rows_)
        for (int64_t c = 0; c < n; c += 64 / int64_t(sizeof(T)))
          __builtin_prefetch(from + at_[size_t(r + kRowsAhead)].*along + c);
      for (int64_t c = 0; c < n; c += kTileColumns) {
        float* const tile = to + c * rows_ + r * kTileColumns;
        for (int64_t k = 0; k < kTileColumns; k += kFloats) {
          Floats v{};
          if (c + k < n) with_lanes(n - c - k, [&](auto m) { v = load_wide(row + c + k, m); });
          store_vector(tile + k, v);
        }
      }
    }
  }

  template <class T>
  [[gnu::noinline]] void copy_out(T* to, int64_t n, const float* from) const {
    const bool converts = converts_pairs();
    for (int64_t r = 0; r < rows_; ++r) {
      T* const row = to + at_[size_t(r)].dx;
      if (kept_.dx != 1) {
        for (int64_t c = 0; c < n; c += kTileColumns)
          store_row<T>(row + c * kept_.dx, kept_.dx, from + c * rows_ + r * kTileColumns,
                       std::min(kTileColumns, n - c));
        continue;
      }
      const bool is_streamed = is_streamed_ && reinterpret_cast<uintptr_t>(row) % 64 == 0;
      for (int64_t c = 0; c < n; c += kTileColumns) {
        const float* const tile = from + c * rows_ + r * kTileColumns;
        if (c + kTileColumns <= n) {
          put_pair(row + c, load_vector<Floats>(tile), load_vector<Floats>(tile + kFloats),
                   is_streamed, false, converts);
          continue;
        }
        for (int64_t k = 0; c + k < n; k += kFloats)
          with_lanes(n - c - k,
                     [&](auto m) { store_narrow(row + c + k, load_vector<Floats>(tile + k), m); });
      }
    }
  }

  /// Hands the sums of n cells over, from cell c of a block on.
  void add_sums(const GradOffsets& block, int64_t c, int64_t n, const TileSums& sums,
                const Share& share) const {
    for (int k = 0; k < 2; ++k)
      for (int64_t i = 0; i < n && share.totals.is_wanted(k); ++i)
        share.totals.add_one(share.index, k, block.totals[k] + (c + i) * kept_.totals[k],
                             (k == 0 ? sums.first : sums.second)[i]);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  MvnGradAxis kept_{};
  int outer_rank_;
  int64_t rows_, width_, blocks_;
  std::unique_ptr<GradOffsets[]> at_;  // of a cell's elements
  bool are_sums_, is_streamed_;
};

}  // namespace

bool are_grad_cells_short(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty() || GradColumns::is_folded(plan)) return false;
  const bool do_vary = std::any_of(plan.reduced, plan.reduced + plan.reduced_rank,
                                   [](const MvnGradAxis& a) { return a.has_parameters(); });
  const bool is_bare = !plan.has_scale && !plan.has_bias && !plan.has_totals();
  const int64_t most = do_vary ? kMostCellRows : is_bare ? kMostBareRows : 0;
  return plan.reduced[plan.reduced_rank - 1].x >= kLeastApart && plan.cell_size <= most;
}

void mvn_grad_side_by_side(const MvnGradPlan& plan, const Operands& operands) {
  CellsAbreast(plan, operands).run();
}

}  // namespace cudml::cpu::CUDML_ISA
