// The first pass over a block of columns: sums of its groups, part by part.
#pragma once

#include <bit>

#include "cpu/isa/processor.h"
#include "cpu/mvn/tile_layout.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
constexpr int64_t kFloatRows = 64 * kRowsAtOnce<T>;  // whose sums stay in float, in chains of 72

template <class T>
class TileSums {
 public:
  using Block = Blocks::Block;
  using Sums = GroupSums<kMostColumns>;

  explicit TileSums(const TileLayout<T>& layout) : t_(layout) {}

  /// Pivots from rows all over the block. As powers of two of numbers are averaged, the guess at
  /// the mean of a constant group is exact.
  void guess(const Block& b, Sums& sums, TileScratch<T>& s) const {
    const int64_t groups = t_.blocks.groups_of(b), fold = t_.blocks.layout.fold();
    std::fill_n(sums.guess, groups, 0.0f);
    if (!t_.plan.use_mean) return;
    const auto count = int64_t(std::bit_floor(uint64_t(std::clamp<int64_t>(
        t_.blocks.rows - (t_.blocks.last_repeat < t_.blocks.repeat), 1, kSampleRows))));
    const auto some = int64_t(std::bit_floor(uint64_t(fold)));
    clear(b, s);
    std::fill_n(s.guess, used(b), 0.0f);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t row = t_.blocks.rows / count * k;
      t_.blocks.for_rows(b, row, row + 1, [&](int64_t, const Offsets& at) {
        const T* x = t_.in.at(b, t_.x + at.x, 1, s.room.x.get());
        add_rows<1>(&x, b.width, s.guess, s.sum, s.square);
      });
    }
    for (int64_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (int64_t c = 0; c < some; ++c) sum += double(s.sum[g * fold + c]);
      sums.guess[g] = guess_of(sum, 1 / double(count * some));
    }
  }

  void sum_block(const Block& b, Sums& sums, TileScratch<T>& scratch) const {
    const int64_t groups = t_.blocks.groups_of(b);
    std::fill_n(sums.sum, groups, 0.0);
    std::fill_n(sums.square, groups, 0.0);
    t_.blocks.spread(b, sums.guess, scratch.guess);
    for (int64_t part = 0; part < t_.parts; ++part) {
      sum_part(b, part, scratch);
      for (int64_t g = 0; g < groups; ++g) sums.sum[g] += scratch.wide_sum[g];
      for (int64_t g = 0; g < groups; ++g) sums.square[g] += scratch.wide_square[g];
    }
  }

  /// Sums of each group over the part's rows about scratch.guess, in wide_sum and wide_square.
  void sum_part(const Block& b, int64_t part, TileScratch<T>& s) const {
    std::fill_n(s.wide_sum, used(b), 0.0);
    std::fill_n(s.wide_square, used(b), 0.0);
    const int64_t end = std::min(t_.blocks.rows, (part + 1) * t_.part_rows);
    if constexpr (kSumsRuns<T>)
      if (t_.is_summed_as_run) {
        sum_as_run(b, part * t_.part_rows, end, s);
        s.pace.add(t_.elements(b, part * t_.part_rows, end));
      }
    for (int64_t first = part * t_.part_rows; !t_.is_summed_as_run && first < end;
         first += kFloatRows<T>) {
      clear(b, s);
      const int64_t stop = std::min(end, first + kFloatRows<T>);
      sum_rows(b, first, stop, s);
      s.widen(b.width * t_.blocks.repeat);
      s.pace.add(t_.elements(b, first, stop));
    }
    t_.blocks.join(b, s.wide_sum);
    t_.blocks.join(b, s.wide_square);
  }

 private:
  /// Columns of the scratch's rows that a block uses, in whole vectors.
  int64_t used(const Block& b) const {
    return (b.width * t_.blocks.repeat + kFloats - 1) / kFloats * kFloats;
  }

  void clear(const Block& b, TileScratch<T>& s) const {
    std::fill_n(s.sum, used(b), 0.0f);
    std::fill_n(s.square, used(b), 0.0f);
  }

  /// The same of rows [first, end) that make up a run, or would if all columns were the plan's.
  void sum_as_run(const Block& b, int64_t first, int64_t end, TileScratch<T>& s) const {
    const T* x = t_.x + t_.blocks.at(b, first).x;
    const int64_t n = t_.elements(b, first, end), whole = n - n % kRunColumns;
    if (!t_.blocks.is_packed) return t_.in.add_as_run(b, x, n / b.width, s, s.room.x.get());
    for (int64_t i = 0; i < whole; i += kRunLength) {
      sum_run(x + i, std::min(kRunLength, whole - i), s.guess, s.sum, s.square);
      s.widen(kRunColumns);
    }
    if (whole == n) return;
    std::fill_n(s.sum, kRunColumns, 0.0f);
    std::fill_n(s.square, kRunColumns, 0.0f);
    x += whole;
    add_rows<1>(&x, n - whole, s.guess, s.sum, s.square);
    s.widen(kRunColumns);
  }

  void sum_rows(const Block& b, int64_t first, int64_t end, TileScratch<T>& s) const {
    const T* x[kRowsAtOnce<T>];
    int64_t held = 0;
    t_.blocks.for_rows(b, first, end, [&](int64_t row, const Offsets& at) {
      const bool is_last = row == t_.blocks.rows - 1;
      const T* here = t_.in.at(b, t_.x + at.x, t_.blocks.repeats_of(row), s.room.x.get(), held);
      if (is_last) return t_.in.template add<1>(b, &here, t_.blocks.last_repeat, s);
      x[held++] = here;
      if (held < kRowsAtOnce<T>) return;
      held = 0;
      const int64_t width = b.width * t_.blocks.repeat, size = sizeof(T);
      const int64_t gap = t_.blocks.row_step() - width;
      const T* far = nullptr;
      if (!t_.in.is_gathered && (gap == 0 || processor.is_told_of_runs))
        far = t_.ahead(b, row - kRowsAtOnce<T> + 1, x[0], kAheadBytes, kRowsAtOnce<T>);
      t_.in.template add<kRowsAtOnce<T>>(
          b, x, t_.blocks.repeat, s,
          {reinterpret_cast<const char*>(far), width * size, gap * size});
    });
    for (int64_t i = 0; i < held; ++i) t_.in.template add<1>(b, x + i, t_.blocks.repeat, s);
  }

  const TileLayout<T>& t_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
