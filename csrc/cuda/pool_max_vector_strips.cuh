// Maxima of 3x3, one or two apart, where rows are whole vectors: a thread walks down the columns of
// one. Columns are joined first, then what lies side by side.
#pragma once

#include "cuda/pool_beside.cuh"
#include "cuda/pool_pairs.cuh"
#include "cuda/pool_walk.cuh"
#include "math/reducer.h"

namespace cudml::cuda {

/// What one register holds of a row: two sixteen-bit floats, or a float.
template <class T>
using MaxWord = std::conditional_t<kIsHalf<T>, uint32_t, float>;

template <class T>
__device__ __forceinline__ MaxWord<T> larger_word(MaxWord<T> a, MaxWord<T> b) {
  if constexpr (kIsHalf<T>)
    return larger_pair<T>(a, b);
  else
    return max_of(a, b);
}

/// Maxima down the columns under a vector's windows, which are kS apart and begin kLeft columns
/// before it.
template <int kS, int kLeft, class T>
struct ColumnMaxima {
  static constexpr int kN = kVector<T>, kOut = kN / kS;  // columns and windows
  using Row = BesideVector<kN, kLeft, kS == 1 ? 1 : 1 - kLeft, T>;
  using Word = MaxWord<T>;
  static constexpr int kEach = int(sizeof(Word) / sizeof(T));
  struct Words {
    Word v[kN / kEach];
  };
  Words own;
  Word beside[2 / kEach];  // before and behind

  __device__ __forceinline__ explicit ColumnMaxima(const Row& row)
      : own(std::bit_cast<Words>(row.own)) {
    if constexpr (kIsHalf<T>) {
      beside[0] = pair_of(row.left, row.right);
    } else {
      beside[0] = row.left;
      beside[1] = row.right;
    }
  }

  __device__ __forceinline__ ColumnMaxima& join(const ColumnMaxima& other) {
#pragma unroll
    for (int i = 0; i < kN / kEach; ++i) own.v[i] = larger_word<T>(own.v[i], other.own.v[i]);
#pragma unroll
    for (int i = 0; i < 2 / kEach; ++i) beside[i] = larger_word<T>(beside[i], other.beside[i]);
    return *this;
  }

  /// The outputs of the vector's windows.
  __device__ __forceinline__ Vector<T, kOut> windows() const {
    struct {
      Word v[kOut / kEach];
    } best;
#pragma unroll
    for (int i = 0; i < kOut / kEach; ++i)
      best.v[i] = larger_word<T>(larger_word<T>(taps(i, 0), taps(i, 1)), taps(i, 2));
    return std::bit_cast<Vector<T, kOut>>(best);
  }

 private:
  __device__ __forceinline__ T column(int c) const {
    const bool is_beside = c < 0 || c >= kN;
    const int at = !is_beside ? c : c < 0 ? 0 : 1;
    const Word word = is_beside ? beside[at / kEach] : own.v[at / kEach];
    if constexpr (kIsHalf<T>)
      return half_of<T>(word, at % kEach);
    else
      return word;
  }
  /// Tap `k` of the windows that word `i` of the outputs holds.
  __device__ __forceinline__ Word taps(int i, int k) const {
    const int c = i * kEach * kS - kLeft + k;
    if constexpr (kIsHalf<T>)
      return pair_of(column(c), column(c + kS));
    else
      return column(c);
  }
};

/// `rows` outputs from row `first` on, of the windows of a vector of columns.
template <int kS, int kLeft, class T>
__device__ __forceinline__ void max_vector(const PoolShape<int32_t>& s,
                                           const PoolPlaceOf<int32_t>& place, int32_t first,
                                           int32_t rows, const T* x, T* y) {
  using Maxima = ColumnMaxima<kS, kLeft, T>;
  constexpr int kBatch = 4 * kS;  // rows whose loads are on their way together
  constexpr int kAbove = 3 - kS;  // rows that windows share with those above
  const int32_t column = place.space[2] * Maxima::kN;
  const bool has_left = column > 0, has_right = column + Maxima::kN < s.axis[2].in;
  int32_t row = first * kS - s.axis[1].start;
  // Rows before the plane may be further away than 32 bits hold.
  const T* from =
      x + place.plane(s.x) + place.space[0] * s.x.space[0] + int64_t{row} * s.x.space[1] + column;
  T* to = y + place.plane(s.y) + place.space[0] * s.y.space[0] + first * s.y.space[1] +
          place.space[2] * Maxima::kOut;
  typename Maxima::Row loaded[kAbove + kBatch];
  const auto load = [&](typename Maxima::Row& into) {
    into.fill(store_as<T>(max_of_none<T>()));
    into.load(from, uint32_t(row) < uint32_t(s.axis[1].in), has_left, has_right);
    ++row;
    from += s.x.space[1];
  };
#pragma unroll
  for (int i = 0; i < kAbove; ++i) load(loaded[i]);
  const int32_t end = min(first + rows, s.axis[1].out);
#pragma unroll 1
  for (int32_t o = first; o < end;) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) load(loaded[kAbove + i]);
#pragma unroll
    for (int i = 0; i < kBatch; i += kS, ++o) {
      // Windows one apart share two rows with the next, whose maxima are found once.
      const int shared = i | 1;
      Maxima best(loaded[shared]);
      best.join(Maxima(loaded[shared + 1])).join(Maxima(loaded[i == shared ? i + 2 : i]));
      if (o < end) store_vector(to, best.windows());
      to += s.y.space[1];
    }
#pragma unroll
    for (int i = 0; i < kAbove; ++i) loaded[i] = loaded[kBatch + i];
  }
}

/// `order` counts vectors of columns, and strips of `rows` outputs.
template <int kS, class T>
__device__ __forceinline__ void max_strips(const PoolShape<int32_t>& s, const OutputOrder& order,
                                           uint32_t strips, int32_t rows, const T* x, T* y) {
  const uint32_t step = loop_step<kPoolThreads>();
  for (uint32_t i = loop_begin<kPoolThreads>(); i < strips; i += step) {
    const PoolPlaceOf<int32_t> place = order.place(i);
    const int32_t first = place.space[1] * rows;
    if (kS == 1 || s.axis[2].start == 1)
      max_vector<kS, 1>(s, place, first, rows, x, y);
    else
      max_vector<kS, kS == 1 ? 1 : 0>(s, place, first, rows, x, y);
  }
}

}  // namespace cudml::cuda
