// What the sums of a block's columns come to, whatever the type of their elements.
#pragma once

#include "cpu/isa/processor.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_blocks.h"
#include "cpu/mvn/column_runs.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kAheadBytes;

/// Columns whose sums stay in registers, over so many elements in float: chains of 128.
constexpr int kRunVectors = kFloats == 16 ? 8 : 4;
constexpr int64_t kRunColumns = kRunVectors * kFloats, kRunLength = 128 * kRunColumns;

/// Sums x[i] - guess and its square for i in [0, n), a multiple of kRunColumns, in turn.
template <class T>
[[gnu::noinline]] void sum_run(const T* x, int64_t n, const float* guess, float* sum,
                               float* square) {
  constexpr int64_t kAhead = kAheadBytes / int64_t(sizeof(T)), kLine = 64 / int64_t(sizeof(T));
  const bool is_told = kIsHalf<T> || processor.is_told_of_runs;
  Floats s[kRunVectors] = {}, q[kRunVectors] = {};
  for (int64_t i = 0; i < n; i += kRunColumns) {
    for (int64_t l = 0; is_told && l < kRunColumns; l += kLine)
      __builtin_prefetch(x + i + kAhead + l);
#pragma GCC unroll 8
    for (int j = 0; j < kRunVectors; ++j) {
      const Floats d =
          load_wide(x + i + j * kFloats, Whole{}) - load_wide(guess + j * kFloats, Whole{});
      s[j] += d;
      q[j] = fused(d, d, q[j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kRunVectors; ++j) {
    store_narrow(sum + j * kFloats, s[j], Whole{});
    store_narrow(square + j * kFloats, q[j], Whole{});
  }
}

/// What is known of a block's groups.
struct BlockState {
  GroupSums<kMostColumns> sums;
  Coefficients<kMostColumns> coefficients;
  bool is_bad[kMostColumns];

  bool finish(const MvnPlan& plan, int64_t groups) {
    if (sums.finish(plan, groups, coefficients)) return true;
    for (int64_t g = 0; g < groups; ++g) is_bad[g] = !sums.correct_guess(plan, g);
    return false;
  }

  [[gnu::noinline]] void finish_surely(const MvnPlan& plan, int64_t groups) {
    for (int64_t g = 0; g < groups; ++g)
      if (is_bad[g]) sums.finish_surely(plan, g, coefficients);
  }

  /// Hands out the statistics of a block's groups, where they are wanted.
  void put(const Blocks& blocks, const Blocks::Block& b, const GroupStatistics& to) const {
    if (!to.are_wanted()) return;
    for (int64_t g = 0; g < blocks.groups_of(b); ++g)
      to.put(b.group + g, sums.moments(blocks.plan, g));
  }
};

/// One thread's rows: sums, and then the formula's.
struct BlockScratch {
  static constexpr int64_t kPadded = kMostColumns + kFloats;
  alignas(64) float guess[kMostColumns], sum[kMostColumns], square[kMostColumns];
  alignas(64) double wide_sum[kMostColumns], wide_square[kMostColumns];
  alignas(64) float pivot[kPadded], factor[kPadded], shift[kPadded], scale[kPadded], bias[kPadded];
  bool are_near;  // factor and shift are all of the columns' formula
  const BlockState* expanded = nullptr;

  [[gnu::noinline]] void widen(int64_t n) {
    for (int64_t c = 0; c < n; ++c) wide_sum[c] += double(sum[c]);
    for (int64_t c = 0; c < n; ++c) wide_square[c] += double(square[c]);
  }

  /// Joins all summands to shift where the mean is near 0, as join_near does where rows share scale
  /// and bias. Returns whether that is everywhere.
  bool join_means(int64_t n) {
    int far = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const bool is_near = sum[i] != 0;
      const float moved = fused(-pivot[i], factor[i], shift[i]);
      shift[i] = is_near ? moved : shift[i];
      pivot[i] = is_near ? 0 : pivot[i];
      far |= !is_near;
    }
    return !far;
  }

  /// The formula's rows, from scale and bias if they are the same in all rows, which then begin
  /// `turn` columns after the block's first.
  [[gnu::noinline]] void expand(const Blocks& blocks, const Blocks::Block& b,
                                const Coefficients<kMostColumns>& c, const Activation& f,
                                int64_t turn) {
    blocks.spread(b, c.pivot, pivot);
    blocks.spread(b, c.factor, factor);
    blocks.spread(b, c.shift, shift);
    blocks.spread(b, c.near, sum);
    are_near = (blocks.is_cross ? join_means(b.width)
                                : join_near(sum, b.width, {pivot, factor, shift, scale, bias})) &&
               is_common(f);
    if (blocks.is_cross) return;
    for (float* row : {pivot, factor, shift, scale, bias}) {
      std::rotate(row, row + turn, row + b.width);
      for (int64_t k = 1; k < blocks.repeat; ++k) std::copy_n(row, b.width, row + k * b.width);
    }
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
