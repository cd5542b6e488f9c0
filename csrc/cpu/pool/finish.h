// From what a window's taps join to, to the output element.
#pragma once

#include <vector>

#include "cpu/pool/reduce.h"
#include "cpu/pool/strip_tasks.h"
#include "cpu/pool/zero_sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Taps that count for the divisor of an average, along the axes of the box.
inline double counted(const PoolPlan& p, const Box& box) {
  return p.include_padding ? box.inside : double(box.taps);
}

/// Neighbouring outputs: `lines` times n columns of `lanes` values, the first of them output
/// `first` of its row, whose windows count `rows` taps along the other axes.
struct OutputRun {
  int64_t first, n, lanes, lines;
  double rows;

  int64_t values() const { return lines * n * lanes; }
};

// A finish turns joined values into outputs: write() for a run of outputs, in whole vectors, one()
// for a single window. `again(i)` gives the value of output i from its taps, scaled. prepare()
// comes before both, where write() will be called. of_count() is what ends vectors of windows that
// count so many taps, where no more is needed; of_columns() that of a part of a row, from output
// `first` on, whose windows count so many taps along the other axes; of_divisors() that of outputs
// for which divisors() has written a line each.

/// Lines of so many values that nearly all of the vectors they take are full.
template <class V>
inline int64_t lines_at_once(int64_t values) {
  return std::max<int64_t>(1, 16 * kLanes<V> / values);
}

struct MaxFinish {
  static constexpr PoolKind kKind = PoolKind::max;
  void prepare(const PoolPlan&) {}
  struct Last {
    template <class W>
    W operator()(const W& v, int64_t = 0) const {
      return v;
    }
  };
  Last of_count(double) const { return {}; }
  Last of_columns(double, int64_t) const { return {}; }
  template <class V>
  Last of_divisors(const V*) const {
    return {};
  }
  template <class V>
  void divisors(double, int64_t, V*) const {}
  template <class Op, class Again>
  void write(const Op& op, const OutputRun& of, typename Op::V* values, typename Op::Element* to,
             const Again&) const {
    const int64_t n = of.values();
    for (int64_t i = 0; i < n; i += kLanes<typename Op::V>)
      op.store(to + i, load_vector<Vector<typename Op::V>>(values + i));
  }
  template <class V, class Again>
  V one(V joined, double, const Again&) const {
    return joined;
  }
};

/// A sum of zeros alone is +0, whether or not a path has begun with one.
template <class W>
inline W from_zero(const W& sum) {
  return sum + W{};
}

template <class T>
struct AverageFinish {
  static constexpr PoolKind kKind = PoolKind::average;
  using V = Acc<T>;
  /// Taps that count along `repeats` rows of outputs, where they differ. Of a long run that sees
  /// whole windows, which begins with output `plain`, all but kPlain outputs are left out.
  std::vector<V> columns;
  int64_t width = 0, repeats = 1, plain = 0, left_out = 0;
  V column = 1;  // else the number for all of them

  void prepare(const PoolPlan& p) {
    const PoolAxis& w = p.axis[2];
    const Interior whole = interior_of(w, 0, w.out);
    column = V(w.window);
    if (whole.from > 0 || whole.to < w.out) count_columns(w, whole, p.include_padding);
  }

  [[gnu::noinline]] void count_columns(const PoolAxis& w, const Interior& whole, bool padded) {
    width = w.out;
    repeats = lines_at_once<V>(width);
    plain = whole.from;
    left_out = std::max<int64_t>(0, whole.to - whole.from - kPlain);
    const size_t kept = size_t(width - left_out);
    columns.assign(size_t(repeats) * kept + kSlack, column);
    Pace pace;
    for (int64_t o = 0; o < w.out; ++o, pace.add(1)) {
      if (o == whole.from) o = whole.to;
      if (o == w.out) break;
      const AxisTaps t = axis_taps(w, o);
      const int64_t at = o < whole.to ? o : o - left_out;
      columns[size_t(at)] = V(std::max<int64_t>(1, padded ? t.inside : t.count));
    }
    const auto end = columns.begin() + std::ptrdiff_t(kept);
    if (std::all_of(columns.begin(), end, [&](V n) { return n == column; })) columns.clear();
    for (size_t i = kept; i < columns.size(); ++i) columns[i] = columns[i - kept];
  }

