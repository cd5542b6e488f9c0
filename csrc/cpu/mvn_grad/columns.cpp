// The gradient of normalization by columns: statistics and sums of all columns strip by strip,
// joined into the cells', then dx in the same order. Where the gradient passes an activation as it
// is, one pass gives all sums.
#include "cpu/mvn_grad/columns.h"

#include <memory>

#include "cpu/mvn_grad/column_block.h"
#include "cpu/mvn_grad/totals.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class ColumnCells {
 public:
  using Block = ColumnBlock<T>;
  using State = CellState<float>;

  ColumnCells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        layout_(plan),
        width_(width_of(layout_.columns)),
        blocks_((layout_.columns + width_ - 1) / width_),
        parts_((layout_.rows + kPartRows - 1) / kPartRows),
        states_(new State[size_t(plan.cells)]),
        is_joined_(new bool[size_t(plan.cells)]()) {}

  void run() {
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states_[size_t(cell)] = state_given<float>(plan_, operands_, offsets(cell));
    const bool needs_products = plan_.has_totals() || plan_.has_own_sums();
    ColumnWork last{false, needs_products, plan_.wants_dx};
    if (plan_.has_own_statistics() &&
        find_statistics(needs_products && !reads_input(plan_.activation.kind)))
      last.products = false;
    if (plan_.has_own_sums()) {
      if (last.products) take_pass({false, true, false});
      find_means();
      last.products = false;
    }
    if (last.products || last.writes) take_pass(last);
    if (plan_.has_totals()) add_totals();
  }

 private:
  static constexpr int64_t kPartRows = 256;  // whatever is kept beside: sums must not change by it
  static constexpr int64_t kPlaces = 32;     // of a cell that its mean is guessed from

  /// Even blocks that begin lines where rows do.
  static int64_t width_of(int64_t columns) {
    constexpr int64_t kUnit = std::max<int64_t>(kTileColumns, 32);
    const int64_t blocks = (columns + kGradColumns - 1) / kGradColumns,
                  width = (columns + blocks - 1) / blocks;
    return (width + kUnit - 1) / kUnit * kUnit;
  }

  GradOffsets offsets(int64_t cell) const {
    return GradWalk(plan_.kept, plan_.kept_rank, cell).offsets();
  }

  /// One pass over all rows. Sums of all columns are added up part by part, those of products only
  /// where they have not been joined to a cell's.
  void take_pass(const ColumnWork& work) {
    const int64_t columns = layout_.columns, units = layout_.outer * parts_;
    const bool sums[4] = {work.moments, work.moments, work.products, work.products};
    std::unique_ptr<double[]> parts[4];
    for (int k = 0; k < 4; ++k)
      if (sums[k]) parts[k].reset(new double[size_t(units * columns)]);
    parallel_for(units * blocks_, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Block> block(plan_, operands_, layout_);
      for (int64_t i = begin; i < end; ++i) {
        checkpoint();
        const int64_t part = i % parts_, b = i / parts_ % blocks_, outer = i / parts_ / blocks_,
                      first = b * width_, row = (outer * parts_ + part) * columns + first;
        const ColumnSpan span{outer, first, std::min(width_, columns - first)};
        if (block->span() != span) block->begin(span, states_.get());
        run_part(*block, part, work);
        double* to[4];
        for (int k = 0; k < 4; ++k) to[k] = parts[k].get() + (sums[k] ? row : 0);
        block->take_sums(work, to);
      }
    });
    for (int k = 0; k < 4; ++k)
      if (sums[k]) join_parts(parts[k].get(), k);
  }

  void run_part(Block& block, int64_t part, const ColumnWork& work) const {
    block.clear();
    const int64_t end = std::min(layout_.rows, (part + 1) * kPartRows);
    for (int64_t r = part * kPartRows; r < end; r += kStripRows)
      block.run(r, std::min(kStripRows, end - r), work);
  }

  void join_parts(const double* parts, int k) {
    const int64_t columns = layout_.columns;
    std::unique_ptr<double[]>& sums = sums_[k];
    if (!sums) sums.reset(new double[size_t(layout_.outer * columns)]);
    std::unique_ptr<double[]> joined(new double[size_t(columns)]);
    for (int64_t outer = 0; outer < layout_.outer; ++outer) {
      std::copy_n(parts, columns, joined.get());
      for (int64_t p = 1; p < parts_; ++p) {
        const double* const more = parts + p * columns;
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; ++c) joined[size_t(c)] += more[c];
      }
      parts += parts_ * columns;
      double* const to = sums.get() + outer * columns;
      for (int64_t c = 0; c < columns; ++c)
        if (k < 2 || !is_joined_[size_t(outer * layout_.kept.size + c / layout_.fold)])
          to[c] = joined[size_t(c)];
    }
  }

  /// Sum k of a cell's columns, each times factor(column).
  template <class Factor>
  double sum_of(int64_t cell, int k, const Factor& factor) const {
    double sum = 0;
    for (int64_t f = 0; f < layout_.fold; ++f)
      sum += sums_[k][size_t(cell * layout_.fold + f)] * factor(f);
    return sum;
  }

  /// One pass about a guess, and where that was far from the mean, another one about the mean.
  /// Returns whether that gave h and h * z, too.
  bool find_statistics(bool has_products) {
    const bool use_mean = plan_.use_mean;
    if (use_mean) guess();
    take_pass({true, has_products, false});
    const auto n = double(plan_.cell_size);
    const auto moments_of = [&](int64_t cell) {
      const auto one = [](int64_t) { return 1.0; };
      const double sum = sum_of(cell, 0, one), square = sum_of(cell, 1, one);
      return use_mean ? moments_about<float>(n, states_[size_t(cell)].normal.pivot, sum, square)
                      : Moments<float>{n, 0, 0, square};
    };
    bool are_near = true;
    for (int64_t cell = 0; use_mean && cell < plan_.cells; ++cell) {
      const Moments<float> m = moments_of(cell);
      if (m.delta * m.delta <= 4 * (m.m2 / n)) continue;
      are_near = false;
      states_[size_t(cell)].normal.pivot = finite_or_0(float(double(m.pivot) + m.delta));
    }
    if (!are_near) take_pass({true, has_products, false});
    bool are_joined = has_products;
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const Moments<float> m = moments_of(cell);
      Normalizer<float>& normal = states_[size_t(cell)].normal;
      normal = normalizer_of(m, plan_.use_variance, plan_.epsilon);
      if (has_products) are_joined &= join(cell, double(normal.factor), m.delta);
    }
    return are_joined;
  }

  static float finite_or_0(float v) { return is_finite(double(v)) ? v : 0; }

  /// The mean of some elements at even distances as a pivot: of a constant cell exactly what it is
  /// made of.
  void guess() {
    int64_t places = 1, at[kPlaces];
    while (places < kPlaces && places * 16 <= layout_.rows) places *= 2;
    for (int64_t k = 0; k < places; ++k)
      at[k] = GradWalk(plan_.reduced, layout_.row_rank, k * (layout_.rows / places)).offsets().x +
              k % layout_.fold;
    const T* const x = static_cast<const T*>(operands_.inputs[0]);
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const T* const own = x + offsets(cell).x;
      float values[kPlaces];
      for (int64_t k = 0; k < places; ++k) values[k] = load_as_acc(own[at[k]]);
      for (int64_t half = places / 2; half > 0; half /= 2)
        for (int64_t k = 0; k < half; ++k) values[k] += values[k + half];
      states_[size_t(cell)].normal.pivot = finite_or_0(values[0] / float(places));
    }
  }

  /// Turns a cell's h * d into h * z, if that loses nothing: no product of d has left the range.
  bool join(int64_t cell, double factor, double delta) {
    double all = 0;
    for (int64_t f = 0; f < layout_.fold; ++f) {
      const auto c = size_t(cell * layout_.fold + f);
      sums_[3][c] = factor * fused(-delta, sums_[2][c], sums_[3][c]);
      all += sums_[3][c];
    }
    return is_joined_[size_t(cell)] = factor >= 0x1p-20 && factor <= 0x1p20 && is_finite(all);
  }

  void find_means() {
    const auto n = double(plan_.cell_size);
    const Room<Block> block(plan_, operands_, layout_);
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      State& state = states_[size_t(cell)];
      const int64_t outer = cell / layout_.kept.size,
                    first = cell % layout_.kept.size * layout_.fold;
      const GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, outer).offsets();
      const auto scale = [&](int64_t f) { return block->scale_of(at, first + f); };
      if (plan_.use_mean) state.mean_w = float(sum_of(cell, 2, scale) / n);
      if (plan_.use_variance) state.mean_wz = float(sum_of(cell, 3, scale) / n);
    }
  }

  void add_totals() const {
    const bool are_sums = plan_.kind == MvnGradKind::sums;
    const Totals<float> totals(plan_, 1, operands_);
    const Room<Block> block(plan_, operands_, layout_);
    for (int64_t i = 0; i < layout_.outer * layout_.columns; ++i) {
      const int64_t c = i % layout_.columns;
      GradOffsets at = GradWalk(plan_.kept, layout_.outer_rank, i / layout_.columns).offsets();
      const double by = are_sums ? block->scale_of(at, c) : block->slope();
      at.add(layout_.at(c));
      for (int k = 0; k < 2; ++k)
        if (totals.is_wanted(k))
          totals.add_one(0, k, at.totals[k], by * sums_[(k == 0) != are_sums ? 3 : 2][size_t(i)]);
    }
    totals.finish();
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradColumns layout_;
  int64_t width_, blocks_, parts_;
  std::unique_ptr<State[]> states_;
  std::unique_ptr<bool[]> is_joined_;  // h * z of a cell's columns is found
  std::unique_ptr<double[]> sums_[4];  // of each column: d, d * d; h, h * z
};

}  // namespace

bool are_grad_columns_apart(const MvnGradPlan& plan) {
  if (plan.reduced_rank == 0 || plan.is_empty()) return false;
  const GradColumns layout(plan);
  if (layout.fold == 1 && plan.reduced[plan.reduced_rank - 1].x < 8) return false;
  for (int d = 0; d < layout.row_rank; ++d) {
    const MvnGradAxis& a = plan.reduced[d];
    if (a.scale || a.bias || a.totals[0] || a.totals[1]) return false;
  }
  return true;
}

template <class T>
void mvn_grad_columns(const MvnGradPlan& plan, const Operands& operands) {
  ColumnCells<T>(plan, operands).run();
}

template void mvn_grad_columns<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_columns<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_columns<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
