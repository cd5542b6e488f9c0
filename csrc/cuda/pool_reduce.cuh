// Large windows: a warp or a block computes one output, its threads taking turns at the taps; or
// eight warps compute 32 planes that lie side by side. Few huge windows are cut into pieces, which
// a second launch joins.
#pragma once

#include "cuda/pool_one.cuh"
#include "cuda/shared.cuh"

namespace cudml::cuda {

enum class ReducePhase { whole, pieces, finish };

struct ReduceLayout {
  uint32_t members = 32;  // threads that share one output
  bool lanes = false;     // neighbouring threads have neighbouring outputs
  uint32_t pieces = 1;    // of each window
  ReducePhase phase = ReducePhase::whole;

  /// Of a window, each in blocks of its own.
  __device__ __forceinline__ uint32_t pieces_at_once() const {
    return phase == ReducePhase::pieces ? pieces : 1;
  }
  __device__ __forceinline__ uint32_t slots() const { return kPoolThreads / members; }
  __device__ __forceinline__ uint32_t slot() const {
    return lanes ? threadIdx.x % slots() : threadIdx.x / members;
  }
  __device__ __forceinline__ uint32_t member() const {
    return lanes ? threadIdx.x / slots() : threadIdx.x % members;
  }
};

constexpr int32_t kNoTap = 0x7fffffff;

/// The best of some taps, and its number among the real taps of the window: kNoTap where none is
/// better than the lowest value.
template <class V>
struct BestTap {
  V value;
  int32_t tap;
};

struct JoinBest {
  template <class V>
  __device__ __forceinline__ BestTap<V> operator()(BestTap<V> a, BestTap<V> b) const {
    const bool swap = b.tap < a.tap;
    const BestTap<V> first = swap ? b : a, second = swap ? a : b;
    return wins(first.value, second.value) ? second : first;
  }
};
struct JoinSum {
  __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
};
struct JoinLargest {
  __device__ __forceinline__ double operator()(double a, double b) const { return max_of(a, b); }
};

__device__ __forceinline__ double shuffled(double value, int lanes) {
  return __shfl_xor_sync(0xffffffff, value, lanes);
}
template <class V>
__device__ __forceinline__ BestTap<V> shuffled(BestTap<V> best, int lanes) {
  // Shuffles move four or eight bytes.
  using Small = std::conditional_t<std::is_signed_v<V>, int, unsigned>;
  using Large = std::conditional_t<std::is_signed_v<V>, long long, unsigned long long>;
  using Integer = std::conditional_t<sizeof(V) == 8, Large, Small>;
  using Word = std::conditional_t<std::is_floating_point_v<V>, V, Integer>;
  return {V(__shfl_xor_sync(0xffffffff, Word(best.value), lanes)),
          __shfl_xor_sync(0xffffffff, best.tap, lanes)};
}

/// Joins the states of an output's members; all of them get the result. All threads of the block
/// must call it. The order of joining is fixed, and the same for each member.
template <class State, class Join>
__device__ __forceinline__ State join_members(const ReduceLayout& layout, State mine, Join join) {
  constexpr uint32_t kWarps = kPoolThreads / 32;
  using Room = State[kWarps][32];
  DEVICE_SHARED(room, Room);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (!layout.lanes) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) mine = join(mine, shuffled(mine, lanes));
    if (layout.members == 32) return mine;
  }
  // One warp's result is that of all its lanes, or one for each lane.
  room[warp][lane] = mine;
  __syncthreads();
  mine = room[0][lane];
#pragma unroll
  for (uint32_t i = 1; i < kWarps; ++i) mine = join(mine, room[i][lane]);
  __syncthreads();
  return mine;
}

