// Neighbouring planes side by side in memory: one thread computes one place of kN planes.
#pragma once

#include "cuda/grid.cuh"
#include "cuda/pool_one.cuh"
#include "cuda/pool_pairs.cuh"

namespace cudml::cuda {

/// Maxima of sixteen-bit floats, which are not taken apart.
template <int kN, class T>
__device__ __forceinline__ void max_lanes(const PoolWindow<int32_t>& w, const T* x, T (&row)[kN]) {
  const T lowest = store_as<T>(max_of_none<T>());
  Pairs<kN> best;
#pragma unroll
  for (uint32_t& word : best.word) word = pair_of(lowest, lowest);
  each_tap<4>(w, [&](int32_t at, int32_t) {
    const auto taps = std::bit_cast<Pairs<kN>>(load_vector<kN>(x + at));
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) best.word[k] = larger_pair<T>(best.word[k], taps.word[k]);
  });
#pragma unroll
  for (int j = 0; j < kN; ++j) row[j] = half_of<T>(best.word[j / 2], j % 2);
}

template <Pooled kWhat, int kN, class T>
__device__ __forceinline__ void pooled_lanes(const PoolShape<int32_t>& s,
                                             const PoolWindow<int32_t>& w, const T* x,
                                             T (&row)[kN]) {
  using V = Acc<T>;
  V joined[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) joined[j] = kWhat == Pooled::max ? max_of_none<T>() : V{0};
  each_tap<4>(w, [&](int32_t at, int32_t) {
    const Vector<T, kN> taps = load_vector<kN>(x + at);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const V v = load_as_acc(taps.v[j]);
      if constexpr (kWhat == Pooled::max)
        joined[j] = max_of(joined[j], v);
      else
        joined[j] += kWhat == Pooled::lp ? term_of(v, s.p) : v;
    }
  });
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    if constexpr (kWhat == Pooled::average)
      joined[j] = average_of(joined[j], divisor_of<V>(w, s.include_padding));
    if constexpr (kWhat == Pooled::lp)
      joined[j] = finish_lp<V>(joined[j], s.p, [&] { return scaled_norm<T>(w, x + j, s.p); });
    row[j] = store_as<T>(joined[j]);
  }
}

/// Values and indices of the winners; sixteen-bit NaN are copied, since conversion changes bits.
template <int kN, class T>
__device__ __forceinline__ void winner_lanes(const PoolWindow<int32_t>& w, const T* x, T (&row)[kN],
                                             int32_t (&flat)[kN]) {
  Acc<T> best[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    best[j] = max_of_none<T>();
    flat[j] = w.flat;
  }
  each_tap<4>(w, [&](int32_t at, int32_t index) {
    const Vector<T, kN> taps = load_vector<kN>(x + at);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const Acc<T> v = load_as_acc(taps.v[j]);
      const bool take = wins(best[j], v);
      best[j] = take ? v : best[j];
      flat[j] = take ? index : flat[j];
    }
  });
  bool any_nan = false;
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    row[j] = store_as<T>(best[j]);
    any_nan |= is_nan(best[j]);
  }
  if (!kIsHalf<T> || !any_nan) return;
  each_tap<1>(w, [&](int32_t at, int32_t index) {
    const Vector<T, kN> taps = load_vector<kN>(x + at);
#pragma unroll
    for (int j = 0; j < kN; ++j)
      if (index == flat[j]) row[j] = taps.v[j];
  });
}

/// `order` counts vectors of kN planes. `index_vectors`: indices are packed and aligned like them.
template <class T, int kN, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 3)
    pool_lanes_kernel(PoolShape<int32_t> s, OutputOrder order, uint32_t vectors, const T* x, T* y,
                      void* indices, bool index_vectors) {
  for (uint32_t i = loop_begin<kPoolThreads>(); i < vectors; i += loop_step<kPoolThreads>()) {
    PoolPlaceOf<int32_t> place = order.place(i);
    place.batch[1] *= kN;
    const PoolWindow<int32_t> w = window_at(s, place);
    T row[kN];
    if constexpr (kWhat == Pooled::winner) {
      int32_t flat[kN];
      winner_lanes(w, x, row, flat);
#pragma unroll
      for (int j = 0; j < kN; ++j) flat[j] = w.is_empty() ? -1 : flat[j] + j * s.flat.batch[1];
      store_indices(s, indices, place.offset(s.indices), s.indices.batch[1], flat, kN,
                    index_vectors);
    } else if constexpr (kWhat == Pooled::max && kIsHalf<T>) {
      max_lanes(w, x, row);
    } else {
      pooled_lanes<kWhat>(s, w, x, row);
    }
    if (y) store_row(y + place.offset(s.y), 1, row, kN, true);
  }
}

}  // namespace cudml::cuda
