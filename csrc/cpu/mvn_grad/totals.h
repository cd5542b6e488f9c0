// Sums over many rows: kept by each share of the work for itself, then added in order.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "core/operands.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/term_sums.h"
#include "cpu/mvn_grad/walk.h"
#include "cpu/simd/convert.h"
#include "cpu/threads/parallel.h"
#include "math/total.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Terms that a share adds up at least: adding up shares is not to take longer than their own work.
constexpr int64_t kLeastTerms = 64;

/// How many shares the work on `units` pieces of a plan is cut into where they keep totals: so many
/// as the totals' terms make worth it, whatever threads there are. One total's order must not
/// follow from whether the other is wanted.
inline int64_t shares_of(const MvnGradPlan& plan, int64_t units, int64_t least = kLeastTerms) {
  constexpr int64_t kMostShares = 64;
  int64_t shares = std::min(units, kMostShares);
  for (const MvnGradTotal& total : plan.totals)
    if (total.terms > 1) shares = std::clamp(total.terms / least, int64_t(1), shares);
  return shares;
}

/// Where part `s` of `n` things in `shares` parts begins.
inline int64_t part_begin(int64_t n, int64_t s, int64_t shares) {
  return n / shares * s + std::min(s, n % shares);
}

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
template <class E>
using Zeros = std::unique_ptr<E[], Freed>;

/// n elements of bytes that are 0. The system clears their pages as they are written: a call may
/// have to end before it has seen all of them.
template <class E>
Zeros<E> zeros(size_t n) {
  static_assert(std::is_trivially_copyable_v<E> && std::is_trivially_destructible_v<E>);
  void* const memory = std::calloc(n, sizeof(E));
  if (!memory) throw std::bad_alloc();
  return Zeros<E>(static_cast<E*>(memory));
}

/// The two totals of a plan, once for every share. Rows are staged: added up in their own type
/// first, a few of them.
template <class A>
class Totals {
 public:
  /// `are_rows`: each share adds rows of stride 1 alone, so few that none settles them.
  Totals(const MvnGradPlan& plan, int64_t shares, const Operands& operands, bool are_rows = false)
      : plan_(plan), operands_(operands), shares_(shares) {
    for (int k = 0; k < 2; ++k) {
      const MvnGradTotal& total = plan.totals[k];
      if (!total.is_wanted || is_direct(k)) continue;
      const auto count = size_t(std::max<int64_t>(1, shares * total.count));
      const bool is_staged = total.count <= kMostStaged;
      if (is_staged) stage_[k] = zeros<A>(count);
      if (!is_staged || !are_rows) room_[k] = zeros<Total<A>>(count);
    }
    staged_.reset(new StagedShare[size_t(std::max<int64_t>(1, shares))]);
  }

  bool is_wanted(int k) const { return plan_.totals[k].is_wanted; }

  /// Adds n values, each times z[i] where that is there, to total k; `stride` is that along the
  /// row.
  void add(int64_t share, int k, int64_t at, int64_t stride, const A* row, const A* z,
           int64_t n) const {
    if (stride == 0) return add_one(share, k, at, z ? product_sum(row, z, n) : row_sum(row, n));
    const auto value = [&](int64_t i) { return z ? row[i] * z[i] : row[i]; };
    if (is_direct(k)) {
      if (stride == 1 && is_packed(k)) return put_products(k, at, row, z, n);
      return put_row(k, at, stride, n, value);
    }
    if (stride == 1 && stage_[k]) {
      A* const to = stage_[k].get() + share * plan_.totals[k].count + at;
      ++staged_[size_t(share)].of[k].pieces;
      stage(to, row, z, n);
      return;
    }
    Total<A>* const to = room_[k].get() + share * plan_.totals[k].count + at;
    if (stride == 1) return add_row(to, row, z, n);
    for (int64_t i = 0; i < n; ++i) to[i * stride].add(double(value(i)));
  }

  /// To be called when a share has added a row or a part of one: what is staged of a total becomes
  /// part of it before chains of additions get long. A total's order does not follow from the
  /// other's.
  void count_row(int64_t share, int64_t n) const {
    for (int k = 0; k < 2; ++k) {
      if (!stage_[k]) continue;
      Staged& staged = staged_[size_t(share)].of[k];
      staged.elements += n;
      if (++staged.rows >= kMostStagedRows || staged.pieces >= kMostStagedPieces ||
          staged.elements >= kStagedTurns * plan_.totals[k].count)
        flush(share, k);
    }
  }

  /// Makes what a share has staged part of its totals.
  void settle(int64_t share) const {
    for (int k = 0; k < 2; ++k)
      if (stage_[k]) flush(share, k);
  }

  /// Adds what is itself a sum.
  void add_one(int64_t share, int k, int64_t at, double sum) const {
    add_sums(share, k, at, 1, 1, [sum](int64_t) { return sum; });
  }

