// Max unpooling of windows side by side over planes that lie side by side.
#pragma once

#include "cpu/unpool/cells.h"
#include "cpu/unpool/side_by_side.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The number of the target, from 1, that each index names. False where one names none of these.
/// At least a vector.
template <int kTargets, class T, class Number, class Index>
[[gnu::noinline]] bool find(const Index* from, const Number* first, const Number* targets,
                            int64_t n, T* number) {
  CellSearch<kTargets, T, Index> search(targets);
  for (int64_t i = 0; i < n; i += search.kTogether) {
    i = std::min<int64_t>(i, n - search.kTogether);
    store_vector(number + i, search(from + i, first + i));
  }
  return !search.has_missed();
}

/// To each target of the sources: x where its number was found, else zeros. At least a vector.
template <int kTargets, class T>
[[gnu::noinline]] void select(T* const* to, const T* x, const T* number, int64_t n) {
  T* y[kTargets];
  std::copy_n(to, kTargets, y);
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    i = std::min(i, n - kLanes<T>);
    const auto value = load_vector<Vector<T>>(x + i), found = load_vector<Vector<T>>(number + i);
#pragma GCC unroll 8
    for (int k = 0; k < kTargets; ++k) store_vector(y[k] + i, value & Vector<T>(found == T(k + 1)));
  }
}

template <class T, class Index>
class UnpoolLaneCells : UnpoolByCells<T, Index, UnpoolSideBySide<T, Index>> {
  using Ways = UnpoolSideBySide<T, Index>;
  using Base = UnpoolByCells<T, Index, Ways>;
  using Base::cell_, Base::plan_, Base::kMost;
  using typename Base::Number, typename Base::Part, typename Ways::Lanes;
  static constexpr int64_t kMostLanes = std::min(Ways::kMostLanes, kMost);

 public:
  UnpoolLaneCells(const UnpoolPlan& plan, const Arrays& a)
      : Base(plan, a, even_part(plan.batch[1].size, kMostLanes)) {}

  /// Of a plan that both ways of this class's bases take.
  static bool fits(const UnpoolPlan& plan) {
    const int64_t vectors = UnpoolCell(plan).count == 8 ? 2 : 1;
    return are_sources_in_line(plan) &&
           plan.batch[1].size * plan.item_size >= vectors * kVectorBytes;
  }

  void run() const {
    Base::run(Ways::tasks(kMostLanes), [&](const Task& task) { return put_lanes(task); });
  }

 private:
  bool put_lanes(const Task& task) const {
    const int64_t n = task.n;
    const Lanes lanes(task, plan_);
    if (n < kLanes<T> || lanes.inside < uint64_t(plan_.plane_targets())) return false;
    const int64_t together = n * cell_.size[2];
    const bool is_streamed = plan_.target[2].y == n && together <= kMost && this->is_streamed(n);
    const auto put = [&](const Part& part) { return put_some(lanes, part); };
    return Base::put_rows(task, n, std::max<int64_t>(1, kMost / together), is_streamed, put);
  }

  bool put_some(const Lanes& lanes, const Part& part) const {
    const int64_t width = cell_.size[2], step = plan_.target[2].y;
    const T* x = part.x;
    const Index* from = part.from;
    Number at[UnpoolCell::kMostTargets];
    this->targets(part, at);
    T* y[UnpoolCell::kMostTargets];
    for (int64_t r = 0; r < cell_.rows(); ++r)
      for (int64_t k = 0; k < width; ++k) y[r * width + k] = part.to[r] + k * step;
    T number[kMostLanes];
    bool is_found = true;
    for (int64_t c = 0; c < part.count; ++c) {
      this->visit_count([&]<int kTargets>() {
        is_found &= find<kTargets>(from, lanes.first, at, lanes.n, number);
        select<kTargets>(y, x, number, lanes.n);
      });
      for (int64_t k = 0; k < cell_.count; ++k) {
        at[k] += Number(width);
        y[k] += width * step;
      }
      x += plan_.source[2].x;
      from += plan_.source[2].indices;
    }
    return is_found;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
