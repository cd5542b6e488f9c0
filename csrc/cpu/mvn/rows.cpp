// Normalization of rows that are packed in memory, by explicit vectors.
#include "cpu/mvn/rows.h"

#include <memory>
#include <vector>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/column_layout.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/packed_results.h"
#include "cpu/mvn/packed_sums.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

using tuning::mvn::kBackBytes;
using tuning::mvn::kLeanBytes;
using tuning::mvn::kShortestPiece;

template <class T>
class PackedRows {
 public:
  PackedRows(const MvnPlan& plan, const Operands& o, const MvnPlan* scattered = nullptr)
      : sums_(plan, static_cast<const T*>(o.inputs[0])),
        chunks_(sums_.chunks()),
        p_(plan, o, sums_.is_in_one_piece(), scattered),
        results_(p_),
        statistics_(plan, o) {}

  void run() const {
    const bool are_few = p_.plan.groups < 4 * num_threads() && num_threads() > 1;
    if ((are_few && chunks_ > 4) || are_rows_huge(p_.plan, sizeof(T))) return run_in_parts();
    parallel_for(p_.plan.groups, p_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> room(p_);
      Buffers& buffers = *room;
      Walk group(p_.plan.kept, p_.plan.kept_rank, begin);
      if (is_lean(buffers)) return run_lean(group.offsets(), begin, end - begin, buffers);
      for (int64_t g = begin; g < end; g += p_.batch)
        run_batch(group, g, std::min(p_.batch, end - g), end - g - p_.batch, buffers);
    });
  }

 private:
  using Sums = typename PackedSums<T>::Sums;
  using Buffers = PackedBuffers<T>;

  bool finish_widened(const Offsets* at, int64_t count, Sums& sums,
                      Coefficients<kMostRows>& coefficients) const {
    for (int64_t i = 0; i < count; ++i) {
      if (find_near(p_.plan, p_.x + at[i].x, sums, coefficients, i)) continue;
      sums.guess[i] = sums_.guess(at[i]);
      sums_.add_group(at[i], 0, sums, i);
      if (sums.finish_one(p_.plan, i, coefficients) || sums.correct_guess(p_.plan, i)) continue;
      sums_.add_group(at[i], 0, sums, i);
      sums.finish_surely(p_.plan, i, coefficients);
    }
    return true;
  }

  bool is_lean(const Buffers& buffers) const {
    return p_.may_be_lean() && buffers.shared_scale.row &&
           (buffers.shared_bias.row || !p_.has_bias_row());
  }

  void run_lean(const Offsets& at, int64_t first, int64_t count, const Buffers& buffers) const {
    const int64_t row_bytes = p_.plan.group_size * int64_t(sizeof(T));
    const bool are_in_turns = p_.columns < p_.plan.group_size;
    LeanPlan lean = {p_.plan, p_.plan.kept[0].x, p_.plan.kept[0].y};
    lean.scale = buffers.shared_scale.row;
    lean.bias = p_.has_bias_row() ? buffers.shared_bias.row : nullptr;
    lean.rows = are_in_turns             ? p_.batch
                : row_bytes < kLongBytes ? std::min(kLeanBytes / row_bytes, LeanRows<T>::kMost)
                                         : 1;
    lean.columns = p_.columns;
    lean.is_streamed = p_.is_streamed;
    lean.statistics = statistics_.are_wanted() ? &statistics_ : nullptr;
    lean.is_read_ahead = kIsHalf<T> ? p_.ahead != 0 : p_.is_large && !are_in_turns;
    if constexpr (kIsHalf<T> && kHasLineVectors)
      if (WidenedRows<T>::suit(lean)) {
        lean.is_streamed = p_.is_large;  // x's lines were read a few rows ago
        return Room<WidenedRows<T>>(lean, p_.x + at.x, p_.y + at.y, first)->run(count);
      }
    LeanRows<T>(lean, p_.x + at.x, p_.y + at.y, first).run(count);
  }

  /// `more` groups of this thread follow the batch.
  void run_batch(Walk& group, int64_t first, int64_t count, int64_t more, Buffers& buffers) const {
    Sums sums;
    Offsets* const at = buffers.at;
    for (int64_t i = 0; i < count; ++i, group.advance()) {
      at[i] = group.offsets();
      fetch_end(p_.y + at[i].y + p_.plan.group_size);
    }
    Coefficients<kMostRows> coefficients;
    if (!finish_batch(at, count, more, sums, coefficients))
      for (int64_t i = 0; i < count; ++i) {
        if (sums.correct_guess(p_.plan, i)) continue;
        sums_.add_group(at[i], 0, sums, i);
        sums.finish_surely(p_.plan, i, coefficients);
      }
    if (statistics_.are_wanted())
      for (int64_t i = 0; i < count; ++i) statistics_.put(first + i, sums.moments(p_.plan, i));
    results_.write_batch(count, more, coefficients, buffers);
  }

  /// A row's last line where it is written in part: stores past the caches wait for it otherwise.
  void fetch_end(const T* end) const {
    if (p_.is_streamed && bytes_to_line(end) > 0) __builtin_prefetch(end, 1);
  }

  bool finish_batch(const Offsets* at, int64_t count, int64_t more, Sums& sums,
                    Coefficients<kMostRows>& coefficients) const {
    if (p_.is_widened()) return finish_widened(at, count, sums, coefficients);
    if (chunks_ == 1 && count >= kFloats / 2) {
      sums_.add_short_groups(at, count, more, p_.ahead, sums);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        sums.guess[i] = sums_.guess(at[i]);
        sums_.add_group(at[i], i < more ? p_.ahead : 0, sums, i);
      }
    }
    return finish_rows(p_.plan, count, sums, coefficients);
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_batch.
  void run_in_parts() const {
    const int64_t tasks = p_.plan.groups * chunks_;
    const std::unique_ptr<Sums[]> sums(new Sums[size_t(p_.plan.groups)]);
    const std::unique_ptr<Coefficients<kMostRows>[]> coefficients(
        new Coefficients<kMostRows>[size_t(p_.plan.groups)]);
    const std::unique_ptr<double[]> parts(new double[size_t(2 * tasks)]);
    for (int64_t g = 0; g < p_.plan.groups; ++g) sums[size_t(g)].guess[0] = sums_.guess(offsets(g));
    sum_parts(sums.get(), parts.get());
    std::vector<bool> is_good(size_t(p_.plan.groups), true);
    bool are_good = true;
    for (int64_t g = 0; g < p_.plan.groups; ++g)
      if (!sums[size_t(g)].finish_singly(p_.plan, 1, coefficients[size_t(g)]))
        are_good &= is_good[size_t(g)] = sums[size_t(g)].correct_guess(p_.plan, 0);
    if (!are_good) {
      sum_parts(sums.get(), parts.get());
      for (int64_t g = 0; g < p_.plan.groups; ++g)
        if (!is_good[size_t(g)]) sums[size_t(g)].finish_surely(p_.plan, 0, coefficients[size_t(g)]);
    }
    if (statistics_.are_wanted())
      for (int64_t g = 0; g < p_.plan.groups; ++g)
        statistics_.put(g, sums[size_t(g)].moments(p_.plan, 0));
    normalize_parts(coefficients.get());
  }

  Offsets offsets(int64_t g) const { return Walk(p_.plan.kept, p_.plan.kept_rank, g).offsets(); }

  void sum_parts(Sums* sums, double* parts) const {
    const int64_t tasks = p_.plan.groups * chunks_;
    parallel_for(tasks, p_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t g = task / chunks_;
        double* part = parts + 2 * task;
        part[0] = part[1] = 0;
        sums_.add_chunk(offsets(g), task % chunks_, sums[g].guess[0], 0, part[0], part[1]);
      }
    });
    for (int64_t g = 0; g < p_.plan.groups; ++g) {
      double sum = 0, square = 0;
      for (int64_t c = 0; c < chunks_; ++c) {
        sum += parts[2 * (g * chunks_ + c)];
        square += parts[2 * (g * chunks_ + c) + 1];
      }
      sums[g].sum[0] = sum;
      sums[g].square[0] = square;
    }
  }

  /// Backwards, as what was read last may still be in the caches, but in strides long enough for
  /// the processor to foresee what is read next.
  void normalize_parts(const Coefficients<kMostRows>* coefficients) const {
    const int64_t tasks = p_.plan.groups * chunks_;
    constexpr int64_t kStride = kBackBytes / int64_t(sizeof(T)) / kStretch;
    parallel_for(tasks, p_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> buffers(p_);
      for (int64_t high = tasks - begin, low; high > tasks - end; high = low) {
        low = std::max({high - kStride, tasks - end, (high - 1) / chunks_ * chunks_});
        const int64_t g = low / chunks_, first = low % chunks_ * kStretch;
        results_.normalize(offsets(g), coefficients[g], 0, first,
                           std::min((high - low) * kStretch, p_.plan.group_size - first), 0,
                           *buffers);
      }
    });
  }

  const PackedSums<T> sums_;
  const int64_t chunks_;
  const PackedLayout<T> p_;
  const PackedResults<T> results_;
  const GroupStatistics statistics_;
};

}  // namespace

bool are_rows_packed(const MvnPlan& plan) {
  if (plan.reduced_rank == 0 || !(plan.use_mean || plan.use_variance)) return false;
  if (is_scattered(plan))
    return plan.group_size >= kShortestPiece && are_rows_packed(gathered(plan));
  if (parameter_pieces(plan) != ParameterPieces::none && plan.group_size >= kShortestPiece)
    return true;
  const MvnAxis& inner = plan.reduced[plan.reduced_rank - 1];
  return inner.x == 1 && inner.y == 1 && inner.size >= kShortestPiece && !Layout::is_folded(plan);
}

template <class T>
void mvn_rows(const MvnPlan& plan, const Operands& operands) {
  if (is_scattered(plan))
    PackedRows<T>(gathered(plan), operands, &plan).run();
  else
    PackedRows<T>(plan, operands).run();
}

template void mvn_rows<float>(const MvnPlan&, const Operands&);
template void mvn_rows<Float16>(const MvnPlan&, const Operands&);
template void mvn_rows<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
