// Sums over many rows: kept by each share of the work for itself, then added in order.
#pragma once

#include <algorithm>
#include <memory>

#include "core/operands.h"
#include "cpu/mvn_grad/walk.h"
#include "cpu/simd/native.h"
#include "cpu/threads/parallel.h"
#include "math/total.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Four vectors of accumulators, so that additions need not wait for each other: the sum of a row
/// of at most some thousand elements.
template <class A>
double row_sum(const A* row, int64_t n) {
  using V = Vector<A>;
  constexpr int64_t kStep = kLanes<A>;
  V sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep)
    for (int k = 0; k < 4; ++k) sums[k] += load_vector<V>(row + i + k * kStep);
  const V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double sum = 0;
  for (int l = 0; l < kStep; ++l) sum += double(all[l]);
  A rest = 0;
  for (; i < n; ++i) rest += row[i];
  return sum + double(rest);
}

/// How many shares the work on `units` pieces of a plan is cut into where they keep totals: so many
/// as the totals' terms make worth it, whatever threads there are.
inline int64_t shares_of(const MvnGradPlan& plan, int64_t units) {
  constexpr int64_t kLeastTerms = 64, kMostShares = 64;
  int64_t shares = std::min(units, kMostShares);
  for (const MvnGradTotal& total : plan.totals)
    if (total.is_wanted && total.terms > 1)
      shares = std::clamp(total.terms / kLeastTerms, int64_t(1), shares);
  return shares;
}

/// Where part `s` of `n` things in `shares` parts begins.
inline int64_t part_begin(int64_t n, int64_t s, int64_t shares) {
  return n / shares * s + std::min(s, n % shares);
}

/// The two totals of a plan, once for every share.
template <class A>
class Totals {
 public:
  Totals(const MvnGradPlan& plan, int64_t shares, const Operands& operands)
      : plan_(plan), operands_(operands), shares_(shares) {
    for (int k = 0; k < 2; ++k) {
      const MvnGradTotal& total = plan.totals[k];
      if (total.is_wanted && !is_direct(k))
        room_[k].reset(new Total<A>[size_t(std::max<int64_t>(1, shares * total.count))]());
    }
  }

  bool is_wanted(int k) const { return plan_.totals[k].is_wanted; }

  /// Adds n values, which are the products of a row, to total k; `stride` is that along the row.
  void add(int64_t share, int k, int64_t at, int64_t stride, const A* row, int64_t n) const {
    if (is_direct(k)) return put(k, at, stride, row, n);
    Total<A>* const to = room_[k].get() + share * plan_.totals[k].count + at;
    if (stride == 0) return to->add(row_sum(row, n));
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) to[i].add(row[i]);
    else
      for (int64_t i = 0; i < n; ++i) to[i * stride].add(row[i]);
  }

  /// Adds what is itself a sum.
  void add_one(int64_t share, int k, int64_t at, double sum) const {
    if (is_direct(k))
      put_one(k, at, sum);
    else
      room_[k][size_t(share * plan_.totals[k].count + at)].add(sum);
  }

  /// Adds the shares, and rounds once.
  void finish() const {
    for (int k = 0; k < 2; ++k)
      if (is_wanted(k) && !is_direct(k))
        visit(plan_.totals[k].dtype, FloatTypes{}, [&]<class T>() { finish_as<T>(k); });
  }

 private:
  /// Whether every element has one term only, which is then written at once.
  bool is_direct(int k) const { return plan_.totals[k].terms == 1; }

  /// Where dense element `at` of a total stands in its tensor.
  static int64_t offset(const MvnGradTotal& total, int64_t at) {
    int64_t offset = 0;
    for (int d = total.rank - 1; d >= 0; --d) {
      offset += at % total.axis[d].size * total.axis[d].stride;
      at /= total.axis[d].size;
    }
    return offset;
  }

  void put_one(int k, int64_t at, double value) const {
    const MvnGradTotal& total = plan_.totals[k];
    visit(total.dtype, FloatTypes{}, [&]<class T>() {
      static_cast<T*>(operands_.outputs[total.output])[offset(total, at)] = store_total<T>(value);
    });
  }

  void put(int k, int64_t at, int64_t stride, const A* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) put_one(k, at + i * stride, double(row[i]));
  }

  template <class T>
  void finish_as(int k) const {
    const MvnGradTotal& total = plan_.totals[k];
    T* const to = static_cast<T*>(operands_.outputs[total.output]);
    parallel_for(total.count, shares_ * total.count * int64_t(sizeof(double)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     Total<A> sum;
                     for (int64_t s = 0; s < shares_; ++s)
                       sum.add(room_[k][size_t(s * total.count + i)]);
                     to[offset(total, i)] = store_total<T>(sum.value());
                   }
                 });
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  int64_t shares_;
  std::unique_ptr<Total<A>[]> room_[2];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
