// The passes over a few packed rows of a gradient that write: dx, and the totals of the rows.
#pragma once

#include <array>
#include <type_traits>

#include "cpu/mvn/formulas.h"
#include "cpu/mvn_grad/row_passes.h"
#include "cpu/mvn_grad/row_seams.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What rows are added to, a number for each position, up to a whole vector; null where it is not
/// wanted.
template <class A>
struct RowTotals {
  A *products = nullptr, *sums = nullptr;  // of h * z; of h
};

/// A row of dx, and what is the same along it: z = (x - pivot) * normal_factor + normal_shift, and
/// dx = w * factor + ((x - pivot) * slope + shift).
template <class T>
struct DxRow {
  using A = Acc<T>;

  T* dx = nullptr;
  A pivot, slope, shift, factor, normal_factor, normal_shift;

  /// Returns whether factors are neither so large nor so small that they must not be joined.
  bool set(T* to, const CellState<A>& state, A scale) {
    JoinedDx<A> formula(state);
    const bool is_sound = formula.take(double(scale));
    const Normalizer<A>& n = state.normal;
    dx = to;
    pivot = n.pivot;
    slope = formula.slope;
    shift = formula.shift + 0;  // no negative zero
    factor = formula.factor;
    normal_factor = n.factor;
    normal_shift = 0 - (n.delta == 0 ? 0 : n.delta * n.factor);
    return is_sound;
  }
};

/// The same of the rows of a batch.
template <class T>
struct DxRows {
  using A = Acc<T>;
  using Numbers = A[kMostBatched];

  T* dx[kMostBatched] = {};
  alignas(64) Numbers pivot, slope, shift, factor, normal_factor, normal_shift;

  void put(int64_t r, const DxRow<T>& row) {
    dx[r] = row.dx;
    pivot[r] = row.pivot;
    slope[r] = row.slope;
    shift[r] = row.shift;
    factor[r] = row.factor;
    normal_factor[r] = row.normal_factor;
    normal_shift[r] = row.normal_shift;
  }
  [[gnu::always_inline]] DxRow<T> operator[](int64_t r) const {
    return {dx[r], pivot[r], slope[r], shift[r], factor[r], normal_factor[r], normal_shift[r]};
  }
};

/// What is wanted of rows: dx, which takes a term of x off; that their products and sums are added
/// up.
struct RowResults {
  bool has_dx, takes_product, has_products, has_sums;
};

/// The same as a constant, for which loops are compiled; where code is kept small, one loop asks.
template <RowResults kResults>
constexpr auto wanted() {
  if constexpr (kIsKeptSmall)
    return kResults;
  else
    return std::integral_constant<RowResults, kResults>{};
}

/// A vector at an edge of a row, past the caches where it is a line.
template <class T, class Lanes>
[[gnu::always_inline]] inline void put_one(T* to, const Vector<Acc<T>>& v, Lanes m,
                                           bool is_streamed) {
  if constexpr (kIsLine<T> && std::is_same_v<Lanes, Whole>)
    if (is_streamed) return stream_narrow(to, v);
  store_narrow(to, v, m);
}

