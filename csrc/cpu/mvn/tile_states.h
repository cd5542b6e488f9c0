// What is known of a plan's blocks of columns after the first pass: sums about guesses, and about
// the means where guesses were far from them.
#pragma once

#include <memory>

#include "cpu/mvn/tile_sums.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class TileStates {
 public:
  using Block = Blocks::Block;
  using Scratch = TileScratch<T>;
  using State = BlockState;

  /// A call reads and writes so many bytes.
  TileStates(const TileLayout<T>& layout, int64_t bytes)
      : t_(layout), sums_(layout), bytes_(bytes) {}

  /// Whether blocks are so few that threads share each of them.
  bool are_shared() const {
    return t_.blocks.tasks < 4 * num_threads() && num_threads() > 1 && t_.parts > 1;
  }

  /// Calls fn(block, state, scratch) for each block, all of which one thread has read.
  template <class Fn>
  void for_blocks(const Fn& fn) const {
    parallel_for(t_.blocks.tasks, bytes_, [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(t_));
      const std::unique_ptr<State> state(new State);
      for (int64_t task = begin; task < end; ++task) {
        const Block b = t_.blocks.block(task);
        find(b, *state, *scratch);
        fn(b, *state, *scratch);
      }
    });
  }

  /// The states of all blocks, which several threads find. The sums are the same.
  std::unique_ptr<State[]> find_all() const {
    std::unique_ptr<State[]> states(new State[size_t(t_.blocks.tasks)]);
    const std::unique_ptr<double[]> sums(
        new double[size_t(2 * t_.blocks.tasks * t_.parts * t_.blocks.width)]);
    parallel_for(t_.blocks.tasks, bytes_, [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(t_));
      for (int64_t task = begin; task < end; ++task)
        sums_.guess(t_.blocks.block(task), states[size_t(task)].sums, *scratch);
    });
    sum_parts(states.get(), sums.get());
    bool is_good = true;
    for (int64_t task = 0; task < t_.blocks.tasks; ++task) {
      State& state = states[size_t(task)];
      std::fill_n(state.is_bad, t_.blocks.width, false);
      is_good &= state.finish(t_.plan, groups_of(task));
    }
    if (is_good) return states;
    sum_parts(states.get(), sums.get());
    for (int64_t task = 0; task < t_.blocks.tasks; ++task)
      states[size_t(task)].finish_surely(t_.plan, groups_of(task));
    return states;
  }

  /// Calls fn(task, part, scratch) for all parts of all blocks.
  template <class Fn>
  void for_parts(const Fn& fn) const {
    parallel_for(t_.blocks.tasks * t_.parts, bytes_, [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Scratch> scratch(new Scratch(t_));
      for (int64_t i = begin; i < end; ++i) fn(i / t_.parts, i % t_.parts, *scratch);
    });
  }

 private:
  int64_t groups_of(int64_t task) const { return t_.blocks.groups_of(t_.blocks.block(task)); }

  void find(const Block& b, State& state, Scratch& scratch) const {
    sums_.guess(b, state.sums, scratch);
    sums_.sum_block(b, state.sums, scratch);
    const int64_t groups = t_.blocks.groups_of(b);
    if (state.finish(t_.plan, groups)) return;
    sums_.sum_block(b, state.sums, scratch);
    state.finish_surely(t_.plan, groups);
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
      const int64_t groups = groups_of(task);
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

  const TileLayout<T>& t_;
  const TileSums<T> sums_;
  int64_t bytes_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
