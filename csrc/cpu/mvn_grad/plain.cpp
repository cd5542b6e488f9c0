// The gradient of normalization on the CPU: cells read along their own memory,
// in chunks that the cache holds.
#include "cpu/mvn_grad/plain.h"

#include <memory>

#include "cpu/mvn_grad/group_sums.h"
#include "math/long_sum.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Cells one after the other, or where they are few and long chunk by chunk.
template <class T>
class Cells {
 public:
  using Chunks = CellChunks<T>;
  using A = typename Chunks::A;
  using Rows = typename Chunks::Rows;
  using State = typename Chunks::State;
  using Share = typename Chunks::Share;

  Cells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        chunks_(plan, operands),
        is_split_(chunks_.count() > 1 &&
                  (plan.kind == MvnGradKind::part || !plan.uses_statistics() ||
                   (plan.cells < kFewCells && chunks_.count() > kFewChunks))) {}

  void run() const {
    const int64_t units = plan_.is_empty() ? 0
                          : is_split_      ? plan_.cells * chunks_.count()
                                           : plan_.cells;
    const int64_t shares = units && plan_.has_totals() ? shares_of(plan_, units) : 0;
    const Totals<A> totals(plan_, shares, operands_);
    if (units && (plan_.wants_dx || shares)) run_units(units, shares, totals);
    totals.finish();
  }

 private:
  // A plan of few cells of many chunks is worked on chunk by chunk, whatever threads there are and
  // whether dx is wanted: what is added to a total by whom follows from it.
  static constexpr int64_t kFewCells = 64, kFewChunks = 16;

  void run_units(int64_t units, int64_t shares, const Totals<A>& totals) const {
    const std::unique_ptr<State[]> states = is_split_ ? states_of_all() : nullptr;
    const auto work = [&](int64_t begin, int64_t end, int64_t share) {
      if (is_split_)
        run_chunks(states.get(), begin, end, {totals, share});
      else
        run_cells(begin, end, {totals, share});
    };
    parallel_for(shares ? shares : units, plan_.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   if (!shares) return work(begin, end, 0);
                   for (int64_t s = begin; s < end; ++s)
                     work(part_begin(units, s, shares), part_begin(units, s + 1, shares), s);
                 });
  }

  void run_cells(int64_t begin, int64_t end, const Share& share) const {
    const Room<Rows> rows;
    GradWalk cell(plan_.kept, plan_.kept_rank, begin);
    Pace pace;
    for (int64_t i = begin; i < end; ++i, cell.advance()) {
      pace.add(plan_.cell_size);
      if (chunks_.count() == 1)
        chunks_.run_whole(cell.offsets(), share, *rows);
      else
        run_long(cell.offsets(), share, *rows);
    }
  }

  /// A cell of several chunks, in up to three passes.
  void run_long(const GradOffsets& cell, const Share& share, Rows& rows) const {
    State state = chunks_.given(cell);
    if (plan_.has_own_statistics()) {
      int64_t next = 0;
      state.normal = chunks_.normalizer(long_sum<Moments<A>>(
          chunks_.count(), [&] { return chunks_.moments(cell, next++, rows); }));
    }
    if (plan_.has_own_sums()) {
      Total<A> sums[2];
      for (int64_t i = 0; i < chunks_.count(); ++i) {
        double part[2];
        chunks_.find_sums(cell, i, state, rows, part);
        for (int k = 0; k < 2; ++k) sums[k].add(part[k]);
      }
      chunks_.set_means(sums, state);
    }
    for (int64_t i = 0; i < chunks_.count(); ++i) chunks_.finish(cell, i, state, share, rows);
  }

  /// Calls fn(cell's offsets, cell, chunk, unit, rows) for units [begin, end),
  /// chunks of all cells.
  template <class Fn>
  void for_chunks(int64_t begin, int64_t end, const Fn& fn) const {
    const Room<Rows> rows;
    GradOffsets at;
    Pace pace;
    for (int64_t unit = begin; unit < end; ++unit) {
      pace.add(kGradChunk);
      const int64_t cell = unit / chunks_.count(), i = unit % chunks_.count();
      if (unit == begin || i == 0) at = GradWalk(plan_.kept, plan_.kept_rank, cell).offsets();
      fn(at, cell, i, unit, *rows);
    }
  }

  void run_chunks(const State* states, int64_t begin, int64_t end, const Share& share) const {
    for_chunks(begin, end,
               [&](const GradOffsets& at, int64_t cell, int64_t i, int64_t, Rows& rows) {
                 chunks_.finish(at, i, states ? states[cell] : chunks_.given(at), share, rows);
               });
  }

  /// The cells' states where threads share each of them; none where they are
  /// read from tensors. The sums are the same as in run_long.
  std::unique_ptr<State[]> states_of_all() const {
    if (!plan_.has_own_statistics() && !plan_.has_own_sums()) return nullptr;
    std::unique_ptr<State[]> states(new State[size_t(plan_.cells)]);
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states[size_t(cell)] = chunks_.given(GradWalk(plan_.kept, plan_.kept_rank, cell).offsets());
    if (plan_.has_own_statistics()) find_statistics(states.get());
    if (plan_.has_own_sums()) find_sums(states.get());
    return states;
  }

  void find_statistics(State* states) const {
    const int64_t units = plan_.cells * chunks_.count();
    const std::unique_ptr<Moments<A>[]> parts(new Moments<A>[size_t(units)]);
    parallel_for(units, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_chunks(begin, end,
                 [&](const GradOffsets& at, int64_t, int64_t i, int64_t unit, Rows& rows) {
                   parts[size_t(unit)] = chunks_.moments(at, i, rows);
                 });
    });
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const Moments<A>* own = parts.get() + cell * chunks_.count();
      states[cell].normal =
          chunks_.normalizer(long_sum<Moments<A>>(chunks_.count(), [&] { return *own++; }));
    }
  }

  void find_sums(State* states) const {
    const int64_t units = plan_.cells * chunks_.count();
    const std::unique_ptr<double[][2]> parts(new double[size_t(units)][2]);
    parallel_for(units, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_chunks(begin, end,
                 [&](const GradOffsets& at, int64_t cell, int64_t i, int64_t unit, Rows& rows) {
                   chunks_.find_sums(at, i, states[cell], rows, parts[size_t(unit)]);
                 });
    });
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      chunks_.set_means(parts.get() + cell * chunks_.count(), states[cell]);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  const Chunks chunks_;
  const bool is_split_;
};

}  // namespace

template <class T>
void mvn_grad_plain(const MvnGradPlan& plan, const Operands& operands) {
  if (plan.kind == MvnGradKind::sums) return GroupSums<T>(plan, operands).run();
  Cells<T>(plan, operands).run();
}

template void mvn_grad_plain<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<double>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
