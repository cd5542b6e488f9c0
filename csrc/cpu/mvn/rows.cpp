// Normalization of rows that are packed in memory, by explicit vectors.
#include "cpu/mvn/rows.h"

#include <memory>
#include <vector>

#include "cpu/mvn/column_layout.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/packed_sums.h"
#include "cpu/mvn/shared_parameters.h"
#include "cpu/mvn/widened_rows.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

constexpr int64_t kShortestPiece = 16;   // of a row that stands in several places
constexpr int64_t kBackBytes = 1 << 20;  // of x that are written forwards after reading it all
/// Bytes of x in a batch. With more of it reading no longer overlaps writing, unless it is ahead.
template <class T>
constexpr int64_t kBatchBytes = kIsHalf<T> ? 16384 : 4096;
/// The same of rows without an activation that share scale and bias.
constexpr int64_t kLeanBytes = 16384;
/// Bytes of rows whose shared scale and bias leave the first-level cache. A few of these rows are
/// written in turns of kColumns elements.
constexpr int64_t kLongBytes = 8000, kColumns = 2048, kMostLongRows = 8, kLongBatchBytes = 1 << 19;
constexpr int64_t kMostConvertedRows = 4;  // the same where scale or bias is converted each time
/// Bytes of a row that are read ahead while another is summed and written. Only conversions leave
/// room for it.
template <class T>
constexpr int64_t kMostAhead = kIsHalf<T> ? 1 << 18 : 0;

template <class T>
class PackedRows {
 public:
  PackedRows(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        inner_(plan.reduced[plan.reduced_rank - 1]),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[1], plan.scale_dtype, &kOne),
        bias_(o.inputs[2], plan.bias_dtype, &kZero),
        statistics_(plan, o),
        sums_(plan, x_),
        is_large_(is_large()),
        is_streamed_(is_large_ && x_ != y_),
        shared_scale_(scale_, plan, &MvnAxis::scale, head()),
        shared_bias_(bias_, plan, &MvnAxis::bias, head()),
        chunks_(sums_.chunks()),
        is_converted_(shared_scale_.is_in_parts() || shared_bias_.is_in_parts()) {
    const int64_t row_bytes = plan.group_size * int64_t(sizeof(T));
    const bool is_long =
        row_bytes >= kLongBytes && (shared_scale_.exists() || shared_bias_.exists());
    batch_ = is_converted_ ? kMostConvertedRows
             : is_long     ? std::clamp<int64_t>(kLongBatchBytes / row_bytes, 1, kMostLongRows)
                           : std::clamp<int64_t>(kBatchBytes<T> / row_bytes, 1, kMostRows);
    columns_ = is_long && batch_ > 1 ? kColumns : plan.group_size;
    const bool is_read_ahead =
        is_large_ && plan.kept_rank == 1 && sums_.is_in_one_piece() && row_bytes <= kMostAhead<T>;
    ahead_ = is_read_ahead ? plan.kept[0].x * batch_ : 0;
  }

