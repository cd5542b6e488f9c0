// Row loops of pooling: joins rows of taps, columns of a row, and runs of taps into one value.
#pragma once

#include <cstdint>

#include "cpu/pool_keys.h"
#include "cpu/pool_pieces.h"
#include "cpu/rows.h"
#include "math/reducer.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// A reduction tells in what type V rows of T are joined, how they get into it (terms) and out of
// it, how two values join, what no value is, and in what type longer reductions are kept.

template <class T>
struct PlainRows {
  using V = Acc<T>;
  /// Rows of x are used where they lie. Wide integers do without: it would double their code.
  static constexpr bool kInPlace = std::is_floating_point_v<T> || sizeof(T) == 1;
  void load(V* room, const T* src, int64_t stride, int64_t n) const {
    load_row<T>(room, src, stride, n);
  }
  void store(T* dst, int64_t stride, const V* row, int64_t n) const {
    store_row<T>(dst, stride, row, n);
  }
};

template <class T>
struct MaxOf : PlainRows<T> {
  using V = T;
  using Total = T;
  static V none() { return max_of_none<T>(); }
  static V join(V a, V b) { return max_of(a, b); }
};

/// Sixteen-bit floats are compared as keys: twice the lanes, and nothing to convert.
template <class T>
struct MaxOfHalves {
  using V = int16_t;
  using Total = V;
  static constexpr bool kInPlace = false;
  static constexpr V kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
  static V none() { return fold(V(kInfinity | std::numeric_limits<V>::min())); }
  static V join(V a, V b) { return a > b ? a : b; }
  void load(V* __restrict room, const T* __restrict src, int64_t stride, int64_t n) const {
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) room[i] = float_order(V(src[i].bits), kInfinity);
    } else {
      for (int64_t i = 0; i < n; ++i) room[i] = float_order(V(src[i * stride].bits), kInfinity);
    }
  }
  void store(T* __restrict dst, int64_t stride, const V* __restrict row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) dst[i * stride].bits = uint16_t(fold(row[i]));
  }
};
template <>
struct MaxOf<Float16> : MaxOfHalves<Float16> {};
template <>
struct MaxOf<BFloat16> : MaxOfHalves<BFloat16> {};

template <class T>
struct SumOf : PlainRows<T> {
  using V = Acc<T>;
  using Total = double;
  static V none() { return V{0}; }
  template <class S>
  static S join(S a, S b) {
    return a + b;
  }
};

/// Sums |x|^p.
template <class T>
struct PowerSumOf : SumOf<T> {
  using V = Acc<T>;
  static constexpr bool kInPlace = false;
  uint32_t p = 2;

  void load(V* room, const T* src, int64_t stride, int64_t n) const {
    load_row<T>(room, src, stride, n);
    if (p == 2) {
      for (int64_t i = 0; i < n; ++i) room[i] *= room[i];
      return;
    }
    for (int64_t i = 0; i < n; ++i) room[i] = std::fabs(room[i]);
    if (p == 1) return;
    for (int64_t i = 0; i < n; i += kTile) raise(room + i, n - i < kTile ? n - i : kTile);
  }

 private:
  static constexpr int64_t kTile = 64;

  /// integer_power for a short row, bit by bit of p for the whole row.
  void raise(V* row, int64_t n) const {
    V base[kTile];
    for (int64_t i = 0; i < n; ++i) base[i] = row[i];
    for (int64_t i = 0; i < n; ++i) row[i] = (p & 1) ? base[i] : V{1};
    for (uint32_t bits = p >> 1; bits != 0; bits >>= 1) {
      for (int64_t i = 0; i < n; ++i) base[i] *= base[i];
      if (!(bits & 1)) continue;
      for (int64_t i = 0; i < n; ++i) row[i] *= base[i];
    }
  }
};

/// The terms of n elements from src on: src itself where it will do, else written to `room`.
template <class T, class Op>
const typename Op::V* terms(const Op& op, const T* src, int64_t stride, int64_t n,
                            typename Op::V* room) {
  if constexpr (Op::kInPlace) {
    if (stride == 1) return src;
  }
  op.load(room, src, stride, n);
  return room;
}

/// Room for join_rows: the joined line and one converted row.
template <class V>
struct Lines {
  alignas(64) V line[kLine];
  alignas(64) V row[kLine];
};

/// First elements of the taps [f, f + n) of a box, 1 <= n <= kChain.
template <class T>
struct RowList {
  const T* at[kChain];  // n of them are set

