// The gradient of normalization on the CPU: cells read along their own memory, in chunks that the
// cache holds.
#include "cpu/mvn_grad/plain.h"

#include <memory>

#include "cpu/mvn/moments.h"
#include "cpu/mvn_grad/chunk.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class Cells {
 public:
  using A = Acc<T>;
  using Chunk = GradChunk<A>;
  using Rows = GradRows<A>;
  using State = CellState<A>;

  Cells(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        loader_(plan, operands),
        chunks_((plan.cell_size + kGradChunk - 1) / kGradChunk),
        is_split_(chunks_ > 1 && (!(plan.has_own_statistics() || plan.has_own_sums()) ||
                                  (plan.cells < kFewCells && chunks_ > kFewChunks))) {}

  void run() const {
    const int64_t units = plan_.is_empty() ? 0 : is_split_ ? plan_.cells * chunks_ : plan_.cells;
    const int64_t shares = units && plan_.has_totals() ? shares_of(plan_, units) : 0;
    const Totals<A> totals(plan_, shares, operands_);
    if (units && (plan_.wants_dx || shares)) run_units(units, shares, totals);
    totals.finish();
  }

 private:
  void run_units(int64_t units, int64_t shares, const Totals<A>& totals) const {
    const std::unique_ptr<State[]> states = is_split_ ? states_of_all() : nullptr;
    const auto work = [&](int64_t begin, int64_t end, int64_t share) {
      if (is_split_)
        run_chunks(states.get(), begin, end, totals, share);
      else
        run_cells(begin, end, totals, share);
    };
    parallel_for(shares ? shares : units, plan_.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   if (!shares) return work(begin, end, 0);
                   for (int64_t s = begin; s < end; ++s)
                     work(part_begin(units, s, shares), part_begin(units, s + 1, shares), s);
                 });
  }

  // A plan of few cells of many chunks is worked on chunk by chunk, whatever threads there are:
  // what is added to a total by whom follows from it.
  static constexpr int64_t kFewCells = 64, kFewChunks = 16;

  GradOffsets offsets(int64_t cell) const {
    return GradWalk(plan_.kept, plan_.kept_rank, cell).offsets();
  }

  const A* load_x(const Chunk& c, Rows& rows) const {
    return plan_.reads_x() ? loader_.load_x(c, rows) : nullptr;
  }

  /// The sums of w and of w * z over a chunk.
  void sum_chunk(const Chunk& c, double (&sums)[2]) const {
    sums[0] = plan_.use_mean ? row_sum(c.w, c.n) : 0;
    sums[1] = plan_.use_variance ? product_sum(c.w, c.z, c.n) : 0;
  }

  void set_means(const Total<A> (&sums)[2], State& state) const {
    const auto n = double(plan_.cell_size);
    if (plan_.use_mean) state.mean_w = static_cast<A>(sums[0].value() / n);
    if (plan_.use_variance) state.mean_wz = static_cast<A>(sums[1].value() / n);
  }

  Normalizer<A> normalizer(const Moments<A>& moments) const {
    return normalizer_of(moments, plan_.use_variance, plan_.epsilon);
  }

  void finish(const Chunk& c, const State& state, const Totals<A>& totals, int64_t share,
              Rows& rows) const {
    loader_.add_totals(c, totals, share);
    if (plan_.wants_dx) loader_.write_dx(c, state, rows);
  }

  void run_cells(int64_t begin, int64_t end, const Totals<A>& totals, int64_t share) const {
    const Room<Rows> rows;
    GradWalk cell(plan_.kept, plan_.kept_rank, begin);
    Pace pace;
    for (int64_t i = begin; i < end; ++i, cell.advance()) {
      pace.add(plan_.cell_size);
      if (chunks_ == 1)
        run_short(cell.offsets(), totals, share, *rows);
      else
        run_long(cell.offsets(), totals, share, *rows);
    }
  }

  /// A cell of one chunk, which is read once.
  void run_short(const GradOffsets& cell, const Totals<A>& totals, int64_t share,
                 Rows& rows) const {
    State state = state_given<A>(plan_, operands_, cell);
    Chunk c = loader_.chunk(cell, 0);
    const A* const x = load_x(c, rows);
    if (plan_.has_own_statistics()) state.normal = normalizer(moments_of(x, c.n, plan_.use_mean));
    loader_.evaluate(c, x, state, rows);
    if (plan_.has_own_sums()) {
      double sums[2];
      sum_chunk(c, sums);
      Total<A> totals_of[2];
      for (int k = 0; k < 2; ++k) totals_of[k].add(sums[k]);
      set_means(totals_of, state);
    }
    finish(c, state, totals, share, rows);
  }

  void run_long(const GradOffsets& cell, const Totals<A>& totals, int64_t share, Rows& rows) const {
    State state = state_given<A>(plan_, operands_, cell);
    if (plan_.has_own_statistics()) {
      Moments<A> moments = moments_of_chunk(cell, 0, rows);
      for (int64_t i = 1; i < chunks_; ++i)
        moments = merge(moments, moments_of_chunk(cell, i, rows));
      state.normal = normalizer(moments);
    }
    if (plan_.has_own_sums()) {
      Total<A> sums[2];
      for (int64_t i = 0; i < chunks_; ++i) {
        double part[2];
        sum_of_chunk(cell, i, state, rows, part);
        for (int k = 0; k < 2; ++k) sums[k].add(part[k]);
      }
      set_means(sums, state);
    }
    for (int64_t i = 0; i < chunks_; ++i) finish_chunk(cell, i, state, totals, share, rows);
  }

  Moments<A> moments_of_chunk(const GradOffsets& cell, int64_t i, Rows& rows) const {
    const Chunk c = loader_.chunk(cell, i);
    return moments_of(loader_.load_x(c, rows), c.n, plan_.use_mean);
  }

  void sum_of_chunk(const GradOffsets& cell, int64_t i, const State& state, Rows& rows,
                    double (&sums)[2]) const {
    Chunk c = loader_.chunk(cell, i);
    loader_.evaluate(c, load_x(c, rows), state, rows);
    sum_chunk(c, sums);
  }

  void finish_chunk(const GradOffsets& cell, int64_t i, const State& state, const Totals<A>& totals,
                    int64_t share, Rows& rows) const {
    Chunk c = loader_.chunk(cell, i);
    loader_.evaluate(c, load_x(c, rows), state, rows);
    finish(c, state, totals, share, rows);
  }

  /// Calls fn(cell's offsets, cell, chunk, unit, rows) for units [begin, end), chunks of all cells.
  template <class Fn>
  void for_chunks(int64_t begin, int64_t end, const Fn& fn) const {
    const Room<Rows> rows;
    GradOffsets at;
    Pace pace;
    for (int64_t unit = begin; unit < end; ++unit) {
      pace.add(kGradChunk);
      const int64_t cell = unit / chunks_, i = unit % chunks_;
      if (unit == begin || i == 0) at = offsets(cell);
      fn(at, cell, i, unit, *rows);
    }
  }

  void run_chunks(const State* states, int64_t begin, int64_t end, const Totals<A>& totals,
                  int64_t share) const {
    for_chunks(begin, end,
               [&](const GradOffsets& at, int64_t cell, int64_t i, int64_t, Rows& rows) {
                 const State state = states ? states[cell] : state_given<A>(plan_, operands_, at);
                 finish_chunk(at, i, state, totals, share, rows);
               });
  }

  /// The cells' states where threads share each of them; none where they are read from tensors. The
  /// sums are the same as in run_long.
  std::unique_ptr<State[]> states_of_all() const {
    if (!plan_.has_own_statistics() && !plan_.has_own_sums()) return nullptr;
    std::unique_ptr<State[]> states(new State[size_t(plan_.cells)]);
    for (int64_t cell = 0; cell < plan_.cells; ++cell)
      states[size_t(cell)] = state_given<A>(plan_, operands_, offsets(cell));
    if (plan_.has_own_statistics()) find_statistics(states.get());
    if (plan_.has_own_sums()) find_sums(states.get());
    return states;
  }

  void find_statistics(State* states) const {
    const int64_t units = plan_.cells * chunks_;
    const std::unique_ptr<Moments<A>[]> parts(new Moments<A>[size_t(units)]);
    parallel_for(units, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_chunks(begin, end,
                 [&](const GradOffsets& at, int64_t, int64_t i, int64_t unit, Rows& rows) {
                   parts[size_t(unit)] = moments_of_chunk(at, i, rows);
                 });
    });
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      const Moments<A>* const own = parts.get() + cell * chunks_;
      Moments<A> moments = own[0];
      for (int64_t i = 1; i < chunks_; ++i) moments = merge(moments, own[i]);
      states[cell].normal = normalizer(moments);
    }
  }

  void find_sums(State* states) const {
    const int64_t units = plan_.cells * chunks_;
    struct Pair {
      double sums[2];
    };
    const std::unique_ptr<Pair[]> parts(new Pair[size_t(units)]);
    parallel_for(units, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_chunks(begin, end,
                 [&](const GradOffsets& at, int64_t cell, int64_t i, int64_t unit, Rows& rows) {
                   sum_of_chunk(at, i, states[cell], rows, parts[size_t(unit)].sums);
                 });
    });
    for (int64_t cell = 0; cell < plan_.cells; ++cell) {
      Total<A> sums[2];
      for (int64_t i = 0; i < chunks_; ++i)
        for (int k = 0; k < 2; ++k) sums[k].add(parts[size_t(cell * chunks_ + i)].sums[k]);
      set_means(sums, states[cell]);
    }
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradLoader<T> loader_;
  int64_t chunks_;
  bool is_split_;
};

}  // namespace

template <class T>
void mvn_grad_plain(const MvnGradPlan& plan, const Operands& operands) {
  Cells<T>(plan, operands).run();
}

template void mvn_grad_plain<float>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<double>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<Float16>(const MvnGradPlan&, const Operands&);
template void mvn_grad_plain<BFloat16>(const MvnGradPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
