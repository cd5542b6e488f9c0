// Packed rows at equal distances that share scale and bias: a few are read, then written.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/lean_lines.h"
#include "cpu/mvn/sums.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Rows of plan.group_size elements without an activation.
template <class T>
class LeanRows {
 public:
  static constexpr int64_t kMost = kMostRows;
  static constexpr int64_t kLinesAhead = tuning::mvn::kLineAheadBytes / sizeof(T);

  /// Rows from group `group` on.
  LeanRows(const LeanPlan& plan, const T* x, T* y, int64_t group)
      : p_(plan),
        n_(plan.plan.group_size),
        use_mean_(plan.plan.use_mean),
        x_(x),
        y_(y),
        group_(group),
        lines_(plan) {}

  /// Rows [0, count).
  void run(int64_t count) {
    for (; count > 0; count -= p_.rows) {
      const int64_t now = std::min(p_.rows, count), more = std::min(p_.rows, count - now);
      read(now, more);
      write(now, more);
      x_ += now * p_.x_step;
      y_ += now * p_.y_step;
      group_ += now;
    }
    lines_.flush(y_ - p_.y_step + n_);
  }

  /// That of the first row alone.
  [[gnu::noinline, gnu::cold]] GroupFormula formula() {
    read_together(1, 0, false);
    return {of_.pivot[0], of_.factor[0], of_.shift[0], of_.near[0] != 0};
  }

 private:
  /// Elements from a row that is written to the one that is read ahead meanwhile, or 0.
  int64_t ahead(bool is_there) const {
    return is_there && p_.is_read_ahead ? p_.rows * p_.x_step : 0;
  }

  /// The same of row i of a batch that is summed. A batch that is written in turns may fill half of
  /// the second level: what is read ahead further than a few lines is gone before its turn.
  int64_t ahead_of_sums(int64_t i, int64_t count, int64_t more) const {
    if (p_.columns == n_) return ahead(i < more);
    return std::min(ahead(more > 0 || i + 1 < count), kLinesAhead);
  }

  /// Sums over a row, which are returned in registers.
  struct Pair {
    double sum, square;
  };

  /// What stands `ahead` of the row is read ahead, if not 0; of halves, since only their
  /// conversions leave room for it.
  [[gnu::noinline]] Pair sums_of(const T* row, float guess, int64_t ahead) const {
    Pair result = {};
    for (int64_t i = 0; i < n_; i += kStretch) {
      const int64_t n = std::min(kStretch, n_ - i);
      RowSums sums;  // in registers, since nothing takes its address
      if constexpr (kIsHalf<T>)
        sums.add(row + i, n, broadcast(guess), use_mean_, ahead);
      else
        sums.begin(row + i, n, broadcast(guess), use_mean_);
      result.sum += sum_of_lanes(sums.lanes());
      result.square += sum_of_lanes(sums.square_lanes());
    }
    return result;
  }

  /// Sums over a batch of rows and its formulas. Each is a long chain: those of short rows and of
  /// halves are computed together, those of long rows of floats while the next one is waited for.
  void read(int64_t count, int64_t more) {
    const bool are_short = n_ <= kStretch && p_.columns == n_ && count >= kFloats / 2;
    if (kIsHalf<T> || are_short)
      read_together(count, more, are_short);
    else
      for (int64_t i = 0; i < count; ++i) read_row(i, ahead_of_sums(i, count, more));
  }

  void read_together(int64_t count, int64_t more, bool are_short) {
    GroupSums<kMostRows> sums;
    if (are_short)
      add_together(
          count, use_mean_, sums, [&](int64_t i) { return load_wide(row(i), Partial{4}); },
          [&](int64_t i, float guess) __attribute__((always_inline)) {
            RowSums one;
            one.add(row(i), n_, broadcast(guess), use_mean_, ahead_of_sums(i, count, more));
            return one;
          });
    else
      for (int64_t i = 0; i < count; ++i) {
        sums.guess[i] = guess_at(row(i));
        const Pair pair = sums_of(row(i), sums.guess[i], ahead_of_sums(i, count, more));
        sums.sum[i] = pair.sum;
        sums.square[i] = pair.square;
      }
    const bool are_good = finish_rows(p_.plan, count, sums, of_);
    if (are_good && !p_.statistics) return;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_good = are_good || sums.correct_guess(p_.plan, i);
      p_.put(group_ + i, is_good ? sums.moments(p_.plan, i) : find_mean(i, sums.guess[i]));
    }
  }

  void read_row(int64_t i, int64_t ahead) {
    const float guess = guess_at(row(i));
    const Pair sums = sums_of(row(i), guess, ahead);
    const bool is_good = finish_lanes(p_.plan, sums.sum, sums.square, guess, of_.pivot[i],
                                      of_.factor[i], of_.shift[i], of_.near[i]);
    if (is_good || !use_mean_) {
      if (p_.statistics) p_.put(group_ + i, moments_from(p_.plan, guess, sums.sum, sums.square));
      return;
    }
    p_.put(group_ + i, find_mean(i, guess_of(double(guess) + sums.sum / double(n_), 1)));
  }

  /// Row i's formula about its mean, since the guessed pivot was far from it.
  [[gnu::noinline, gnu::cold]] Moments<float> find_mean(int64_t i, float mean) {
    GroupSums<kMostRows> sums;
    const Pair pair = sums_of(row(i), mean, 0);
    sums.guess[i] = mean;
    sums.sum[i] = pair.sum;
    sums.square[i] = pair.square;
    sums.finish_surely(p_.plan, i, of_);
    return sums.moments(p_.plan, i);
  }

  const T* row(int64_t i) const { return x_ + i * p_.x_step; }

  float guess_at(const T* row) const {
    if (!use_mean_) return 0;
    return guess_from(n_, [&](int64_t i) { return load_wide(row + i, Whole{}); });
  }

  template <class Fn>
  [[gnu::always_inline]] void with_formula(int64_t i, const Fn& fn) const {
    const GroupFormula g = {of_.pivot[i], of_.factor[i], of_.shift[i], of_.near[i] != 0};
    if (!p_.bias) return fn(ScaledFormula{broadcast(g.factor), p_.scale});
    if constexpr (kHasNearRows<T>)
      if (g.is_near) return fn(NearAffineFormula(g, p_.scale, p_.bias));
    fn(AffineFormula{broadcast(g.pivot), broadcast(g.factor), broadcast(g.shift), p_.scale,
                     p_.bias});
  }

  /// The rows of a batch; `more` rows that follow are read ahead meanwhile.
  void write(int64_t count, int64_t more) {
    for (int64_t first = 0, end; first < n_; first = end) {
      end = n_ - first < p_.columns + 64 ? n_ : first + p_.columns;
      for (int64_t i = 0; i < count; ++i)
        with_formula(i, [&](const auto& f) {
          const int64_t step = ahead(i < more);
          lines_.write(y_ + i * p_.y_step, row(i), first, end, f, step ? row(i) + step : nullptr);
        });
    }
  }

  const LeanPlan& p_;
  const int64_t n_;
  const bool use_mean_;
  const T* x_;  // of the batch
  T* y_;
  int64_t group_;           // number of its first row
  Coefficients<kMost> of_;  // the batch's rows
  LeanLines<T> lines_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
