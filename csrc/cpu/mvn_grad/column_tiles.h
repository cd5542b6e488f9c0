// Some vectors of columns, over some rows: sums and results with what belongs to each column in
// registers.
#pragma once

#include "cpu/mvn_grad/plane_sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Columns of a tile, and rows of a strip: of so many a column's sums stay float. Two tiles that
/// are next to each other are taken at once where registers suffice: memory is read in longer
/// stretches. Long vectors leave much of a tile empty where columns are few: there a tile may have
/// a single one.
constexpr int kTileVectors = 2, kMostTileVectors = kHasLineVectors ? 4 : kTileVectors;
constexpr int64_t kTileColumns = kTileVectors * kFloats, kStripRows = 64;
/// What belongs to each of some columns: z = ((x - pivot) - delta) * factor, v = scale * z + bias,
/// dx = factor * (h * scale + shift + z * slope).
template <int64_t kCount, class A = float>
struct ColumnConstants {
  static constexpr int64_t kLength = kCount + kTileColumns;
  alignas(64) A pivot[kLength], delta[kLength], factor[kLength], scale[kLength], bias[kLength],
      shift[kLength], slope[kLength];
};

/// The same of one tile.
struct TileConstants {
  const float *pivot, *delta, *factor, *scale, *bias, *shift, *slope;

  template <int64_t kCount>
  TileConstants(const ColumnConstants<kCount>& c, int64_t first)
      : pivot(c.pivot + first),
        delta(c.delta + first),
        factor(c.factor + first),
        scale(c.scale + first),
        bias(c.bias + first),
        shift(c.shift + first),
        slope(c.slope + first) {}
};

/// A tile's columns in each of some rows, and how far below, in elements, lines are read ahead.
template <class T>
struct TileRows {
  T* base = nullptr;
  const int64_t* at = nullptr;
  int64_t ahead = 0;

  T* operator[](int64_t r) const { return base + at[r]; }
  TileRows tile(int64_t column) const { return {base + column, at, ahead}; }
  template <int kVectors = kTileVectors>
  [[gnu::always_inline]] void fetch(const T* row) const {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kVectors * kFloats; i += 64 / int64_t(sizeof(T)))
      __builtin_prefetch(row + ahead + i, 0, kHasLineVectors ? 2 : 3);
  }
};

/// Of rows that are packed in a buffer, and of none.
struct BufferRows {
  int64_t at[kStripRows], none[kStripRows] = {};
  constexpr BufferRows() {
    for (int64_t r = 0; r < kStripRows; ++r) at[r] = r * kTileColumns;
  }
};
inline constexpr BufferRows kBufferRows;

/// The normalizers of a tile's columns, or of two tiles'.
template <int kVectors = kTileVectors>
struct TileNormalizer {
  Floats pivot[kVectors], delta[kVectors], factor[kVectors];

  [[gnu::always_inline]] explicit TileNormalizer(const TileConstants& c) {
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      pivot[k] = load_wide(c.pivot + k * kFloats, Whole{});
      delta[k] = load_wide(c.delta + k * kFloats, Whole{});
      factor[k] = load_wide(c.factor + k * kFloats, Whole{});
    }
  }
  template <class T>
  [[gnu::always_inline]] Floats operator()(const T* x, int k) const {
    return ((load_wide(x + k * kFloats, Whole{}) - pivot[k]) - delta[k]) * factor[k];
  }
};

/// How the gradient passes in a tile's columns: h of the gradient and z.
template <class Pass, int kVectors = kTileVectors>
struct TilePass {
  Pass of[kVectors];

  [[gnu::always_inline]] TilePass(const Pass& pass, const TileConstants& c)
      : TilePass(pass, c, std::make_integer_sequence<int, kVectors>{}) {}

  /// Turns gradients of rows' columns into h.
  template <int kCount>
  [[gnu::always_inline]] void operator()(Floats (&grad)[kCount], const Floats (&z)[kCount]) const {
    if constexpr (std::is_same_v<Pass, SwishPass>) {
      Floats slope[kCount];
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) slope[i] = of[i % kVectors].product(z[i]);
      QuickSwishSlope{}(slope);
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) grad[i] *= slope[i];
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) grad[i] = of[i % kVectors](grad[i], z[i]);
    }
  }

 private:
  template <int... kVector>
  [[gnu::always_inline]] TilePass(const Pass& pass, const TileConstants& c,
                                  std::integer_sequence<int, kVector...>)
      : of{(static_cast<void>(kVector), pass)...} {
    if constexpr (!std::is_same_v<Pass, Through>)
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        of[k].factor = load_wide(c.scale + k * kFloats, Whole{});
        of[k].shift = load_wide(c.bias + k * kFloats, Whole{});
      }
  }
};

