// Normalization of groups whose elements stand apart, many columns at once, by explicit vectors.
#include "cpu/mvn/tiles.h"

#include "cpu/mvn/tile_results.h"
#include "cpu/mvn/tile_states.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

template <class T>
class Tiles {
 public:
  Tiles(const MvnPlan& plan, const Operands& o)
      : t_(plan, o), states_(t_, plan.compulsory_bytes()), results_(t_, o), statistics_(plan, o) {}

  void run() const {
    if (states_.are_shared()) return run_in_parts();
    states_.for_blocks([&](const Block& b, const BlockState& state, Scratch& scratch) {
      state.put(t_.blocks, b, statistics_);
      results_.expand(b, state, scratch);
      for (int64_t part = t_.parts; part-- > 0;) results_.normalize(b, part, scratch);
    });
  }

 private:
  using Block = Blocks::Block;
  using Scratch = TileScratch<T>;

  /// Few blocks of many rows: threads share each of them. What was read last is read first again.
  void run_in_parts() const {
    const std::unique_ptr<BlockState[]> states = states_.find_all();
    const int64_t last = t_.blocks.tasks - 1;
    for (int64_t task = 0; task <= last; ++task)
      states[size_t(task)].put(t_.blocks, t_.blocks.block(task), statistics_);
    states_.for_parts([&](int64_t index, int64_t at, Scratch& scratch) {
      const BlockState* const state = &states[size_t(last - index)];
      const Block b = t_.blocks.block(last - index);
      if (scratch.expanded != state) results_.expand(b, *state, scratch);
      results_.normalize(b, t_.parts - 1 - at, scratch);
    });
  }

  const TileLayout<T> t_;
  const TileStates<T> states_;
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