/// kCount vectors of each row from position i on, in the rows' order.
template <int kCount, class Wanted, class T, class G, class To, class Lanes>
[[gnu::always_inline]] inline void write_columns(Wanted wanted, const GradRow<T, G>* rows,
                                                 const To& to, int64_t count, const Acc<T>* scale,
                                                 const RowTotals<Acc<T>>& totals, int64_t i,
                                                 Lanes m, bool is_streamed, bool converts) {
  const RowResults want = wanted;
  using V = Vector<Acc<T>>;
  constexpr int64_t kStep = kLanes<Acc<T>>, kLine = 64 / int64_t(sizeof(T));
  V products[kCount] = {}, sums[kCount] = {};
#pragma GCC unroll 8
  for (int k = 0; k < kCount; ++k) {
    if (want.has_products) products[k] = load_vector<V>(totals.products + i + k * kStep);
    if (want.has_sums) sums[k] = load_vector<V>(totals.sums + i + k * kStep);
  }
  const auto store = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) {
      if (want.has_products) store_vector(totals.products + i + k * kStep, products[k]);
      if (want.has_sums) store_vector(totals.sums + i + k * kStep, sums[k]);
    }
  };
  for (int64_t r = 0; r < count; ++r) {
    const DxRow<T> f = to[r];
    const T* const x = rows[r].x + i;
    const G* const grad = rows[r].grad + i;
    const bool across = are_across_lines(x, grad);
    if (want.has_dx)
#pragma GCC unroll 2
      for (int64_t k = 0; k < kCount * kStep; k += kLine) fetch(rows[r].next[1], i + k);
    const V pivot = f.pivot - V{}, slope = f.slope - V{}, shift = f.shift - V{},
            factor = f.factor - V{};
    V result[kCount] = {};
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) {
      const V h = load_across(grad + k * kStep, m, across);
      V d = {}, rest = shift;
      if (want.takes_product || want.has_products)
        d = load_across(x + k * kStep, m, across) - pivot;
      if (want.has_products) {
        const V z = fused(d, f.normal_factor - V{}, f.normal_shift - V{});
        products[k] = fused(h, select(m, z, V{}), products[k]);
      }
      if (want.has_sums) sums[k] += h;
      if (want.takes_product) rest = fused(d, slope, shift);
      if (want.has_dx) result[k] = fused(h * load_wide(scale + i + k * kStep, m), factor, rest);
    }
    if (count == 1) store();
    if (!want.has_dx) continue;
    if constexpr (kCount == 1) {
      put_one(f.dx + i, result[0], m, is_streamed);
    } else {
#pragma GCC unroll 4
      for (int k = 0; k < kCount; k += 2)
        put_pair(f.dx + i + k * kStep, result[k], result[k + 1], is_streamed, false, converts);
    }
  }
  if (count > 1) store();
}

/// Elements [begin, end) of rows, a vector of each at a time.
template <class Wanted, class T, class G>
[[gnu::noinline]] void write_edge(Wanted wanted, const GradRow<T, G>* rows, const DxRows<T>& to,
                                  int64_t count, const Acc<T>* scale, int64_t begin, int64_t end,
                                  const RowTotals<Acc<T>>& totals, bool is_streamed) {
  for (int64_t i = begin; i < end; i += kLanes<Acc<T>>)
    with_lanes(end - i, [&](auto m) {
      write_columns<1>(wanted, rows, to, count, scale, totals, i, m, is_streamed, false);
    });
}

/// The same of elements that rows have in lines of others, where these are put together.
template <class Wanted, class T, class G>
[[gnu::noinline]] void write_seam(Wanted wanted, const GradRow<T, G>* rows, const DxRows<T>& to,
                                  int64_t count, const Acc<T>* scale, int64_t begin, int64_t end,
                                  const RowTotals<Acc<T>>& totals, RowSeams<T>& seams) {
  DxRows<T> places = to;
  for (int64_t r = 0; r < count; ++r) places.dx[r] = begin ? seams.last(r) : seams.first(r);
  write_edge(wanted, rows, places, count, scale, begin, end, totals, false);
}

