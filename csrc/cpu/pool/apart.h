// Taps that do not stand together in memory, in the order of the paths that have them together.
#pragma once

#include "cpu/pool/reduce.h"
#include "cpu/pool/strip_tasks.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// n >= 1 elements, `step` apart.
template <class T>
inline void copy_apart(const T* from, int64_t step, int64_t n, T* to) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

/// Joins elements [at, at + n) of count >= 1 rows into line as join_rows() does; they stand `pitch`
/// apart, and n of them fit a line of strips.
template <class Op>
[[gnu::noinline]] void join_rows_apart(const Op& op, const typename Op::Element* const* rows,
                                       int64_t count, int64_t at, int64_t n, int64_t pitch,
                                       typename Op::V* line) {
  using V = typename Op::V;
  constexpr size_t kMost = StripRoom<V>::kValues;
  const Room<Elements<typename Op::Element, kMost>> row_room;
  const Room<Elements<V, kMost>> group_room;
  typename Op::Element* const row = row_room->at;
  V* const room = group_room->at;
  const auto join = [&](V* to, int64_t i, const Vector<V>& v, bool is_first) {
    store_vector(to + i, is_first ? v : Op::join(load_vector<Vector<V>>(to + i), v));
  };
  for (int64_t r = 0; r < count; ++r) {
    V* const group = Op::kRepeats || r < kRowsAtOnce ? line : room;
    const bool is_first = group == line ? r == 0 : r % kRowsAtOnce == 0;
    copy_apart(rows[r] + at * pitch, pitch, n, row);
    for (int64_t i = 0; i < n; i += kLanes<V>) join(group, i, op.load(row + i), is_first);
    if (group == line || (r + 1 < count && (r + 1) % kRowsAtOnce > 0)) continue;
    for (int64_t i = 0; i < n; i += kLanes<V>)
      join(line, i, load_vector<Vector<V>>(group + i), false);
  }
}

/// Joins n >= 1 values in the order in which join_rows() joins as many rows.
template <class Op, class V>
V join_in_groups(const V* at, int64_t n) {
  const auto group = [at](int64_t first, int64_t count) __attribute__((always_inline)) {
    V v = at[first];
    for (int64_t i = 1; i < count; ++i) v = Op::join(v, at[first + i]);
    return v;
  };
  V joined = group(0, std::min(kRowsAtOnce, n));
  int64_t i = kRowsAtOnce;
  for (; i + kRowsAtOnce <= n; i += kRowsAtOnce) joined = Op::join(joined, group(i, kRowsAtOnce));
  return i < n ? Op::join(joined, group(i, n - i)) : joined;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