/// The taps of one member: numbers first + member, first + member + members, … below last, in a
/// window of many rows.
template <bool kFast, class T, class Each, class Flush>
__device__ __forceinline__ void walk_rows(const PoolWindow<int32_t>& w, const T* x, int32_t t,
                                          int32_t last, int32_t step, const Each& each,
                                          const Flush& flush) {
  if (t >= last) return;
  const int32_t rows = w.count[1], columns = w.count[2];
  const int32_t line = t / columns, line_step = step / columns;
  int32_t c = t - line * columns, a = line / rows, b = line - a * rows;
  const int32_t c_step = step - line_step * columns, a_step = line_step / rows,
                b_step = line_step - a_step * rows;
  int32_t left = (last - t - 1) / step + 1;
  while (left > 0) {
    const int32_t run = left < 1024 ? left : 1024;
#pragma unroll(kFast ? 4 : 1)
    for (int32_t i = 0; i < run; ++i) {
      each(t + i * step, x[w.x + a * w.x_step[0] + b * w.x_step[1] + c * w.x_step[2]]);
      c += c_step;
      b += b_step;
      a += a_step;
      if (c >= columns) {
        c -= columns;
        ++b;
      }
      if (b >= rows) {
        b -= rows;
        ++a;
      }
    }
    flush();
    left -= run;
    if (left > 0) t += run * step;
  }
}

/// Turns of a member at vectors of taps from `first` on, which load(t) brings; kAbreast at a time.
template <int kAbreast, int32_t kN, class Load, class Each, class Flush>
__device__ __forceinline__ void walk_vectors(int32_t first, int32_t vectors, int32_t member,
                                             int32_t members, const Load& load, const Each& each,
                                             const Flush& flush) {
  int32_t i = member;
  while (i < vectors) {
    const int32_t left = (vectors - i - 1) / members + 1, run = left < 1024 / kN ? left : 1024 / kN;
#pragma unroll(kAbreast)
    for (int32_t k = 0; k < run; ++k) {
      const int32_t t = first + (i + k * members) * kN;
      const auto v = load(t);
#pragma unroll
      for (int32_t j = 0; j < kN; ++j) each(t + j, v.v[j]);
    }
    flush();
    if (left == run) break;
    i += run * members;
  }
}

/// The same where taps [first, last) lie side by side from `x` on: members take turns at as many as
/// a vector has, in one access where they are aligned. Who takes which does not ask for that.
template <class T, class Each, class Flush>
__device__ __forceinline__ void walk_packed(const T* x, int32_t first, int32_t last, int32_t member,
                                            int32_t members, const Each& each, const Flush& flush) {
  constexpr int32_t kN = kVector<T>;
  const int32_t vectors = (last - first) / kN, tail = first + vectors * kN;
  if (reinterpret_cast<uintptr_t>(x + first) % (kN * sizeof(T)) == 0) {
    const auto load = [&](int32_t t) { return load_vector<kN>(x + t); };
    walk_vectors<(kN < 16 ? 4 : 1), kN>(first, vectors, member, members, load, each, flush);
  } else {
    const auto load = [&](int32_t t) {
      Vector<T, kN> v;
#pragma unroll
      for (int32_t j = 0; j < kN; ++j) v.v[j] = x[t + j];
      return v;
    };
    walk_vectors<1, kN>(first, vectors, member, members, load, each, flush);
  }
  if (member < last - tail) each(tail + member, x[tail + member]);
  flush();
}

/// The window of one output, or a piece of it, as one member sees it.
template <class T>
struct ReduceTask {
  PoolPlaceOf<int32_t> place;
  PoolWindow<int32_t> window;
  const T* x;
  int32_t first, last, member, members;
  uint32_t output;
  bool is_packed;

  __device__ __forceinline__ ReduceTask(const PoolShape<int32_t>& s, const OutputOrder& order,
                                        const ReduceLayout& layout, uint32_t group, uint32_t piece,
                                        uint32_t outputs, const T* from)
      : x(from) {
    const uint32_t pieces = layout.pieces_at_once();
    output = group * layout.slots() + layout.slot();
    place = order.place(output < outputs ? output : 0);
    window = window_at(s, place);
    member = int32_t(layout.member());
    members = int32_t(layout.members);
    const auto taps = uint32_t(window.count[0] * window.count[1] * window.count[2]);
    const uint32_t share = pieces == 1 ? taps : (taps + pieces - 1) / pieces;
    const uint32_t begin = piece == 0 ? 0 : piece * share;
    const uint32_t end = taps < share || begin > taps - share ? taps : begin + share;
    first = int32_t(begin < taps ? begin : taps);
    last = output < outputs ? int32_t(end) : first;
    is_packed = !layout.lanes && window.count[0] * window.count[1] == 1 && window.x_step[2] == 1 &&
                window.count[2] > 0;
  }

