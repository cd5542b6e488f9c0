// Statistics of groups that are packed in memory: sums about a pivot that a few elements give, in
// one pass; where they mislead, a second one about the mean, over a chunk that the cache holds.
#include "cpu/statistics/rows.h"

#include "cpu/mvn/sums.h"
#include "cpu/statistics/chunks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kShortestPiece = 16;    // of a group that stands in several places
constexpr int64_t kSample = 4 * kFloats;  // elements of a chunk that its pivot is the mean of

/// Whether a pivot was within half a deviation of the mean: the sum of squares about it is then at
/// most 5/4 of that about the mean. NaN fails.
template <class D>
auto is_close(double n, D delta, D m2) {
  return 4 * n * delta * delta <= m2;
}

/// Up to kFloats groups of n elements each: sums about their pivots, and the moments these give.
struct Batch {
  alignas(64) float pivot[kFloats] = {};
  alignas(64) double sum[kFloats], square[kFloats];
  alignas(64) double mean[kFloats], m2[kFloats];

  /// Whether all pivots were close to the means. As moments_about() has it.
  bool finish(double n, bool use_mean) {
    Vector<int64_t> are_close = kDoubleIndices >= 0;
    for (int64_t i = 0; i < kFloats; i += kDoubles) {
      const auto squares = load_vector<Doubles>(square + i), zero = Doubles{};
      const Doubles delta = use_mean ? load_vector<Doubles>(sum + i) / n : zero;
      const Doubles rest = fused(-n * delta, delta, squares), m = rest < 0 ? zero : rest;
      store_vector(mean + i, as_doubles(load_vector<HalfFloats>(pivot + i)) + delta);
      store_vector(m2 + i, m);
      are_close &= is_close(n, delta, m);
    }
    return all_of(are_close) || !use_mean;
  }
};

template <class T>
class PackedChunks {
 public:
  using A = float;
  struct Scratch {};
  static constexpr int64_t kChunk = kStretch;

  PackedChunks(const StatisticsPlan& plan, const Operands& operands)
      : plan_(plan), x_(static_cast<const T*>(operands.inputs[0])), rank_(plan.reduced_rank) {
    for (int d = 0; d < rank_; ++d)
      axes_[d] = {plan.reduced[d].size, {plan.reduced[d].stride[StatisticsPlan::kX]}};
  }

  Moments<float> of_chunk(const GroupOffsets& group, int64_t first, int64_t n, Scratch&) const {
    const Chunk chunk = {x_ + group[StatisticsPlan::kX], first, n};
    const Moments<float> moments = about(plan_.use_mean ? pivot_of_sample(chunk) : 0, chunk);
    return !plan_.use_mean || is_close(moments.n, moments.delta, moments.m2)
               ? moments
               : about_mean(chunk, moments);
  }

  /// Groups [0, count) of one chunk each. What is computed from their lanes is computed together.
  void of_groups(const GroupOffsets* group, int64_t count, const StatisticsResults& results) const {
    const int64_t n = plan_.group_size;
    Batch b;
    add_groups(group, count, b);
    const bool are_close = b.finish(double(n), plan_.use_mean);
    for (int64_t i = 0; i < count; ++i) results.put(group[i], double(n), b.mean[i], b.m2[i]);
    if (are_close) return;
    for (int64_t i = 0; i < count; ++i) {
      const double delta = b.sum[i] / double(n);
      if (is_close(double(n), delta, b.m2[i])) continue;
      const Chunk chunk = {x_ + group[i][StatisticsPlan::kX], 0, n};
      results.put(group[i], about_mean(chunk, {double(n), b.pivot[i], delta}));
    }
  }

 private:
  /// Elements [first, first + n) of a group that begins at x.
  struct Chunk {
    const T* x;
    int64_t first, n;
  };

  void add_groups(const GroupOffsets* group, int64_t count, Batch& b) const {
    Floats lanes[kFloats] = {}, squares[kFloats] = {};
    const auto chunk = [&](int64_t i) {
      return Chunk{x_ + group[i][StatisticsPlan::kX], 0, plan_.group_size};
    };
    // Long rows are read one after the other, as the processor foresees it.
    const bool are_short = plan_.group_size <= kSample;
    if (plan_.use_mean && are_short) {
      for (int64_t i = 0; i < count; ++i) lanes[i] = sample(chunk(i));
      store_vector(b.pivot, guesses_of(sums_of_lanes(lanes), 1 / float(plan_.group_size)));
    }
    for (int64_t i = 0; i < count; ++i) {
      if (plan_.use_mean && !are_short) b.pivot[i] = pivot_of_sample(chunk(i));
      const RowSums sums = sums_about(b.pivot[i], chunk(i));
      lanes[i] = sums.lanes();
      squares[i] = sums.square_lanes();
    }
    store_doubles(b.sum, sums_of_lanes(lanes));
    store_doubles(b.square, sums_of_lanes(squares));
  }