/// Rows of a tile that are worked on together: a processor has no room for more than two long
/// chains of operations in order, but for parts of four that take turns. Lines of rows that follow
/// each other are asked for at once.
template <class Pass, int kVectors>
constexpr int kRowsAtOnce = std::is_same_v<Pass, SwishPass> ? 4 / std::max(kVectors, 2)
                            : std::is_same_v<Pass, Through> && kHasLineVectors ? 4 / kVectors
                                                                               : 1;

/// z and h of some rows.
template <int kRows, int kVectors>
struct TileTerms {
  static constexpr int kCount = kRows * kVectors;
  Floats z[kCount], h[kCount];

  template <class T, class G, class Pass>
  [[gnu::always_inline]] TileTerms(TileRows<const T> x, TileRows<const G> grad, int64_t r,
                                   const TileNormalizer<kVectors>& normal,
                                   const TilePass<Pass, kVectors>& pass) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const T* const row = x[r + i];
      const G* const g = grad[r + i];
      x.template fetch<kVectors>(row);
      grad.template fetch<kVectors>(g);
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        z[i * kVectors + k] = normal(row, k);
        h[i * kVectors + k] = load_wide(g + k * kFloats, Whole{});
      }
    }
    pass(h, z);
  }
};

/// Calls fn.operator()<kRows>(r) for n rows, kRows of them from number r on.
template <int kMost, class Fn>
[[gnu::always_inline]] inline void for_rows(int64_t n, const Fn& fn) {
  int64_t r = 0;
  for (; r + kMost <= n; r += kMost) fn.template operator()<kMost>(r);
  if constexpr (kMost > 1)
    for (; r < n; ++r) fn.template operator()<1>(r);
}

/// Calls fn(r) for n rows of a tile whose gradient passes as it is.
template <int kVectors, class Fn>
[[gnu::always_inline]] inline void for_each_row(int64_t n, const Fn& fn) {
  for_rows<kRowsAtOnce<Through, kVectors>>(
      n, [&]<int kRows>(int64_t r) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) fn(r + i);
      });
}

/// Sums for each column of a tile: of d and d * d, or of h and of h * d or h * z.
struct TileSums {
  alignas(64) double first[kTileColumns], second[kTileColumns];
  alignas(64) float strip_first[kTileColumns], strip_second[kTileColumns];  // of a strip, so far

  /// Makes what a strip has come to part of the doubles.
  void settle() {
    for (int64_t c = 0; c < kTileColumns; c += kFloats) {
      settle(first + c, strip_first + c);
      settle(second + c, strip_second + c);
    }
  }

 private:
  [[gnu::always_inline]] static void settle(double* to, float* from) {
    HalfFloats half[2];
    std::memcpy(half, from, sizeof half);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k)
      store_vector(to + k * kDoubles,
                   load_vector<Doubles>(to + k * kDoubles) + as_doubles(half[k]));
    store_vector(from, Floats{});
  }
};

/// A strip's sums while rows are added to them: of a tile, or of two that follow each other.
template <int kVectors = kTileVectors>
struct StripSums {
  Floats first[kVectors], second[kVectors];

  [[gnu::always_inline]] explicit StripSums(const TileSums& sums) {
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const TileSums& tile = (&sums)[k / kTileVectors];
      first[k] = load_vector<Floats>(tile.strip_first + k % kTileVectors * kFloats);
      second[k] = load_vector<Floats>(tile.strip_second + k % kTileVectors * kFloats);
    }
  }
  [[gnu::always_inline]] void put(TileSums& sums) const {
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      TileSums& tile = (&sums)[k / kTileVectors];
      store_vector(tile.strip_first + k % kTileVectors * kFloats, first[k]);
      store_vector(tile.strip_second + k % kTileVectors * kFloats, second[k]);
    }
  }
  /// Adds a to the first sums of vector k, and a * b to the second.
  [[gnu::always_inline]] void add(int k, Floats a, Floats b) {
    first[k] += a;
    second[k] = fused(a, b, second[k]);
  }
};

/// Adds d = x - pivot and its square, over n rows.
template <int kVectors, class T>
[[gnu::always_inline]] inline void add_deviations(TileRows<const T> x, int64_t n,
                                                  const TileConstants& c, TileSums& sums) {
  const TileNormalizer<kVectors> normal(c);
  StripSums<kVectors> strip(sums);
  for_each_row<kVectors>(n, [&](int64_t r) __attribute__((always_inline)) {
    const T* const row = x[r];
    x.template fetch<kVectors>(row);
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const Floats d = load_wide(row + k * kFloats, Whole{}) - normal.pivot[k];
      strip.add(k, d, d);
    }
  });
  strip.put(sums);
}

