// Sums over groups that are packed in memory, at least in pieces.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/sums.h"
#include "cpu/mvn/walk.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Groups of a plan in chunks of kStretch elements. What stands `ahead` elements after a group of
/// halves is read ahead, if not 0: only conversions leave room for it.
template <class T>
class PackedSums {
 public:
  using Sums = GroupSums<kMostRows>;

  PackedSums(const MvnPlan& plan, const T* x)
      : plan_(plan),
        x_(x),
        x_rank_(join_for_x(plan.reduced, plan.reduced_rank, x_axes_)),
        chunks_((plan.group_size + kStretch - 1) / kStretch) {}

  int64_t chunks() const { return chunks_; }
  bool is_in_one_piece() const { return x_rank_ == 1; }

  float guess(const Offsets& group) const {
    if (!plan_.use_mean) return 0;
    return guess_from(plan_.group_size,
                      [&](int64_t i) { return load_wide(x_ + x_offset(group, i), Whole{}); });
  }

  /// Adds the sums of chunk c of a group to `sum` and `square`.
  void add_chunk(const Offsets& group, int64_t c, float guess, int64_t ahead, double& sum,
                 double& square) const {
    const RowSums sums = sums_of_chunk(group, c, guess, ahead);
    sum += sum_of_lanes(sums.lanes());
    square += sum_of_lanes(sums.square_lanes());
  }

  /// Group i of `sums`, about its guess.
  void add_group(const Offsets& group, int64_t ahead, Sums& sums, int64_t i) const {
    double sum = 0, square = 0;
    for (int64_t c = 0; c < chunks_; ++c) {
      add_chunk(group, c, sums.guess[i], ahead, sum, square);
      if (c % kUnwatched == kUnwatched - 1) checkpoint();
    }
    sums.sum[i] = sum;
    sums.square[i] = square;
  }

  /// Groups of one chunk each. Rows are read one after the other, as the processor foresees it.
  /// `more` groups follow.
  void add_short_groups(const Offsets* group, int64_t count, int64_t more, int64_t ahead,
                        Sums& sums) const {
    add_together(
        count, plan_.use_mean, sums,
        [&](int64_t i) { return load_wide(x_ + x_offset(group[i], 0), Partial{4}); },
        [&](int64_t i, float guess) __attribute__((always_inline)) {
          return sums_of_chunk(group[i], 0, guess, i < more ? ahead : 0);
        });
  }

 private:
  static constexpr int64_t kUnwatched = tuning::mvn::kUnwatchedChunks;

  /// Where the elements of a shortest piece stand together in x, near a position of the group.
  int64_t x_offset(const Offsets& group, int64_t position) const {
    if (x_rank_ == 1) return group.x + position;
    return Walk(x_axes_, x_rank_ - 1, position / x_axes_[x_rank_ - 1].size, group).offsets().x;
  }

  [[gnu::always_inline]] RowSums sums_of_chunk(const Offsets& group, int64_t c, float guess,
                                               int64_t ahead) const {
    const int64_t first = c * kStretch, n = std::min(kStretch, plan_.group_size - first);
    if (x_rank_ > 1) return sums_of_pieces(group, first, n, guess);
    RowSums sums;  // in registers, since nothing takes its address
    sums.add(x_ + group.x + first, n, broadcast(guess), plan_.use_mean, kIsHalf<T> ? ahead : 0);
    return sums;
  }

  [[gnu::noinline]] RowSums sums_of_pieces(const Offsets& group, int64_t first, int64_t n,
                                           float guess) const {
    RowSums sums;
    for_axis_pieces(x_axes_, x_rank_, group, first, n,
                    [&](const Offsets& at, int64_t, int64_t length) {
                      sums.add(x_ + at.x, length, broadcast(guess), plan_.use_mean);
                    });
    return sums;
  }

  const MvnPlan& plan_;
  const T* x_;
  MvnAxis x_axes_[kMaxRank];
  int x_rank_;
  int64_t chunks_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
