// Normalization of groups whose elements stand apart, many columns at once, by explicit vectors.
#include "cpu/mvn/tiles.h"

#include <memory>

#include "cpu/mvn/tile_results.h"
#include "cpu/mvn/tile_sums.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

template <class T>
class Tiles {
 public:
  Tiles(const MvnPlan& plan, const Operands& o)
      : t_(plan, o), sums_(t_), results_(t_, o), statistics_(plan, o) {}

  void run() const {
    if (t_.blocks.tasks < 4 * num_threads() && num_threads() > 1 && t_.parts > 1)
      return run_in_parts();
    parallel_for(t_.blocks.tasks, t_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(t_));
      const std::unique_ptr<State> state(new State);
      for (int64_t task = begin; task < end; ++task)
        run_block(t_.blocks.block(task), *state, *scratch);
    });
  }

 private:
  using Block = Blocks::Block;
  using Scratch = TileScratch<T>;
  using State = BlockState;

  void run_block(const Block& b, State& state, Scratch& scratch) const {
    sums_.guess(b, state.sums, scratch);
    sums_.sum_block(b, state.sums, scratch);
    const int64_t groups = t_.blocks.groups_of(b);
    if (!state.finish(t_.plan, groups)) {
      sums_.sum_block(b, state.sums, scratch);
      state.finish_surely(t_.plan, groups);
    }
    state.put(t_.blocks, b, statistics_);
    results_.expand(b, state, scratch);
    for (int64_t part = t_.parts; part-- > 0;) {
      if (t_.parts > 1) checkpoint();
      results_.normalize(b, part, scratch);
    }
  }

  /// Few blocks of many rows: threads share each of them. The sums are the same as in run_block.
  void run_in_parts() const {
    const std::unique_ptr<State[]> states(new State[size_t(t_.blocks.tasks)]);
    const std::unique_ptr<double[]> sums(
        new double[size_t(2 * t_.blocks.tasks * t_.parts * t_.blocks.width)]);
    parallel_for(t_.blocks.tasks, t_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(t_));
      for (int64_t task = begin; task < end; ++task)
        sums_.guess(t_.blocks.block(task), states[size_t(task)].sums, *scratch);
    });
    sum_parts(states.get(), sums.get());
    bool is_good = true;
    for (int64_t task = 0; task < t_.blocks.tasks; ++task) {
      State& state = states[size_t(task)];
      std::fill_n(state.is_bad, t_.blocks.width, false);
      is_good &= state.finish(t_.plan, t_.blocks.groups_of(t_.blocks.block(task)));
    }
    if (!is_good) {
      sum_parts(states.get(), sums.get());
      for (int64_t task = 0; task < t_.blocks.tasks; ++task)
        states[size_t(task)].finish_surely(t_.plan, t_.blocks.groups_of(t_.blocks.block(task)));
    }
    for (int64_t task = 0; task < t_.blocks.tasks; ++task)
      states[size_t(task)].put(t_.blocks, t_.blocks.block(task), statistics_);
    normalize_parts(states.get());
  }

  void sum_parts(State* states, double* sums) const {
    for_parts([&](int64_t task, int64_t part, Scratch& scratch) {
      const Block b = t_.blocks.block(task);
      t_.blocks.spread(b, states[task].sums.guess, scratch.guess);
      sums_.sum_part(b, part, scratch);
      double* to = sums + 2 * (task * t_.parts + part) * t_.blocks.width;
      std::copy_n(scratch.wide_sum, t_.blocks.groups_of(b), to);
      std::copy_n(scratch.wide_square, t_.blocks.groups_of(b), to + t_.blocks.width);
    });
    for (int64_t task = 0; task < t_.blocks.tasks; ++task) {
      const int64_t groups = t_.blocks.groups_of(t_.blocks.block(task));
      auto& total = states[task].sums;
      std::fill_n(total.sum, groups, 0.0);
      std::fill_n(total.square, groups, 0.0);
      for (int64_t part = 0; part < t_.parts; ++part) {
        const double* from = sums + 2 * (task * t_.parts + part) * t_.blocks.width;
        for (int64_t g = 0; g < groups; ++g) total.sum[g] += from[g];
        for (int64_t g = 0; g < groups; ++g) total.square[g] += from[t_.blocks.width + g];
      }
    }
  }

  void normalize_parts(const State* states) const {
    for_parts([&](int64_t index, int64_t at, Scratch& scratch) {
      const State* const state = states + (t_.blocks.tasks - 1 - index);
      const Block b = t_.blocks.block(t_.blocks.tasks - 1 - index);
      if (scratch.expanded != state) results_.expand(b, *state, scratch);
      results_.normalize(b, t_.parts - 1 - at, scratch);
    });
  }

  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(t_.blocks.tasks * t_.parts, t_.plan.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   const std::unique_ptr<Scratch> scratch(new Scratch(t_));
                   for (int64_t i = begin; i < end; ++i) fn(i / t_.parts, i % t_.parts, *scratch);
                 });
  }

  const TileLayout<T> t_;
  const TileSums<T> sums_;
  const TileResults<T> results_;
  GroupStatistics statistics_;
};

}  // namespace

bool are_columns_tiled(const MvnPlan& plan) { return are_elements_apart(plan, 2); }

template <class T>
void mvn_tiles(const MvnPlan& plan, const Operands& operands) {
  Tiles<T>(plan, operands).run();
}

template void mvn_tiles<float>(const MvnPlan&, const Operands&);
template void mvn_tiles<Float16>(const MvnPlan&, const Operands&);
template void mvn_tiles<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
