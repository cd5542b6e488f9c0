// Results of rows that share scale and bias, in lines of memory that may hold the end of a row and
// the beginning of the next one.
#pragma once

#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/near_formulas.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What all rows of a plan have in common.
struct LeanPlan {
  const MvnPlan& plan;
  int64_t x_step, y_step;                         // elements from a row to the next one
  const float *scale = nullptr, *bias = nullptr;  // of which only the bias may stay null
  int64_t rows = 1, columns = 0;  // that are read before they are written, in turns of columns
  bool is_streamed = false, is_read_ahead = false;
  const GroupStatistics* statistics = nullptr;  // where they go, if they are asked for

  void put(int64_t group, const Moments<float>& m) const {
    if (statistics) statistics->put(group, m);
  }
};

/// Writes rows one after the other, each in one or more turns of its columns.
template <class T>
class LeanLines {
 public:
  explicit LeanLines(const LeanPlan& plan) : p_(plan), n_(plan.plan.group_size) {}

  /// A row's columns between the lines that follow `first` and `end`. What stands before the first
  /// of all waits for the last turn.
  template <class Formula>
  [[gnu::always_inline]] void write(T* y, const T* x, int64_t first, int64_t end, const Formula& f,
                                    const T* ahead) {
    const auto line = [&](int64_t i) { return p_.is_streamed ? i + to_line(y + i) : i; };
    const int64_t lead = p_.is_streamed ? to_line(y) % kFloats : 0,
                  begin = first ? line(first) : lead;
    const bool is_last = end == n_;
    if (is_last && lead) begin_row(y, lead, f(load_wide(x, Partial{lead}), 0, Partial{lead}));
    end = write_vectors(y, x, begin, is_last ? n_ : line(end), f, ahead);
    if (!is_last) return;
    carry_count_ = n_ - end;
    if (carry_count_ == 0) return;
    const Partial m{carry_count_};
    carry_ = f(load_wide(x + end, m), end, m);
    if (!p_.is_streamed || p_.y_step != n_) flush(y + n_);
  }

  /// What is left of the row that ends at `end`.
  void flush(T* end) {
    if (carry_count_) store_narrow(end - carry_count_, carry_, Partial{carry_count_});
    carry_count_ = 0;
  }

 private:
  /// What begins a row together with what was left of the one before it, so that no line is written
  /// in parts: memory would be read for it.
  [[gnu::always_inline]] void begin_row(T* y, int64_t n, Floats v) {
    const int64_t rest = kFloats - n;
    if (carry_count_ == 0) return store_narrow(y, v, Partial{n});
    const LaneIndices to = kLaneIndices - int32_t(rest);  // modulo kFloats
    stream_narrow(y - rest, select(Partial{rest}, carry_, lanes_of(v, v, to)));
    carry_count_ = 0;
  }

  /// Whole vectors of [i, end). Returns the end of the last.
  template <class Formula>
  [[gnu::always_inline]] int64_t write_vectors(T* y, const T* x, int64_t i, int64_t end,
                                               const Formula& f, const T* ahead) const {
    const auto one = [&] {
      if (i + kFloats > end) return;
      put(y + i, f(load_wide(x + i, Whole{}), i, Whole{}), Whole{}, p_.is_streamed);
      i += kFloats;
    };
    if (!kIsLine<T> && p_.is_streamed && to_line(y + i) > 0) one();
    if (kIsHalf<T>)  // conversions hide the choice
      i = apply_whole<2>(y, x, i, end, f, Nothing{}, ahead, p_.is_streamed);
    else if (p_.is_streamed)
      i = apply_whole<2>(y, x, i, end, f, Nothing{}, ahead, std::true_type{});
    else
      i = apply_whole<2>(y, x, i, end, f, Nothing{}, ahead, std::false_type{});
    one();
    return i;
  }

  const LeanPlan& p_;
  const int64_t n_;
  Floats carry_ = {};  // the results at the end of a row that do not fill a vector
  int64_t carry_count_ = 0;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