/// The same, and h and h * d of a gradient that passes as it is.
template <int kVectors, class T>
[[gnu::always_inline]] inline void add_all(TileRows<const T> x, TileRows<const T> grad, int64_t n,
                                           const TileConstants& c, TileSums& sums,
                                           TileSums& products) {
  const TileNormalizer<kVectors> normal(c);
  StripSums<kVectors> strip(sums), passed(products);
  for_each_row<kVectors>(n, [&](int64_t r) __attribute__((always_inline)) {
    const T *const row = x[r], *const g = grad[r];
    x.template fetch<kVectors>(row);
    grad.template fetch<kVectors>(g);
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const Floats d = load_wide(row + k * kFloats, Whole{}) - normal.pivot[k];
      strip.add(k, d, d);
      passed.add(k, load_wide(g + k * kFloats, Whole{}), d);
    }
  });
  strip.put(sums);
  passed.put(products);
}

/// Adds h and h * z; h is kept where there is a place for it, of floats.
template <int kVectors, class T, class G, class Pass, class D>
[[gnu::always_inline]] inline void add_products(TileRows<const T> x, TileRows<const G> grad,
                                                int64_t n, const TileConstants& c,
                                                const Pass& passing, TileSums& sums,
                                                TileRows<D> kept) {
  const TileNormalizer<kVectors> normal(c);
  const TilePass<Pass, kVectors> pass(passing, c);
  StripSums<kVectors> strip(sums);
  for_rows<kRowsAtOnce<Pass, kVectors>>(
      n, [&]<int kRows>(int64_t r) __attribute__((always_inline)) {
        const TileTerms<kRows, kVectors> terms(x, grad, r, normal, pass);
#pragma GCC unroll 4
        for (int i = 0; i < terms.kCount; ++i) strip.add(i % kVectors, terms.h[i], terms.z[i]);
        if constexpr (std::is_same_v<D, float>)
          if (kept.base)
#pragma GCC unroll 4
            for (int i = 0; i < terms.kCount; ++i)
              store_vector(kept[r + i / kVectors] + i % kVectors * kFloats, terms.h[i]);
      });
  strip.put(sums);
}

/// One vector; floats alone fill a line.
template <class D>
[[gnu::always_inline]] inline void put_vector(D* dx, Floats v, bool is_streamed) {
  if constexpr (std::is_same_v<D, float>)
    if (is_streamed) return stream_narrow(dx, v);
  store_narrow(dx, v, Whole{});
}

/// How dx is written.
struct TileWrite {
  bool has_product;  // dx takes z * mean_wz off
  bool is_streamed;
};

template <int kVectors, class T, class G, class D, class Pass>
[[gnu::always_inline]] inline void write_tile(TileRows<const T> x, TileRows<const G> grad,
                                              TileRows<D> dx, int64_t n, const TileConstants& c,
                                              const Pass& passing, const TileWrite& how) {
  const TileNormalizer<kVectors> normal(c);
  const TilePass<Pass, kVectors> pass(passing, c);
  Floats scale[kVectors], shift[kVectors], slope[kVectors];
#pragma GCC unroll 4
  for (int k = 0; k < kVectors; ++k) {
    scale[k] = load_wide(c.scale + k * kFloats, Whole{});
    shift[k] = load_wide(c.shift + k * kFloats, Whole{});
    slope[k] = load_wide(c.slope + k * kFloats, Whole{});
  }
  const bool has_product = how.has_product, is_streamed = how.is_streamed,
             converts = converts_pairs();
  for_rows<kRowsAtOnce<Pass, kVectors>>(n, [&]<int kRows>(
                                               int64_t r) __attribute__((always_inline)) {
    const TileTerms<kRows, kVectors> terms(x, grad, r, normal, pass);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      Floats result[kVectors];
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        const Floats z = terms.z[i * kVectors + k],
                     d = fused(terms.h[i * kVectors + k], scale[k], shift[k]);
        result[k] = normal.factor[k] * (has_product ? fused(z, slope[k], d) : d);
      }
      if constexpr (kVectors == 1) {
        put_vector(dx[r + i], result[0], is_streamed);
        continue;
      }
#pragma GCC unroll 2
      for (int k = 0; k < kVectors; k += 2)
        put_pair(dx[r + i] + k * kFloats, result[k], result[k + 1], is_streamed, false, converts);
    }
  });
}

/// Writes v and the gradient of n rows as packed floats.
template <class T, class G>
[[gnu::noinline]] void widen_tile(TileRows<const T> x, TileRows<const G> grad, int64_t n,
                                  const TileConstants& c, float* v, float* wide) {
  const TileNormalizer normal(c);
  const TilePass<SwishPass> pass(SwishPass({}, 0, 0), c);
  for (int64_t r = 0; r < n; ++r)
#pragma GCC unroll 2
    for (int k = 0; k < kTileVectors; ++k) {
      const int64_t i = r * kTileColumns + k * kFloats;
      store_vector(v + i, fused(pass.of[k].factor, normal(x[r], k), pass.of[k].shift));
      store_vector(wide + i, load_wide(grad[r] + k * kFloats, Whole{}));
    }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