  /// The same of sum(i), i in [0, n), to elements at + i * stride.
  template <class Sum>
  void add_sums(int64_t share, int k, int64_t at, int64_t stride, int64_t n, const Sum& sum) const {
    if (is_direct(k)) return put_row(k, at, stride, n, sum);
    Total<A>* const to = room_[k].get() + share * plan_.totals[k].count + at;
    if (stride == 1)
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i].add(sum(i));
    else
      for (int64_t i = 0; i < n; ++i) to[i * stride].add(sum(i));
  }

  /// Adds the shares, and rounds once.
  void finish() const {
    for (int k = 0; k < 2; ++k)
      if (is_wanted(k) && !is_direct(k))
        is_packed(k)
            ? finish_packed(k)
            : visit(plan_.totals[k].dtype, FloatTypes{}, [&]<class T>() { finish_as<T>(k); });
  }

 private:
  static constexpr int64_t kBlock = tuning::mvn_grad::kSharedElements;
  static constexpr int64_t kMostStaged = 65536, kMostStagedRows = 1024, kStagedTurns = 16;
  /// Each of them may have added to the same element, and so may those of one more row.
  static constexpr int64_t kMostStagedPieces = 2048;

  /// What has been staged of a total, in rows, their pieces and elements.
  struct Staged {
    int64_t rows = 0, pieces = 0, elements = 0;
  };
  /// The same of both totals of a share, apart from what other threads count.
  struct alignas(64) StagedShare {
    Staged of[2];
  };

  void flush(int64_t share, int k) const {
    staged_[size_t(share)].of[k] = {};
    const int64_t count = plan_.totals[k].count;
    A* const from = stage_[k].get() + share * count;
    add_row(room_[k].get() + share * count, from, nullptr, count);
    std::fill_n(from, count, A(0));
  }

  /// Adds row[i], each times z[i] where that is there.
  static void add_row(Total<A>* to, const A* row, const A* z, int64_t n) {
    int64_t i = 0;
    if constexpr (std::is_same_v<A, float>) {
      static_assert(sizeof(Total<A>) == sizeof(double));
      for (; i + kDoubles <= n; i += kDoubles) {
        HalfFloats v = load_vector<HalfFloats>(row + i);
        if (z) v *= load_vector<HalfFloats>(z + i);
        double* const sums = &to[i].sum;
        store_vector(sums, load_vector<Doubles>(sums) + as_doubles(v));
      }
    }
    for (; i < n; ++i) to[i].add(double(z ? row[i] * z[i] : row[i]));
  }

  static void add_totals(Total<A>* to, const Total<A>* from, int64_t n) {
    int64_t i = 0;
    if constexpr (std::is_same_v<A, float>)
      for (; i + kDoubles <= n; i += kDoubles) {
        double* const sums = &to[i].sum;
        store_vector(sums, load_vector<Doubles>(sums) + load_vector<Doubles>(&from[i].sum));
      }
    for (; i < n; ++i) to[i].add(from[i]);
  }

  /// to[i] += row[i], each times z[i] where that is there.
  static void stage(A* to, const A* row, const A* z, int64_t n) {
    const auto at = [](const A* p) { return load_vector<Vector<A>>(p); };
    int64_t i = 0;
    for (; i + kLanes<A> <= n; i += kLanes<A>)
      store_vector(to + i,
                   z ? fused(at(row + i), at(z + i), at(to + i)) : at(to + i) + at(row + i));
    for (; i < n; ++i) to[i] = z ? fused(row[i], z[i], to[i]) : to[i] + row[i];
  }

  /// Whether every element has one term only, which is then written at once.
  bool is_direct(int k) const { return plan_.totals[k].terms == 1; }

  /// Whether its elements stand in its tensor as they are kept, and are no wider than A.
  bool is_packed(int k) const {
    const MvnGradTotal& total = plan_.totals[k];
    if (sizeof(A) < sizeof(double) && total.dtype == Dtype::float64) return false;
    return total.rank == 0 || (total.rank == 1 && total.axis[0].stride == 1);
  }

  /// Writes n packed elements from `at` on: values(i, m) gives m of them, kBlock at most, as they
  /// are computed in.
  template <class Values>
  void put_packed(int k, int64_t at, int64_t n, const Values& values) const {
    const MvnGradTotal& total = plan_.totals[k];
    visit(total.dtype, FloatTypes{}, [&]<class T>() {
      T* const to = static_cast<T*>(operands_.outputs[total.output]) + at;
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t m = std::min(kBlock, n - i);
        const A* const from = values(i, m);
        if constexpr (std::is_same_v<A, Acc<T>>)
          store_row(to + i, int64_t(1), from, m);
        else
          for (int64_t c = 0; c < m; ++c) to[i + c] = store_total<T>(double(from[c]));
      }
    });
  }

  /// Writes row[i], each times z[i] where that is there.
  void put_products(int k, int64_t at, const A* row, const A* z, int64_t n) const {
    A products[kBlock];
    put_packed(k, at, n, [&](int64_t i, int64_t m) {
      if (!z) return row + i;
      int64_t c = 0;
      for (; c + kLanes<A> <= m; c += kLanes<A>)
        store_vector(products + c,
                     load_vector<Vector<A>>(row + i + c) * load_vector<Vector<A>>(z + i + c));
      for (; c < m; ++c) products[c] = row[i + c] * z[i + c];
      return static_cast<const A*>(products);
    });
  }

  /// Where dense element `at` of a total stands in its tensor.
  static int64_t offset(const MvnGradTotal& total, int64_t at) {
    int64_t offset = 0;
    for (int d = total.rank - 1; d >= 0; --d) {
      offset += at % total.axis[d].size * total.axis[d].stride;
      at /= total.axis[d].size;
    }
    return offset;
  }

  /// Calls fn(i, offset) for dense elements at + i of a total, i in [0, n). Divisions take longer
  /// than anything else: there are two for each run along the last dimension.
  template <class Fn>
  static void for_places(const MvnGradTotal& total, int64_t at, int64_t n, const Fn& fn) {
    const int inner = std::max(total.rank - 1, 0);
    const int64_t size = total.rank > 0 ? total.axis[inner].size : 1,
                  stride = total.axis[inner].stride;
    for (int64_t i = 0; i < n;) {
      const int64_t end = std::min(n, i + size - (at + i) % size);
      int64_t to = offset(total, at + i);
      for (; i < end; ++i, to += stride) fn(i, to);
    }
  }

  /// Writes value(i) to dense elements at + i * stride.
  template <class Value>
  void put_row(int k, int64_t at, int64_t stride, int64_t n, const Value& value) const {
    const MvnGradTotal& total = plan_.totals[k];
    visit(total.dtype, FloatTypes{}, [&]<class T>() {
      T* const to = static_cast<T*>(operands_.outputs[total.output]);
      const auto put = [&](int64_t i, int64_t offset) {
        to[offset] = store_total<T>(double(value(i)));
      };
      if (stride == 1) return for_places(total, at, n, put);
      for (int64_t i = 0; i < n; ++i) put(i, offset(total, at + i * stride));
    });
  }

  void finish_packed(int k) const {
    const int64_t count = plan_.totals[k].count;
    parallel_for(count, shares_ * count * int64_t(sizeof(double)), [&](int64_t begin, int64_t end) {
      static_assert(kBlock % kDoubles == 0);
      A values[kBlock];
      put_packed(k, begin, end - begin, [&](int64_t i, int64_t m) {
        Total<A> sums[kBlock];
        add_shares(k, begin + i, m, sums);
        if constexpr (std::is_same_v<A, float>)
          for (int64_t c = 0; c < m; c += kDoubles)
            store_vector(values + c, as_floats(load_vector<Doubles>(&sums[c].sum)));
        else
          for (int64_t c = 0; c < m; ++c) values[c] = sums[c].value();
        return static_cast<const A*>(values);
      });
    });
  }

  template <class T>
  void finish_as(int k) const {
    const MvnGradTotal& total = plan_.totals[k];
    T* const to = static_cast<T*>(operands_.outputs[total.output]);
    parallel_for(total.count, shares_ * total.count * int64_t(sizeof(double)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; i += kBlock) {
                     const int64_t n = std::min(kBlock, end - i);
                     Total<A> sums[kBlock];
                     add_shares(k, i, n, sums);
                     for_places(total, i, n, [&](int64_t c, int64_t offset) {
                       to[offset] = store_total<T>(sums[c].value());
                     });
                   }
                 });
  }

  /// Elements [first, first + n), share by share, as they stand in memory.
  void add_shares(int k, int64_t first, int64_t n, Total<A>* sums) const {
    for (int64_t s = 0; s < shares_; ++s) {
      const int64_t at = s * plan_.totals[k].count + first;
      const Total<A>* const room = room_[k] ? room_[k].get() + at : nullptr;
      const A* const stage = stage_[k] ? stage_[k].get() + at : nullptr;
      if (room) add_totals(sums, room, n);
      if (stage) add_row(sums, stage, nullptr, n);
    }
  }

  const MvnGradPlan& plan_;
  const Operands& operands_;
  int64_t shares_;
  Zeros<Total<A>> room_[2];
  Zeros<A> stage_[2];
  std::unique_ptr<StagedShare[]> staged_;
};

/// Where a share of the work adds to the totals.
template <class A>
struct TotalsShare {
  const Totals<A>& totals;
  int64_t index;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
