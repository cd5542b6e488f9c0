// Max unpooling of windows side by side, a row of a packed plane after the other.
#pragma once

#include "cpu/simd/interleave.h"
#include "cpu/unpool/cells.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// To rows of cells of two targets each: x where its index names a target, less `first`, else
/// zeros. False where one names no target of its own. At least a vector.
template <int kTargets, class T, class Number, class Index>
[[gnu::noinline]] bool put_pairs(T* const* to, const T* x, const Index* from, const Number* first,
                                 const Number* targets, int64_t n) {
  CellSearch<kTargets, T, Index> search(targets);
  using V = decltype(search)::Found;
  constexpr auto kAll = kLanesOf<V>;
  constexpr int kTogether = search.kTogether;
  T* y[kTargets / 2];
  std::copy_n(to, kTargets / 2, y);
  for (int64_t i = 0; i < n; i += kTogether) {
    i = std::min<int64_t>(i, n - kTogether);
    const V found = search(from + i, first + i), value = load_vector<V>(x + i);
#pragma GCC unroll 4
    for (int r = 0; r < kTargets / 2; ++r) {
      const V left = value & V(found == T(2 * r + 1)), right = value & V(found == T(2 * r + 2));
      store_vector(y[r] + 2 * i, interleaved<0>(left, right, kAll));
      store_vector(y[r] + 2 * i + kTogether, interleaved<1>(left, right, kAll));
    }
  }
  return !search.has_missed();
}

template <class T, class Index>
class UnpoolPlaneCells : UnpoolByCells<T, Index, UnpoolPlanes<T, Index>> {
  using Ways = UnpoolPlanes<T, Index>;
  using Base = UnpoolByCells<T, Index, Ways>;
  using Base::cell_, Base::plan_, Base::kMost;
  using typename Base::Number, typename Base::Part;
  static constexpr int64_t kMostSources = std::min<int64_t>(kMost / 2, 1024);

 public:
  UnpoolPlaneCells(const UnpoolPlan& plan, const Arrays& a) : Base(plan, a, 1) {}

  /// Of a plan that both ways of this class's bases take.
  static bool fits(const UnpoolPlan& plan) {
    const UnpoolSource& s = plan.source[2];
    return are_sources_in_line(plan) && s.x == 1 && s.indices == 1 &&
           UnpoolCell(plan).size[2] == 2 && plan.extent[2].x >= tuning::unpool::kFewestPairs;
  }

  void run() const {
    Base::run(this->batch_tasks(), [&](const Task& task) { return put_plane(task); });
  }

 private:
  bool put_plane(const Task& task) const {
    const int64_t size = plan_.plane_targets();
    if (within<Index>(uint64_t(task.flat), uint64_t(size), plan_.limit) < uint64_t(size))
      return false;
    const int64_t most = std::min(plan_.extent[2].x, kMostSources);
    Number first[kMostSources];  // of each source's targets
    for (int64_t i = 0; i < most; ++i) first[i] = Number(uint64_t(task.flat) + 2 * uint64_t(i));
    const auto put = [&](const Part& part) { return put_some(first, part); };
    return Base::put_rows(task, 1, most, this->is_streamed(1), put);
  }

  bool put_some(const Number* first, const Part& part) const {
    Number at[UnpoolCell::kMostTargets];
    this->targets(part, at);
    return this->visit_count([&]<int kTargets>() {
      return put_pairs<kTargets>(part.to, part.x, part.from, first, at, part.count);
    });
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