  /// Calls each(number of the tap, value) for this member's taps, in visiting order, and flush() at
  /// the end and after at most 1040 of them. What is not kFast is short code.
  template <bool kFast, class Each, class Flush>
  __device__ __forceinline__ void walk(const Each& each, const Flush& flush) const {
    if (first >= last) return;
    if (kFast && is_packed)
      walk_packed(x + window.x, first, last, member, members, each, flush);
    else
      walk_rows<kFast>(window, x, first + member, last, members, each, flush);
  }
};

template <class T>
__device__ __forceinline__ BestTap<Acc<T>> best_of(const ReduceTask<T>& task) {
  BestTap<Acc<T>> best{max_of_none<T>(), kNoTap};
  task.template walk<true>(
      [&](int32_t tap, T value) {
        const Acc<T> v = load_as_acc(value);
        const bool take = wins(best.value, v);
        best.value = take ? v : best.value;
        best.tap = take ? tap : best.tap;
      },
      [] {});
  return best;
}

/// Sums term(tap) in runs of the type of computation, which are added in double.
template <bool kFast, class T, class Term>
__device__ __forceinline__ double sum_of(const ReduceTask<T>& task, const Term& term) {
  double total = 0;
  Acc<T> run = 0;
  task.template walk<kFast>([&](int32_t, T value) { run += term(load_as_acc(value)); },
                            [&] {
                              total += run;
                              run = 0;
                            });
  return total;
}

/// The norm of all outputs of the block in the scaled form of D-LP-6, each by its members.
template <class T>
__device__ __noinline__ Acc<T> scaled_norm_of_members(const ReduceTask<T>& task,
                                                      const ReduceLayout& layout, uint32_t p) {
  LpScaled norm{p};
  task.template walk<false>([&](int32_t, T value) { norm.see(double(load_as_acc(value))); }, [] {});
  norm.largest = join_members(layout, norm.largest, JoinLargest{});
  // No number takes part twice: infinities and zeros keep the sum at 0.
  if (norm.prepare())
    task.template walk<false>([&](int32_t, T value) { norm.add(double(load_as_acc(value))); },
                              [] {});
  norm.sum = join_members(layout, norm.sum, JoinSum{});
  return Acc<T>(norm.result());
}

template <Pooled kWhat, class T>
__device__ __forceinline__ auto state_of(const PoolShape<int32_t>& s, const ReduceTask<T>& task) {
  if constexpr (kWhat == Pooled::winner) {
    return best_of(task);
  } else if constexpr (kWhat == Pooled::lp) {
    if (s.p == 2) return sum_of<true>(task, [](Acc<T> v) { return lp_term(v, 2); });
    if (s.p == 1) return sum_of<true>(task, [](Acc<T> v) { return lp_term(v, 1); });
    return sum_of<false>(task, [p = s.p](Acc<T> v) { return any_term(v, p); });
  } else {
    return sum_of<true>(task, [](Acc<T> v) { return v; });
  }
}