  void run() const {
    const bool are_few = plan_.groups < 4 * num_threads() && num_threads() > 1;
    if ((are_few && chunks_ > 4) || are_rows_huge(plan_, sizeof(T))) return run_in_parts();
    parallel_for(plan_.groups, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> room(*this);
      Buffers& buffers = *room;
      Walk group(plan_.kept, plan_.kept_rank, begin);
      if (is_lean(buffers)) return run_lean(group.offsets(), begin, end - begin, buffers);
      for (int64_t g = begin; g < end; g += batch_)
        run_batch(group, g, std::min(batch_, end - g), end - g - batch_, buffers);
    });
  }

 private:
  using Sums = typename PackedSums<T>::Sums;

  /// One thread's space for what is not packed floats already, and where a batch stands.
  struct Buffers {
    alignas(64) float scale[kStretch], bias[kStretch];
    typename SharedRow<T>::Part shared_scale, shared_bias;
    Offsets at[kMostRows];

    explicit Buffers(const PackedRows& rows)
        : shared_scale(rows.shared_scale_.whole()), shared_bias(rows.shared_bias_.whole()) {
      const int64_t n = rows.plan_.group_size;
      if (rows.plan_.has_bias || !rows.has_bias_row() || !rows.inner_.scale) return;
      std::fill_n(bias, std::min(n, kStretch), -0.0f);  // to which a product is added unchanged
      if (n <= kStretch) shared_bias.row = bias;
    }
  };

  /// Whether rows stand at equal distances, if there are several, have no activation and may share
  /// scale and bias.
  bool may_be_lean() const {
    const MvnAxis& rows = plan_.kept[0];
    return plan_.kept_rank <= 1 && !rows.scale && !rows.bias && is_affine();
  }

  /// Whether a row has a scale and a bias, if any, for each position, and no activation.
  bool is_affine() const {
    return plan_.reduced_rank == 1 && inner_.scale && (inner_.bias || !plan_.has_bias) &&
           plan_.activation.kind == ActivationKind::identity;
  }

  /// Whether rows are ones that WidenedRows would take, if they stood at equal distances and shared
  /// scale and bias: their sums are then the same.
  bool is_widened() const {
    if constexpr (kIsHalf<T> && kHasLineVectors)
      return is_affine() && has_bias_row() && WidenedRows<T>::suits(plan_.group_size);
    return false;
  }

  bool finish_widened(const Offsets* at, int64_t count, Sums& sums,
                      Coefficients<kMostRows>& coefficients) const {
    for (int64_t i = 0; i < count; ++i) {
      if (WidenedRows<T>::find_near(plan_, x_ + at[i].x, sums, coefficients, i)) continue;
      sums.guess[i] = sums_.guess(at[i]);
      sums_.add_group(at[i], 0, sums, i);
      if (sums.finish_one(plan_, i, coefficients) || sums.correct_guess(plan_, i)) continue;
      sums_.add_group(at[i], 0, sums, i);
      sums.finish_surely(plan_, i, coefficients);
    }
    return true;
  }

  bool is_lean(const Buffers& buffers) const {
    return may_be_lean() && buffers.shared_scale.row &&
           (buffers.shared_bias.row || !has_bias_row());
  }

  void run_lean(const Offsets& at, int64_t first, int64_t count, const Buffers& buffers) const {
    const int64_t row_bytes = plan_.group_size * int64_t(sizeof(T));
    const bool are_in_turns = columns_ < plan_.group_size;
    typename LeanRows<T>::Plan lean = {plan_, plan_.kept[0].x, plan_.kept[0].y};
    lean.scale = buffers.shared_scale.row;
    lean.bias = has_bias_row() ? buffers.shared_bias.row : nullptr;
    lean.rows = are_in_turns             ? batch_
                : row_bytes < kLongBytes ? std::min(kLeanBytes / row_bytes, LeanRows<T>::kMost)
                                         : 1;
    lean.columns = columns_;
    lean.is_streamed = is_streamed_;
    lean.statistics = statistics_.are_wanted() ? &statistics_ : nullptr;
    lean.is_read_ahead = kIsHalf<T> ? ahead_ != 0 : is_large_ && !are_in_turns;
    if constexpr (kIsHalf<T> && kHasLineVectors)
      if (WidenedRows<T>::suit(lean)) {
        lean.is_streamed = is_large_;  // x's lines were read a few rows ago
        return Room<WidenedRows<T>>(lean, x_ + at.x, y_ + at.y, first)->run(count);
      }
    LeanRows<T>(lean, x_ + at.x, y_ + at.y, first).run(count);
  }

  /// Elements of a row before the first line of y, or -1 where rows differ.
  int64_t head() const {
    if (!is_streamed_) return 0;
    return plan_.group_size * int64_t(sizeof(T)) % 64 ? -1 : to_line(y_);
  }

  /// Whether x is read ahead, and y written past the caches. Where it is x it is not, as lines that
  /// were just read cost least where they are.
  bool is_large() const {
    const int64_t piece = inner_.size * int64_t(sizeof(T));
    const bool has_whole_lines = piece % 64 == 0 && bytes_to_line(y_) == 0,
               is_run = may_be_lean() && plan_.kept[0].y == plan_.group_size;
    return (piece >= 2048 || has_whole_lines || is_run) &&
           is_norm_streamed(plan_.groups * plan_.group_size * int64_t(sizeof(T)));
  }

  /// `more` groups of this thread follow the batch.
  void run_batch(Walk& group, int64_t first, int64_t count, int64_t more, Buffers& buffers) const {
    Sums sums;
    Offsets* const at = buffers.at;
    for (int64_t i = 0; i < count; ++i, group.advance()) {
      at[i] = group.offsets();
      fetch_end(y_ + at[i].y + plan_.group_size);
    }
    Coefficients<kMostRows> coefficients;
    if (!finish_batch(at, count, more, sums, coefficients))
      for (int64_t i = 0; i < count; ++i) {
        if (sums.correct_guess(plan_, i)) continue;
        sums_.add_group(at[i], 0, sums, i);
        sums.finish_surely(plan_, i, coefficients);
      }
    if (statistics_.are_wanted())
      for (int64_t i = 0; i < count; ++i) statistics_.put(first + i, sums.moments(plan_, i));
    write_batch(count, more, coefficients, buffers);
  }

  /// In turns of columns whose scale and bias stay in the first-level cache meanwhile.
  void write_batch(int64_t count, int64_t more, const Coefficients<kMostRows>& coefficients,
                   Buffers& buffers) const {
    const Offsets* const at = buffers.at;
    if (columns_ == plan_.group_size && plan_.reduced_rank == 1 && buffers.shared_scale.row &&
        (buffers.shared_bias.row || !has_bias_row()))
      return write_jointly(count, more, coefficients, buffers);
    for (int64_t first = 0; first < plan_.group_size; first += columns_) {
      if (is_converted_) {
        const int64_t most = columns_ + 64;  // up to the line after them
        buffers.shared_scale = shared_scale_.part(first, most, buffers.scale);
        buffers.shared_bias = shared_bias_.part(first, most, buffers.bias);
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = line_from(at[i], first), end = line_from(at[i], first + columns_);
        normalize(at[i], coefficients, i, begin, end - begin, i < more ? ahead_ : 0, buffers);
      }
    }
  }

  /// Without a mean and a bias there is a shorter formula.
  bool has_bias_row() const { return plan_.use_mean || plan_.has_bias; }

  /// All rows take the same positions of scale and bias, which are there.
  void write_jointly(int64_t count, int64_t more, const Coefficients<kMostRows>& c,
                     const Buffers& buffers) const {
    RowBatch<T, kMostRows> rows(count, plan_.group_size, is_streamed_, buffers.shared_scale.row,
                                buffers.shared_bias.row);
    for (int64_t i = 0; i < count; ++i) {
      const T* const x = x_ + buffers.at[i].x;
      const T* const ahead = ahead_ && i < more ? x + ahead_ : nullptr;
      rows.row[i] = {y_ + buffers.at[i].y, x, ahead, formula_of(c, i)};
    }
    apply_batch(plan_.activation, rows);
  }

  GroupFormula formula_of(const Coefficients<kMostRows>& c, int64_t i) const {
    return {c.pivot[i], c.factor[i], c.shift[i], c.near[i] != 0 && is_plain(plan_.activation)};
  }

  /// The first position from `position` on where a line of a group of y begins, or its end.
  int64_t line_from(const Offsets& group, int64_t position) const {
    if (position == 0 || position >= plan_.group_size) return std::min(position, plan_.group_size);
    const int64_t rest = bytes_to_line(y_ + group.y + position) / int64_t(sizeof(T));
    return std::min(position + rest, plan_.group_size);
  }

  /// A row's last line where it is written in part: stores past the caches wait for it otherwise.
  void fetch_end(const T* end) const {
    if (is_streamed_ && bytes_to_line(end) > 0) __builtin_prefetch(end, 1);
  }

  bool finish_batch(const Offsets* at, int64_t count, int64_t more, Sums& sums,
                    Coefficients<kMostRows>& coefficients) const {
    if (is_widened()) return finish_widened(at, count, sums, coefficients);
    if (chunks_ == 1 && count >= kFloats / 2) {
      sums_.add_short_groups(at, count, more, ahead_, sums);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        sums.guess[i] = sums_.guess(at[i]);
        sums_.add_group(at[i], i < more ? ahead_ : 0, sums, i);
      }
    }
    return finish_rows(plan_, count, sums, coefficients);
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_batch.
  void run_in_parts() const {
    const int64_t tasks = plan_.groups * chunks_;
    const std::unique_ptr<Sums[]> sums(new Sums[size_t(plan_.groups)]);
    const std::unique_ptr<Coefficients<kMostRows>[]> coefficients(
        new Coefficients<kMostRows>[size_t(plan_.groups)]);
    const std::unique_ptr<double[]> parts(new double[size_t(2 * tasks)]);
    for (int64_t g = 0; g < plan_.groups; ++g) sums[size_t(g)].guess[0] = sums_.guess(offsets(g));
    sum_parts(sums.get(), parts.get());
    std::vector<bool> is_good(size_t(plan_.groups), true);
    bool are_good = true;
    for (int64_t g = 0; g < plan_.groups; ++g)
      if (!sums[size_t(g)].finish_singly(plan_, 1, coefficients[size_t(g)]))
        are_good &= is_good[size_t(g)] = sums[size_t(g)].correct_guess(plan_, 0);
    if (!are_good) {
      sum_parts(sums.get(), parts.get());
      for (int64_t g = 0; g < plan_.groups; ++g)
        if (!is_good[size_t(g)]) sums[size_t(g)].finish_surely(plan_, 0, coefficients[size_t(g)]);
    }
    if (statistics_.are_wanted())
      for (int64_t g = 0; g < plan_.groups; ++g)
        statistics_.put(g, sums[size_t(g)].moments(plan_, 0));
    normalize_parts(coefficients.get());
  }

  Offsets offsets(int64_t g) const { return Walk(plan_.kept, plan_.kept_rank, g).offsets(); }

  void sum_parts(Sums* sums, double* parts) const {
    const int64_t tasks = plan_.groups * chunks_;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t g = task / chunks_;
        double* part = parts + 2 * task;
        part[0] = part[1] = 0;
        sums_.add_chunk(offsets(g), task % chunks_, sums[g].guess[0], 0, part[0], part[1]);
      }
    });
    for (int64_t g = 0; g < plan_.groups; ++g) {
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
    const int64_t tasks = plan_.groups * chunks_;
    constexpr int64_t kStride = kBackBytes / int64_t(sizeof(T)) / kStretch;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> buffers(*this);
      for (int64_t high = tasks - begin, low; high > tasks - end; high = low) {
        low = std::max({high - kStride, tasks - end, (high - 1) / chunks_ * chunks_});
        const int64_t g = low / chunks_, first = low % chunks_ * kStretch;
        normalize(offsets(g), coefficients[g], 0, first,
                  std::min((high - low) * kStretch, plan_.group_size - first), 0, *buffers);
      }
    });
  }

  /// Elements [first, first + n) of a group; what stands `ahead` of them in x is read ahead.
  void normalize(const Offsets& group, const Coefficients<kMostRows>& c, int64_t i, int64_t first,
                 int64_t n, int64_t ahead, Buffers& buffers) const {
    if (plan_.reduced_rank == 1) {
      Offsets at = group;
      at.add(inner_, first);
      return normalize_piece(at, first, n, ahead, formula_of(c, i), buffers);
    }
    for_pieces(plan_.reduced, plan_.reduced_rank, group, first, n,
               [&](const Offsets& at, int64_t, int64_t length) {
                 normalize_piece(at, 0, length, ahead, formula_of(c, i), buffers);
               });
  }

  /// `position` is where the piece stands in a shared row.
  void normalize_piece(const Offsets& at, int64_t position, int64_t n, int64_t ahead,
                       const GroupFormula& formula, Buffers& buffers) const {
    const Flow<T> flow = {is_streamed_, ahead ? x_ + at.x + ahead : nullptr};
    if (inner_.scale == 0 && inner_.bias == 0)
      return apply_uniform(plan_.activation, y_ + at.y, x_ + at.x, n, formula, scale_.at(at.scale),
                           bias_.at(at.bias), flow);
    const auto &scales = buffers.shared_scale, &biases = buffers.shared_bias;
    const int64_t most = scales.row && (biases.row || !has_bias_row()) ? n : kStretch;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t length = std::min(most, n - i);
      Offsets o = at;
      o.add(inner_, i);
      const float* scale = scales.row
                               ? scales.at(position + i)
                               : row_of(scale_, o.scale, inner_.scale, length, buffers.scale);
      const float* bias = biases.row ? biases.at(position + i) : buffers.bias;
      if (plan_.has_bias && !biases.row)
        bias = row_of(bias_, o.bias, inner_.bias, length, buffers.bias);
      RowBatch<T, kMostRows> rows(1, length, is_streamed_, scale, has_bias_row() ? bias : nullptr);
      rows.row[0] = {y_ + o.y, x_ + o.x, flow.ahead ? flow.ahead + i : nullptr, formula};
      apply_batch(plan_.activation, rows);
    }
  }

  static constexpr float kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const MvnAxis& inner_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GroupStatistics statistics_;
  PackedSums<T> sums_;
  bool is_large_, is_streamed_;
  SharedRow<T> shared_scale_, shared_bias_;
  int64_t chunks_;
  bool is_converted_;        // scale or bias, for every batch
  int64_t batch_, columns_;  // rows that are read before they are written, and in what parts
  int64_t ahead_;            // from a row to the one that is read ahead, or 0
};

}  // namespace

bool are_rows_packed(const MvnPlan& plan) {
  if (plan.reduced_rank == 0 || !(plan.use_mean || plan.use_variance)) return false;
  const MvnAxis& inner = plan.reduced[plan.reduced_rank - 1];
  return inner.x == 1 && inner.y == 1 && inner.size >= kShortestPiece && !Layout::is_folded(plan);
}

template <class T>
void mvn_rows(const MvnPlan& plan, const Operands& operands) {
  PackedRows<T>(plan, operands).run();
}

template void mvn_rows<float>(const MvnPlan&, const Operands&);
template void mvn_rows<Float16>(const MvnPlan&, const Operands&);
template void mvn_rows<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