/// dx of rows, which are added to the totals, too. What belongs to positions, scale and totals, is
/// read and written once for all rows: each store of totals waits until those of dx before it are
/// done. Of a row whole lines of dx are written at once. Where these are streamed, all rows' dx
/// stand at the same place of a line.
template <class Wanted, class T, class G>
[[gnu::noinline]] void write_rows(Wanted wanted, const GradRow<T, G>* rows, const DxRows<T>& to,
                                  int64_t count, const Acc<T>* scale, int64_t n,
                                  const RowTotals<Acc<T>>& totals, RowFlow<T> flow) {
  using A = Acc<T>;
  constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  constexpr int kCount = std::max(2, int(kLine / kLanes<A>));
  constexpr int64_t kStep = kCount * kLanes<A>;
  const bool converts = converts_pairs(), is_streamed = flow.is_streamed;
  const int64_t head = is_streamed ? std::min(n, bytes_to_line(to[0].dx) / int64_t(sizeof(T))) : 0,
                end = flow.seams ? n - (kLine - head) : n;
  int64_t i = head;
  if (flow.seams)
    write_seam(wanted, rows, to, count, scale, 0, head, totals, *flow.seams);
  else if (head)
    write_edge(wanted, rows, to, count, scale, 0, head, totals, false);
  const auto write = [&](const auto* some, const auto& of, auto known)
                         __attribute__((always_inline)) {
                           for (; i + kStep <= end; i += kStep)
                             write_columns<kCount>(wanted, some, of, known, scale, totals, i,
                                                   Whole{}, is_streamed, converts);
                         };
  if (count == 1) {
    const GradRow<T, G> row = *rows;  // copies that stay in registers
    const DxRow<T> its = to[0];
    write(&row, std::array{its}, std::integral_constant<int64_t, 1>{});
  } else {
    write(rows, to, count);
  }
  if (i < end) write_edge(wanted, rows, to, count, scale, i, end, totals, is_streamed);
  if (end < n) write_seam(wanted, rows, to, count, scale, end, n, totals, *flow.seams);
}

/// The same with what is wanted told at run time. Returns whether totals have been added to, if
/// there are any.
template <class T, class G>
bool write_rows_to(bool takes_product, const GradRow<T, G>* rows, const DxRows<T>& to,
                   int64_t count, const Acc<T>* scale, int64_t n, const RowTotals<Acc<T>>& totals,
                   RowFlow<T> flow) {
  const auto write = [&]<RowResults kWanted>() {
    write_rows(wanted<kWanted>(), rows, to, count, scale, n, totals, flow);
    return kWanted.has_products;
  };
  if (!takes_product) return write.template operator()<RowResults{true, false, false, false}>();
  if (!totals.products) return write.template operator()<RowResults{true, true, false, false}>();
  if (!totals.sums) return write.template operator()<RowResults{true, true, true, false}>();
  return write.template operator()<RowResults{true, true, true, true}>();
}

/// Adds rows to the totals alone.
template <class T, class G>
void add_rows_to(const RowTotals<Acc<T>>& totals, const GradRow<T, G>* rows, const DxRows<T>& of,
                 int64_t count, int64_t n) {
  const auto add = [&]<RowResults kWanted>() {
    const Acc<T>* const no_scale = nullptr;
    write_rows(wanted<kWanted>(), rows, of, count, no_scale, n, totals, RowFlow<T>{});
  };
  if (!totals.products) return add.template operator()<RowResults{false, false, false, true}>();
  if (!totals.sums) return add.template operator()<RowResults{false, false, true, false}>();
  add.template operator()<RowResults{false, false, true, true}>();
}

/// dx of one row, where factors must not be joined.
template <class T, class G>
[[gnu::noinline, gnu::cold]] void write_apart(bool takes_product, T* dx, const GradRow<T, G>& row,
                                              const CellState<Acc<T>>& s, Acc<T> own_scale,
                                              const Acc<T>* scale, int64_t n) {
  const double factor = double(s.normal.factor);
  for (int64_t i = 0; i < n; ++i) {
    const double w = double(load_as_acc(row.grad[i])) * double(scale[i]) * double(own_scale);
    double d = w - double(s.mean_w);
    if (takes_product) {
      const double z =
          (double(load_as_acc(row.x[i])) - double(s.normal.pivot)) - double(s.normal.delta);
      d -= z * factor * double(s.mean_wz);
    }
    dx[i] = store_as<T>(static_cast<Acc<T>>(factor * d));
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
