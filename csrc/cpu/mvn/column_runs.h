// Results of columns by short formulas, and of rows of columns that follow each other in memory.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/near_formulas.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Eight vectors at a time are all read before the first result is written: a processor that
/// compares only the last 12 bits of addresses makes a load wait for an earlier store whose place
/// in its page is the same, and x may stand a line before y there. Returns the end of the last.
template <class T, class F>
int64_t apply_by_eight(T* y, const T* x, int64_t n, NearColumnFormula formula, F f, Flow<T> flow) {
  constexpr int kCount = 8;
  int64_t i = 0;
  for (; i + kCount * kFloats <= n; i += kCount * kFloats) {
    if (flow.is_streamed && flow.ahead)
      for (int64_t l = 0; l < kCount * kFloats; l += 64 / int64_t(sizeof(T)))
        __builtin_prefetch(flow.ahead + i + l, 0, 2);
    Floats v[kCount];
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k)
      v[k] = f(formula(load_wide(x + i + k * kFloats, Whole{}), i + k * kFloats, Whole{}));
#pragma GCC unroll 4
    for (int k = 0; k < kCount; k += 2)
      put_pair(y + i + k * kFloats, v[k], v[k + 1], flow.is_streamed, false);
  }
  return i;
}

/// Activations that short formulas are there for.
inline bool is_common(const Activation& f) {
  return is_plain(f) || f.kind == ActivationKind::swish;
}

template <class T, class Formula>
void apply_common(const Activation& f, T* y, const T* x, int64_t n, const Formula& formula,
                  Flow<T> flow) {
  if (f.kind == ActivationKind::swish)
    apply_formula(y, x, n, formula, Swish(f), flow);
  else
    apply_formula(y, x, n, formula, Floor(f), flow);
}

template <class T>
void apply_columns(const Activation& f, T* y, const T* x, int64_t n, NearColumnFormula formula,
                   Flow<T> flow) {
  int64_t done = 0;
  if (is_plain(f) && (!flow.is_streamed || to_line(y) == 0))
    done = apply_by_eight(y, x, n, formula, Floor(f), flow);
  if (flow.ahead) flow.ahead += done;
  apply_common(f, y + done, x + done, n - done,
               NearColumnFormula{formula.factor + done, formula.shift + done}, flow);
}

using tuning::mvn::kRunAheadBytes;

/// Calls write(y, x, count, column, ahead) for the first `head` of n elements and then for rows of
/// `row`, whose columns are counted from the head on; `ahead` is where reading goes on meanwhile,
/// after the end at `next`, or null.
template <class T, class Write>
void for_run(T* y, const T* x, int64_t n, int64_t row, int64_t head, const T* next,
             const Write& write) {
  constexpr int64_t kFar = kRunAheadBytes / int64_t(sizeof(T));
  const int64_t first = std::min(n, head);
  if (first) write(y, x, first, row - head, nullptr);
  for (int64_t i = first; i < n; i += row) {
    const T* ahead = x + i + kFar;
    if (i + kFar + row > n) ahead = next ? next + std::max<int64_t>(i + kFar - n, 0) : nullptr;
    write(y + i, x + i, std::min(row, n - i), 0, ahead);
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