  RowList(const T* base, const Box& box, int64_t f, int64_t n) {
    TapCursor cursor(box, f);
    int64_t r = 0;
    do {
      at[r] = base + cursor.offset();
      cursor.advance(1);
    } while (++r < n);
  }
};

/// Joins count >= 1 rows of n <= kLine elements. Returns the joined row: in lines.line, or x itself
/// where there is one row and nothing to convert.
template <class T, class Op>
const typename Op::V* join_rows(const Op& op, const T* const* rows, int64_t count, int64_t stride,
                                int64_t n, Lines<typename Op::V>& lines) {
  using V = typename Op::V;
  V* __restrict line = lines.line;
  if (!Op::kInPlace || stride != 1 || count == 1) {
    const V* first = terms<T>(op, rows[0], stride, n, lines.line);
    for (int64_t r = 1; r < count; ++r) {
      const V* row = terms<T>(op, rows[r], stride, n, lines.row);
      for (int64_t i = 0; i < n; ++i) line[i] = Op::join(line[i], row[i]);
    }
    return first;
  }
  if constexpr (Op::kInPlace) {
    const V *a = rows[0], *b = rows[1];
    int64_t r = 3;
    if (count == 2) {
      for (int64_t i = 0; i < n; ++i) line[i] = Op::join(a[i], b[i]);
      return lines.line;
    }
    const V* c = rows[2];
    for (int64_t i = 0; i < n; ++i) line[i] = Op::join(Op::join(a[i], b[i]), c[i]);
    for (; r + 2 <= count; r += 2) {
      a = rows[r];
      b = rows[r + 1];
      for (int64_t i = 0; i < n; ++i) line[i] = Op::join(Op::join(line[i], a[i]), b[i]);
    }
    for (; r < count; ++r) {
      a = rows[r];
      for (int64_t i = 0; i < n; ++i) line[i] = Op::join(line[i], a[i]);
    }
  }
  return lines.line;
}

/// out[i] = join of line[i * kStride + k] for k in [0, kWindow).
template <int kWindow, int kStride, class Op, class V>
void join_fixed(const V* __restrict line, V* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    V v = line[i * kStride];
    for (int k = 1; k < kWindow; ++k) v = Op::join(v, line[i * kStride + k]);
    out[i] = v;
  }
}

template <class Op, class V>
void join_shifted(const V* __restrict line, int64_t stride, V* __restrict out, int64_t n) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = Op::join(out[i], line[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = Op::join(out[i], line[stride * i]);
  }
}

/// out[i] = join of line[i * stride + k * dilation] for k in [0, window): whole windows only.
template <class Op, class V>
void join_columns(const V* line, int64_t window, int64_t stride, int64_t dilation, V* out,
                  int64_t n) {
  if constexpr (std::is_floating_point_v<V> ||
                sizeof(V) <= 2) {  // images; others take the long way
    if (dilation == 1 && stride == 1 && window == 3) return join_fixed<3, 1, Op>(line, out, n);
    if (dilation == 1 && stride == 2 && window == 3) return join_fixed<3, 2, Op>(line, out, n);
    if (dilation == 1 && stride == 1 && window == 2) return join_fixed<2, 1, Op>(line, out, n);
    if (dilation == 1 && stride == 2 && window == 2) return join_fixed<2, 2, Op>(line, out, n);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = line[i * stride];
  for (int64_t k = 1; k < window; ++k) join_shifted<Op>(line + k * dilation, stride, out, n);
}

/// Joins n >= kRun neighbours: kRun running values, then a tree, so that no chain is long.
template <int64_t kRun, class Op, class V>
V join_lanes(const V* __restrict run, int64_t n) {
  V lane[kRun];
  int64_t i = 0;
  for (; i < kRun; ++i) lane[i] = run[i];
  for (; i + kRun <= n; i += kRun)
    for (int64_t j = 0; j < kRun; ++j) lane[j] = Op::join(lane[j], run[i + j]);
  for (int64_t j = 0; i < n; ++i, ++j) lane[j] = Op::join(lane[j], run[i]);
  for (int64_t half = kRun / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) lane[j] = Op::join(lane[j], lane[j + half]);
  return lane[0];
}

/// Joins n >= 1 neighbours.
template <class Op, class V>
V join_run(const V* run, int64_t n) {
  if (n >= 256) return join_lanes<64, Op>(run, n);
  if (n >= 16) return join_lanes<16, Op>(run, n);
  V v = run[0];
  for (int64_t i = 1; i < n; ++i) v = Op::join(v, run[i]);
  return v;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
