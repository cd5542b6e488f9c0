// One cell of normalization's gradient in chunks: what is done with one of
// them, and with a cell that is one.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/mvn_grad/chunk.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class CellChunks {
 public:
  using A = Acc<T>;
  using Chunk = GradChunk<A>;
  using Rows = GradRows<A>;
  using State = CellState<A>;

  /// Of w and of w * z.
  struct Sums {
    Total<A> of[2];
  };

  using Share = TotalsShare<A>;

  CellChunks(const MvnGradPlan& plan, const Operands& operands)
      : plan_(plan),
        operands_(operands),
        loader_(plan, operands),
        count_((plan.cell_size + kGradChunk - 1) / kGradChunk) {}

  /// Of each cell.
  int64_t count() const { return count_; }

  /// What a cell's tensors say of it.
  State given(const GradOffsets& cell) const { return state_given<A>(plan_, operands_, cell); }

  Moments<A> moments(const GradOffsets& cell, int64_t i, Rows& rows) const {
    const Chunk c = loader_.chunk(cell, i);
    return moments_of(loader_.load_x(c, rows), c.n, plan_.use_mean);
  }
  Normalizer<A> normalizer(const Moments<A>& moments) const {
    return normalizer_of(moments, plan_.use_variance, plan_.epsilon);
  }

  /// The sums of w and of w * z over chunk i.
  void find_sums(const GradOffsets& cell, int64_t i, const State& state, Rows& rows,
                 double (&sums)[2]) const {
    Chunk c = loader_.chunk(cell, i);
    loader_.evaluate(c, load_x(c, rows), state, rows);
    sum(c, sums);
  }
  /// Adds those of chunk i, whether or not there are statistics.
  void add_sums(const GradOffsets& cell, int64_t i, const State& state, Rows& rows,
                Sums& sums) const {
    Chunk c = loader_.chunk(cell, i);
    loader_.evaluate(c, load_x(c, rows), state, rows);
    sums.of[0].add(row_sum(c.w, c.n));
    sums.of[1].add(product_sum(c.w, c.z, c.n));
  }
  /// The means of a cell from the sums over its chunks, which stand as pairs
  /// from `sums` on.
  void set_means(const double (*sums)[2], State& state) const {
    Total<A> all[2];
    for (int64_t i = 0; i < count_; ++i)
      for (int k = 0; k < 2; ++k) all[k].add(sums[i][k]);
    set_means(all, state);
  }
  void set_means(const Total<A> (&sums)[2], State& state) const {
    const auto n = double(plan_.cell_size);
    if (plan_.use_mean) state.mean_w = static_cast<A>(sums[0].value() / n);
    if (plan_.use_variance) state.mean_wz = static_cast<A>(sums[1].value() / n);
  }

  /// Adds chunk i to the totals, and writes its dx.
  void finish(const GradOffsets& cell, int64_t i, const State& state, const Share& share,
              Rows& rows) const {
    Chunk c = loader_.chunk(cell, i);
    loader_.evaluate(c, load_x(c, rows), state, rows);
    finish(c, state, share, rows);
  }

  /// All of a cell of one chunk, which is read once.
  void run_whole(const GradOffsets& cell, const Share& share, Rows& rows) const {
    State state = given(cell);
    Chunk c = loader_.chunk(cell, 0);
    const A* const x = load_x(c, rows);
    if (plan_.has_own_statistics()) state.normal = normalizer(moments_of(x, c.n, plan_.use_mean));
    loader_.evaluate(c, x, state, rows);
    if (plan_.has_own_sums()) {
      double sums[1][2];
      sum(c, sums[0]);
      set_means(sums, state);
    }
    finish(c, state, share, rows);
  }

 private:
  const A* load_x(const Chunk& c, Rows& rows) const {
    return plan_.reads_x() ? loader_.load_x(c, rows) : nullptr;
  }

  void sum(const Chunk& c, double (&sums)[2]) const {
    sums[0] = plan_.use_mean ? row_sum(c.w, c.n) : 0;
    sums[1] = plan_.use_variance ? product_sum(c.w, c.z, c.n) : 0;
  }

  void finish(const Chunk& c, const State& state, const Share& share, Rows& rows) const {
    loader_.add_totals(c, share.totals, share.index);
    if (plan_.wants_dx) loader_.write_dx(c, state, rows);
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  GradLoader<T> loader_;
  int64_t count_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
