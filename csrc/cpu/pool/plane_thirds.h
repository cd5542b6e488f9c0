// Windows of three columns that advance by one, on rows that follow each other without gaps: the
// rows are joined, then each column with its neighbours, in registers.
#pragma once

#include "cpu/pool/reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of taps of a plane of outputs, lines of `in`. That of output i stands at at[k] + i, which
/// is real where i + shift[k] is one of the `size` elements of its plane of taps.
template <class Op>
struct PlaneTaps {
  using T = typename Op::Element;
  using Number = std::make_unsigned_t<IntegerLike<typename Op::V>>;
  static constexpr int64_t kMost = kRowsAtOnce;
  int64_t count, size, in;
  const T* at[kMost];
  int64_t shift[kMost];  // the first is the least, the last the largest
};

/// Vector i of the rows joined, of taps that may not exist.
template <class Op>
[[gnu::noinline]] Vector<typename Op::V> edge_of_plane(const Op& op, const PlaneTaps<Op>& t,
                                                       int64_t i) {
  using Number = typename PlaneTaps<Op>::Number;
  constexpr int64_t kStep = kLanes<typename Op::V>;
  auto joined = all_lanes(Op::none());
  for (int64_t k = 0; k < t.count; ++k) {
    const int64_t place = i + t.shift[k];
    if (place >= 0 && place + kStep <= t.size) {
      joined = Op::join(joined, op.load(t.at[k] + i));
      continue;
    }
    const int64_t low = std::clamp<int64_t>(-place, 0, kStep);
    const int64_t high = std::clamp<int64_t>(t.size - place, low, kStep);
    auto v = load_between(op, t.at[k] + i, low, high);
    if constexpr (Op::kRepeats) {
      Vector<Number> lane;
      for (int64_t j = 0; j < kStep; ++j) lane[j] = Number(j);
      const auto size = Vector<Number>{} + Number(high - low);
      v = lane - Number(low) < size ? v : all_lanes(Op::none());
    }
    joined = Op::join(joined, v);
  }
  return joined;
}

/// Calls put(i, v) for every vector of the outputs [from, end), whole lines; i counts from 0 on.
/// For each of them `numbers` tells the column before, a Number by its bits.
template <int kRows, class Op, class Put>
[[gnu::always_inline]] inline void join_plane_thirds(const Op op, const PlaneTaps<Op>& t,
                                                     int64_t from, int64_t end,
                                                     const typename Op::V* numbers, const Put put) {
  using V = typename Op::V;
  using Number = typename PlaneTaps<Op>::Number;
  constexpr int64_t kStep = kLanes<V>;
  constexpr auto kAll = std::make_index_sequence<size_t(kStep)>{};
  const int64_t count = kRows ? kRows : t.count;
  const typename Op::Element* own[kRows ? kRows : 1];  // in registers
  if constexpr (kRows > 0) std::copy_n(t.at, kRows, own);
  const typename Op::Element* const* const rows = kRows ? own : t.at;
  const int64_t first = -t.shift[0], last = t.size - t.shift[count - 1] - kStep;
  const auto nothing = all_lanes(Op::none());
  const auto in = Vector<Number>{} + Number(t.in);
  auto before = nothing, now = edge_of_plane(op, t, from);
  int64_t i = from;
  const auto join = [&](const Vector<V>& then) __attribute__((always_inline)) {
    const auto at = load_vector<Vector<Number>>(numbers + i - from);
    const auto left = pick<kStep - 1, 1>(before, now, kAll), right = pick<1, 1>(now, then, kAll);
    const auto v = Op::join(at < in ? left : nothing, now);
    put(i - from, Op::join(v, at + 2 < in ? right : nothing));
    before = now;
    now = then;
    i += kStep;
  };
  while (i < end) {
    const int64_t plain = i + kStep >= first ? std::min(end, last - kStep + 1) : i;
    while (i < plain) join(join_vectors<kRows>(op, rows, count, i + kStep));
    if (i < end) join(edge_of_plane(op, t, i + kStep));
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