template <class T>
__device__ __forceinline__ void store_best(const PoolShape<int32_t>& s, const ReduceTask<T>& task,
                                           const BestTap<Acc<T>>& best, T* y, void* indices) {
  const PoolWindow<int32_t>& w = task.window;
  const bool none = w.is_empty();
  int32_t at = 0, flat = -1;
  if (!none) {
    const int32_t tap = best.tap == kNoTap ? 0 : best.tap;
    const int32_t line = tap / w.count[2], c = tap - line * w.count[2];
    const int32_t a = line / w.count[1], b = line - a * w.count[1];
    at = w.x + a * w.x_step[0] + b * w.x_step[1] + c * w.x_step[2];
    flat = w.flat + a * w.flat_step[0] + b * w.flat_step[1] + c * w.flat_step[2];
  }
  if (y) y[task.place.offset(s.y)] = none ? store_as<T>(max_of_none<T>()) : task.x[at];
  if (indices) store_index(s, indices, task.place.offset(s.indices), flat);
}

/// Writes what the members of an output have joined. All threads of the block must call it.
template <Pooled kWhat, class T, class State>
__device__ __forceinline__ void store_state(const PoolShape<int32_t>& s, const ReduceTask<T>& task,
                                            const ReduceLayout& layout, const State& state,
                                            uint32_t outputs, T* y, void* indices) {
  const bool writes = task.member == 0 && task.output < outputs;
  if constexpr (kWhat == Pooled::winner) {
    if (writes) store_best(s, task, state, y, indices);
  } else {
    Acc<T> value;
    if constexpr (kWhat == Pooled::average) {
      value = Acc<T>(average_of(state, divisor_of<double>(task.window, s.include_padding)));
    } else {
      bool again = false;
      value = finish_lp<Acc<T>>(state, s.p, [&] {
        again = true;
        return Acc<T>{0};
      });
      if (__syncthreads_or(again)) {
        const Acc<T> scaled = scaled_norm_of_members(task, layout, s.p);
        if (again) value = scaled;
      }
    }
    if (writes) y[task.place.offset(s.y)] = store_as<T>(value);
  }
}

/// What nothing joins to.
template <Pooled kWhat, class T>
__device__ __forceinline__ auto no_state() {
  if constexpr (kWhat == Pooled::winner)
    return BestTap<Acc<T>>{max_of_none<T>(), kNoTap};
  else
    return 0.0;
}

/// One member's share of an output's pieces.
template <Pooled kWhat, class T, class State, class Join>
__device__ __forceinline__ State join_pieces(const State* pieces, const ReduceLayout& layout,
                                             bool is_output, Join join) {
  State state = no_state<kWhat, T>();
  for (uint32_t i = layout.member(); is_output && i < layout.pieces; i += layout.members)
    state = join(state, pieces[i]);
  return state;
}

/// `groups` of layout.slots() outputs; `partials` holds the states of pieces, output by output.
template <class T, Pooled kWhat>
__global__ void __launch_bounds__(kPoolThreads, 3)
    pool_reduce_kernel(PoolShape<int32_t> s, OutputOrder order, uint32_t outputs, uint32_t groups,
                       ReduceLayout layout, const T* x, T* y, void* indices, void* partials) {
  using Join = std::conditional_t<kWhat == Pooled::winner, JoinBest, JoinSum>;
  using State = std::conditional_t<kWhat == Pooled::winner, BestTap<Acc<T>>, double>;
  auto* const rooms = static_cast<State*>(partials);
  // 32 bits do not count the pieces of all windows where these overlap: a block takes one of each.
  const uint32_t pieces = layout.pieces_at_once(), piece = blockIdx.x % pieces;
  for (uint32_t group = blockIdx.x / pieces; group < groups; group += gridDim.x / pieces) {
    const ReduceTask<T> task(s, order, layout, group, piece, outputs, x);
    State state = layout.phase == ReducePhase::finish
                      ? join_pieces<kWhat, T>(rooms + uint64_t{task.output} * layout.pieces, layout,
                                              task.output < outputs, Join{})
                      : state_of<kWhat>(s, task);
    state = join_members(layout, state, Join{});
    if (layout.phase == ReducePhase::pieces) {
      if (task.member == 0 && task.output < outputs)
        rooms[uint64_t{task.output} * layout.pieces + piece] = state;
    } else {
      store_state<kWhat>(s, task, layout, state, outputs, y, indices);
    }
  }
}

}  // namespace cudml::cuda