  /// Those of outputs from `first` on, at most kPlain of a row.
  const V* columns_from(int64_t first) const {
    return columns.data() + std::min(first, std::max(plain, first - left_out));
  }

  template <class Op, class Again>
  void write(const Op& op, const OutputRun& of, V* values, T* to, const Again&) const {
    const OutputRun run = of;  // stores could change what a reference leads to
    const V rows = std::max(V{1}, V(run.rows));
    if (columns.empty()) return divide(op, values, rows * column, to, run.values());
    const V* const at = columns_from(run.first);
    const int64_t once = run.lanes == 1 && run.n == width ? repeats : 1;
    for (int64_t r = 0; r < run.lines; r += once) {
      const int64_t n = std::min(once, run.lines - r) * run.n;
      for (int64_t j = 0; run.lanes > 1 && j < n; ++j)
        divide(op, values + j * run.lanes, rows * at[j], to + j * run.lanes, run.lanes);
      for (int64_t i = 0; run.lanes == 1 && i < n; i += kLanes<V>)
        op.store(to + i, from_zero(load_vector<Vector<V>>(values + i)) /
                             (rows * load_vector<Vector<V>>(at + i)));
      values += n * run.lanes;
      to += n * run.lanes;
    }
  }

  template <class S, class Again>
  V one(S joined, double divisor, const Again&) const {
    return V(average_of(from_zero(joined), S(divisor)));
  }

  /// Quotients, as products where the inverse is exact: that of a power of two.
  struct Last {
    V divisor, inverse;
    bool is_exact;

    explicit Last(V n) : divisor(n), inverse(1 / n) {
      using Bits = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;
      constexpr Bits kFraction = (Bits{1} << (std::numeric_limits<V>::digits - 1)) - 1;
      is_exact = (std::bit_cast<Bits>(n) & kFraction) == 0;
    }
    Vector<V> operator()(const Vector<V>& v) const {
      return is_exact ? from_zero(v) * inverse : from_zero(v) / divisor;
    }
  };
  Last of_count(double n) const { return Last(std::max(V{1}, V(n))); }

  struct LastOfColumns {
    const V* columns;
    V rows;
    Last last;

    Vector<V> operator()(const Vector<V>& v, int64_t at) const {
      return columns ? from_zero(v) / (rows * load_vector<Vector<V>>(columns + at)) : last(v);
    }
  };
  LastOfColumns of_columns(double n, int64_t first) const {
    const V rows = std::max(V{1}, V(n));
    return {columns.empty() ? nullptr : columns_from(first), rows, Last(rows * column)};
  }

  /// Divisors of a line of n outputs whose windows count so many taps along the other axes.
  void divisors(double count, int64_t n, V* to) const {
    const V rows = std::max(V{1}, V(count));
    std::fill_n(to, n, rows * column);
    if (columns.empty()) return;
    const V* const at = columns_from(0);
    for (int64_t i = 0; i < n; ++i) to[i] = rows * at[i];
  }
  struct Quotients {
    const V* divisors;
    Vector<V> operator()(const Vector<V>& v, int64_t at) const {
      return from_zero(v) / load_vector<Vector<V>>(divisors + at);
    }
  };
  Quotients of_divisors(const V* divisors) const { return {divisors}; }

 private:
  static constexpr int64_t kPlain = 4096;  // no strip takes as many outputs of a row

  template <class Op>
  static void divide(const Op& op, const V* values, V divisor, T* to, int64_t n) {
    const Last last(divisor);
    for (int64_t i = 0; i < n; i += kLanes<V>)
      op.store(to + i, last(load_vector<Vector<V>>(values + i)));
  }
};

template <class T>
struct LpFinish {
  static constexpr PoolKind kKind = PoolKind::lp;
  using V = Acc<T>;
  uint32_t p;
  const ZeroSums<T>& zeros;

