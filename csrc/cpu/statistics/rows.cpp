// Statistics of groups that are packed in memory: sums about a pivot that a few elements give, in
// one pass; where they mislead, a second one about the mean, over a chunk that the cache holds.
#include "cpu/statistics/rows.h"

#include <limits>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/sums.h"
#include "cpu/statistics/chunks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::statistics::kLongPiece;
using tuning::statistics::kShortestPiece;
constexpr int64_t kSample = 4 * kFloats;  // elements of a chunk that its pivot is the mean of

constexpr double kMostDouble = std::numeric_limits<double>::max();

/// Whether a pivot was within half a deviation of the mean: the sum of squares about it is then at
/// most 5/4 of that about the mean. NaN fails, and so does a sum that overflowed.
template <class D>
auto is_close(double n, D delta, D m2) {
  return (4 * n * delta * delta <= m2) & (m2 <= kMostDouble);
}

/// Up to kFloats groups of n elements each: sums about their pivots, and the moments these give.
struct Batch {
  alignas(64) float pivot[kFloats] = {};
  alignas(64) double sum[kFloats], square[kFloats];
  alignas(64) double delta[kFloats], m2[kFloats];

  /// Whether all pivots were close to the means. As moments_about() has it.
  bool finish(double n, bool use_mean) {
    Vector<int64_t> are_close = kDoubleIndices >= 0;
    for (int64_t i = 0; i < kFloats; i += kDoubles) {
      const auto squares = load_vector<Doubles>(square + i), zero = Doubles{};
      const Doubles d = use_mean ? load_vector<Doubles>(sum + i) / n : zero;
      const Doubles rest = fused(-n * d, d, squares), m = rest < 0 ? zero : rest;
      store_vector(delta + i, d);
      store_vector(m2 + i, m);
      are_close &= is_close(n, d, m);
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

  /// The same of groups [0, count), up to kFloats: what is computed from their lanes is computed
  /// together, and their pieces are read in turn, as they may stand beside each other. Calls use(i,
  /// moments) for each.
  template <class Use>
  void of_groups(const GroupOffsets* group, int64_t count, int64_t first, int64_t n,
                 const Use& use) const {
    const auto chunk = [&](int64_t i) {
      return Chunk{x_ + group[i][StatisticsPlan::kX], first, n};
    };
    Batch b;
    find_pivots(count, chunk, b);
    find_sums(count, chunk, b);
    const bool are_close = b.finish(double(n), plan_.use_mean);
    for (int64_t i = 0; i < count; ++i) {
      const Moments<float> m = {double(n), b.pivot[i], b.delta[i], b.m2[i]};
      use(i, are_close || is_close(m.n, m.delta, m.m2) ? m : about_mean(chunk(i), m));
    }
  }

 private:
  /// Elements [first, first + n) of a group that begins at x.
  struct Chunk {
    const T* x;
    int64_t first, n;
  };

  /// Long groups are read one after the other, as the processor foresees it.
  template <class ChunkOf>
  void find_pivots(int64_t count, const ChunkOf& chunk, Batch& b) const {
    if (!plan_.use_mean) return;
    if (plan_.group_size > kSample) {
      for (int64_t i = 0; i < count && rank_ > 1; ++i) b.pivot[i] = pivot_of_sample(chunk(i));
      return;  // those of rows are found where they are summed
    }
    Floats lanes[kFloats] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = sample(chunk(i));
    store_vector(b.pivot, guesses_of(sums_of_lanes(lanes), 1 / float(plan_.group_size)));
  }

  template <class ChunkOf>
  void find_sums(int64_t count, const ChunkOf& chunk, Batch& b) const {
    Floats lanes[kFloats] = {}, squares[kFloats] = {};
    if (rank_ > 1)
      sum_pieces(count, chunk, b.pivot, lanes, squares);
    else
      for (int64_t i = 0; i < count; ++i) {
        const RowSums sums = sums_of_row(chunk(i), b.pivot[i]);
        lanes[i] = sums.lanes();
        squares[i] = sums.square_lanes();
      }
    store_doubles(b.sum, sums_of_lanes(lanes));
    store_doubles(b.square, sums_of_lanes(squares));
  }

  template <class ChunkOf>
  void sum_pieces(int64_t count, const ChunkOf& chunk, const float* pivot, Floats* lanes,
                  Floats* squares) const {
    RowSums sums[kFloats];
    const T* x[kFloats];
    for (int64_t i = 0; i < count; ++i) x[i] = chunk(i).x;
    for_pieces(chunk(0), chunk(0).n, [&](int64_t at, int64_t n) {
      for (int64_t i = 0; i < count; ++i)
        sums[i].add(x[i] + at, n, broadcast(pivot[i]), plan_.use_mean);
    });
    for (int64_t i = 0; i < count; ++i) {
      lanes[i] = sums[i].lanes();
      squares[i] = sums[i].square_lanes();
    }
  }

  /// About a pivot that is found first, unless it is the mean of a short row.
  [[gnu::always_inline]] RowSums sums_of_row(const Chunk& c, float& pivot) const {
    if (plan_.use_mean && plan_.group_size > kSample) pivot = pivot_of_sample(c);
    return sums_about(pivot, c);
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
    for_pieces(c, n, [&](int64_t at, int64_t length) { sum += lanes_of_sum(c.x + at, length); });
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
    for_pieces(c, c.n, [&](int64_t at, int64_t length) {
      sums.add(c.x + at, length, broadcast(pivot), plan_.use_mean);
    });
    return sums;
  }

  template <class Fn>
  [[gnu::always_inline]] void for_pieces(const Chunk& c, int64_t n, const Fn& fn) const {
    for_axis_pieces(
        axes_, rank_, StridedOffsets<1>{}, c.first, n,
        [&](const StridedOffsets<1>& at, int64_t, int64_t length) { fn(at[0], length); });
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

/// Groups of one chunk each, or beside each other in short pieces: a few of them in turn.
template <class T>
void run_together(const StatisticsPlan& plan, const StatisticsResults& results,
                  const PackedChunks<T>& chunks) {
  constexpr int64_t kChunk = PackedChunks<T>::kChunk;
  parallel_for(plan.groups, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    GroupWalk group(plan.kept, plan.kept_rank, begin);
    Pace pace;
    for (int64_t g = begin; g < end; g += kFloats) {
      const int64_t count = std::min(kFloats, end - g);
      GroupOffsets at[kFloats];
      for (int64_t i = 0; i < count; ++i, group.advance()) at[i] = group.offsets();
      if (plan.group_size <= kChunk) {
        pace.add(count * plan.group_size);
        chunks.of_groups(at, count, 0, plan.group_size,
                         [&](int64_t i, const Moments<float>& m) { results.put(at[i], m); });
        continue;
      }
      LongSum<Moments<float>> whole[kFloats];
      for (int64_t first = 0; first < plan.group_size; first += kChunk) {
        pace.add(count * kChunk);
        chunks.of_groups(at, count, first, std::min(kChunk, plan.group_size - first),
                         [&](int64_t i, const Moments<float>& m) { whole[i].add(m); });
      }
      for (int64_t i = 0; i < count; ++i) results.put(at[i], whole[i].total());
    }
  });
}

/// Whether groups are in pieces so short that those of several are better read in turn, and threads
/// need not share groups.
bool are_pieces_short(const StatisticsPlan& plan) {
  const bool are_few = plan.groups < 4 * num_threads() && num_threads() > 1;
  return !are_few && plan.reduced_rank > 1 &&
         plan.reduced[plan.reduced_rank - 1].size <= kLongPiece;
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
  if (plan.group_size <= chunks.kChunk || are_pieces_short(plan))
    return run_together(plan, results, chunks);
  Chunks(plan, results, chunks).run();
}

template void statistics_rows<float>(const StatisticsPlan&, const Operands&);
template void statistics_rows<Float16>(const StatisticsPlan&, const Operands&);
template void statistics_rows<BFloat16>(const StatisticsPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