  float pivot_of_sample(const Chunk& c) const {
    return guess_of(sum_of_lanes(sample(c)), 1 / double(sample_count(c)));
  }

  /// All elements of a chunk if they are few, else the first ones of its first piece.
  int64_t sample_count(const Chunk& c) const {
    const int64_t piece = axes_[rank_ - 1].size;
    return c.n <= kSample ? c.n : std::min(kSample, piece - c.first % piece);
  }

  /// Lanes that add up to their sum.
  [[gnu::always_inline]] Floats sample(const Chunk& c) const {
    const int64_t n = sample_count(c);
    return rank_ == 1 ? lanes_of_sum(c.x + c.first, n) : sample_of_pieces(c, n);
  }

  [[gnu::noinline]] Floats sample_of_pieces(const Chunk& c, int64_t n) const {
    Floats sum = {};
    for_pieces(c, n, [&](const T* x, int64_t length) { sum += lanes_of_sum(x, length); });
    return sum;
  }

  static Floats lanes_of_sum(const T* x, int64_t n) {
    Floats sum[4] = {};
    int64_t i = 0;
    for (; i + 4 * kFloats <= n; i += 4 * kFloats)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) sum[k] += load_wide(x + i + k * kFloats, Whole{});
    for (; i + kFloats <= n; i += kFloats) sum[0] += load_wide(x + i, Whole{});
    if (i < n) sum[1] += load_wide(x + i, Partial{n - i});
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

  [[gnu::always_inline]] RowSums sums_about(float pivot, const Chunk& c) const {
    if (rank_ > 1) return sums_of_pieces(pivot, c);
    RowSums sums;  // in registers, since nothing takes its address
    sums.add(c.x + c.first, c.n, broadcast(pivot), plan_.use_mean);
    return sums;
  }

  [[gnu::noinline]] RowSums sums_of_pieces(float pivot, const Chunk& c) const {
    RowSums sums;
    for_pieces(c, c.n, [&](const T* x, int64_t length) {
      sums.add(x, length, broadcast(pivot), plan_.use_mean);
    });
    return sums;
  }

  template <class Fn>
  [[gnu::always_inline]] void for_pieces(const Chunk& c, int64_t n, const Fn& fn) const {
    for_strided_pieces(
        axes_, rank_, {}, c.first, n,
        [&](const StridedOffsets<1>& at, int64_t, int64_t length) { fn(c.x + at[0], length); });
  }

  Moments<float> about(float pivot, const Chunk& c) const {
    const RowSums sums = sums_about(pivot, c);
    const double sum = sum_of_lanes(sums.lanes()), square = sum_of_lanes(sums.square_lanes());
    if (!plan_.use_mean) return {double(c.n), 0, 0, square};
    return moments_about<float>(double(c.n), pivot, sum, square);
  }

  [[gnu::noinline, gnu::cold]] Moments<float> about_mean(const Chunk& c,
                                                         const Moments<float>& m) const {
    return about(guess_of(double(m.pivot) + m.delta, 1), c);
  }

  const StatisticsPlan& plan_;
  const T* x_;
  int rank_;
  StridedAxis<1> axes_[kMaxRank];  // of a group
};

/// Groups of one chunk each.
template <class T>
void run_together(const StatisticsPlan& plan, const StatisticsResults& results,
                  const PackedChunks<T>& chunks) {
  parallel_for(plan.groups, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    GroupWalk group(plan.kept, plan.kept_rank, begin);
    Pace pace;
    for (int64_t g = begin; g < end; g += kFloats) {
      const int64_t count = std::min(kFloats, end - g);
      pace.add(count * plan.group_size);
      GroupOffsets at[kFloats];
      for (int64_t i = 0; i < count; ++i, group.advance()) at[i] = group.offsets();
      chunks.of_groups(at, count, results);
    }
  });
}

}  // namespace

bool are_groups_packed(const StatisticsPlan& plan) {
  if (plan.reduced_rank == 0 || plan.group_size == 0) return false;
  const auto& [size, stride] = plan.reduced[plan.reduced_rank - 1];
  return stride[StatisticsPlan::kX] == 1 && (plan.reduced_rank == 1 || size >= kShortestPiece);
}

template <class T>
void statistics_rows(const StatisticsPlan& plan, const Operands& operands) {
  const StatisticsResults results(plan, operands);
  const PackedChunks<T> chunks(plan, operands);
  if (plan.group_size <= chunks.kChunk) return run_together(plan, results, chunks);
  Chunks(plan, results, chunks).run();
}

template void statistics_rows<float>(const StatisticsPlan&, const Operands&);
template void statistics_rows<Float16>(const StatisticsPlan&, const Operands&);
template void statistics_rows<BFloat16>(const StatisticsPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