  void prepare(const PoolPlan&) {}
  MaxFinish::Last of_columns(double, int64_t) const { return {}; }
  template <class Op, class Again>
  void write(const Op& op, const OutputRun& of, V* values, T* to, const Again& again) const {
    const int64_t n = of.values();
    if (p > 1) take_roots(values, n, again);
    for (int64_t i = 0; i < n; i += kLanes<V>) op.store(to + i, load_vector<Vector<V>>(values + i));
  }
  template <class S, class Again>
  V one(S sum, double, const Again& again) const {
    if (p == 1 || is_nan(sum)) return V(sum);
    if (lp_sum_is_safe<V>(sum)) return V(lp_root(sum, p));
    return sum == 0 && zeros.are_exact() ? V{0} : again(0);
  }

 private:
  static constexpr int64_t kBlock = 256;  // sums whose roots are taken at once

  /// Whether lp_sum_is_safe() of all sums but NaNs, which are their own roots, with `zero` in the
  /// place of those that are 0.
  [[gnu::noinline]] static bool are_safe(const V* values, int64_t n, V zero) {
    constexpr int64_t kStep = kLanes<V>;
    bool safe = true;
    if (n < kStep) {
      for (int64_t i = 0; i < n; ++i) safe &= lp_sum_is_safe<V>(values[i] == 0 ? zero : values[i]);
      return safe;
    }
    const auto sums = [&](int64_t i) {
      const auto v = load_vector<Vector<V>>(values + i);
      return v == 0 ? all_lanes(zero) : v;
    };
    auto least = sums(0), most = least;
    for (int64_t i = kStep; i < n + kStep; i += kStep) {
      const auto v = sums(std::min(i, n - kStep));
      least = v < least ? v : least;
      most = v > most ? v : most;
    }
    for (int64_t i = 0; i < kStep; ++i)
      safe &= lp_sum_is_safe<V>(V(least[i])) & lp_sum_is_safe<V>(V(most[i]));
    return safe;
  }

  /// Whether no sum needs its taps again.
  bool are_done(const V* sums, int64_t n) const {
    return are_safe(sums, n, 0) || (zeros.are_exact() && are_safe(sums, n, 1));
  }

  [[gnu::noinline]] static void take_nth_roots(V* values, int64_t n, uint32_t p) {
    for (int64_t i = 0; i < n; ++i) values[i] = nth_root<V>(double(values[i]), p);
  }

  template <class Again>
  void take_roots(V* values, int64_t n, const Again& again) const {
    const auto each = [&](int64_t i, V sum) {
      return one(sum, 1, [&](int64_t) { return again(i); });
    };
    if (p == 2) {
      if (are_done(values, n))
        for (int64_t i = 0; i < n; ++i) values[i] = std::sqrt(values[i]);
      else
        for (int64_t i = 0; i < n; ++i) values[i] = each(i, values[i]);
      return;
    }
    V sums[kBlock];
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t m = std::min(kBlock, n - first);
      std::copy_n(values + first, m, sums);
      take_nth_roots(values + first, m, p);
      if (are_done(sums, m)) continue;
      for (int64_t i = 0; i < m; ++i)
        if (!lp_sum_is_safe<V>(sums[i])) values[first + i] = each(first + i, sums[i]);
    }
  }
};

template <class T, class Each>
void each_tap(const Box& box, const T* x, const Each& each) {
  Pace pace;
  for (int64_t a = 0; a < box.count[0]; ++a)
    for (int64_t b = 0; b < box.count[1]; ++b)
      for (int64_t c = 0; c < box.count[2]; ++c) {
        each(double(load_as_acc(x[box.x_at(a, b, c)])));
        pace.add(1);
      }
}

/// The Lp norm of one window in the scaled form; x is the first element of its plane. Other kinds
/// of pooling never ask for it.
template <class V, class T>
V scaled_norm(const PoolPlan& p, const Box& box, const T* x) {
  if constexpr (!std::is_same_v<V, Acc<T>> || !kIsFloat<T>) {
    return V{};
  } else {
    LpScaled norm{p.p};
    each_tap(box, x, [&](double v) { norm.see(v); });
    if (norm.prepare()) each_tap(box, x, [&](double v) { norm.add(v); });
    return V(norm.result());
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
