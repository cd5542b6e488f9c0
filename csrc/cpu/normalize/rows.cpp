// Normalization with given statistics of packed rows, by explicit vectors.
#include "cpu/normalize/rows.h"

#include "cpu/memory/tuning.h"
#include "cpu/normalize/following.h"
#include "cpu/normalize/given.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::normalize::kConverted;
using tuning::normalize::kMostRows;
using tuning::normalize::kPart;
using tuning::normalize::kShortestRow;

/// Scale or bias along a row as floats: in place, or in a room that keeps them for other rows.
class FloatRow {
 public:
  template <class T>
  const float* of(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t n) {
    if (p.is_wide && stride == 1) return static_cast<const float*>(p.data) + offset;
    if (offset == offset_ && n <= count_) return room_;
    if (stride == 0)
      std::fill_n(room_, n, p.at(offset));
    else
      p.copy(offset, stride, n, room_);
    offset_ = offset;
    count_ = n;
    return room_;
  }

 private:
  alignas(64) float room_[kConverted];
  int64_t offset_ = 0, count_ = 0;
};

template <class T>
class Rows {
 public:
  using Plan = NormalizePlan;

  Rows(const Plan& plan, const Operands& o)
      : plan_(plan),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[3], plan.scale_dtype, &kOne),
        bias_(o.inputs[4], plan.bias_dtype, &kZero),
        given_(plan, o),
        inner_(plan.axis[plan.rank - 1]),
        rows_(plan.rank > 1 ? plan.axis[plan.rank - 2] : Plan::Axis{}),
        parts_((inner_.size + kPart - 1) / kPart),
        block_(std::min(rows_.size, kMostRows)),
        turn_(std::clamp<int64_t>(kPart / inner_.size, 1, block_)),
        turns_((block_ + turn_ - 1) / turn_),
        is_uniform_(inner_.stride[Plan::kScale] == 0 && inner_.stride[Plan::kBias] == 0),
        has_delta_(plan.has_mean && plan.mean_dtype == Dtype::float64),
        do_follow_(is_uniform_ && parts_ == 1 && rows_.stride[Plan::kX] == inner_.size &&
                   rows_.stride[Plan::kY] == inner_.size),
        is_streamed_(is_copy_streamed(plan.elements * int64_t(sizeof(T))) &&
                     is_given_streamed(plan, x_, y_, do_follow_)) {}

  void run() const {
    const int64_t outer = plan_.elements / (rows_.size * inner_.size);
    const int64_t blocks = (rows_.size + block_ - 1) / block_;
    const int64_t tasks = blocks * outer * turns_ * parts_;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> buffers;
      Pace pace;
      for (int64_t task = begin; task < end; ++task) {
        pace.add(kPart);
        // The same rows of all positions outside of them are likely to have the same statistics.
        const int64_t turn = task / parts_, place = turn / turns_;
        NormalizeOffsets at =
            StridedWalk<Plan::kTensors>(plan_.axis, plan_.rank - 2, place % outer).offsets();
        const int64_t first = place / outer * block_;
        at.add(rows_, first);
        run_rows(at, std::min(block_, rows_.size - first), turn % turns_ * turn_,
                 task % parts_ * kPart, *buffers);
      }
    });
  }

 private:
  /// What normalizing needs of some rows.
  struct Buffers {
    FloatRow scale_row, bias_row;
    float pivot[kMostRows], delta[kMostRows], factor[kMostRows], scale[kMostRows], bias[kMostRows];
    NormalizeOffsets at;  // of the first of them
    int64_t count = 0;

    bool are_of(const NormalizeOffsets& o, int64_t n) const {
      return n == count && o.are_same(at, Plan::kMean, Plan::kTensors);
    }
  };

  /// A turn of a block of `count` rows, from row `begin` on: elements from `first` on, up to a part
  /// of each row.
  void run_rows(NormalizeOffsets at, int64_t count, int64_t begin, int64_t first,
                Buffers& b) const {
    if (begin >= count) return;  // a turn that the last block, of fewer rows, does not have
    fill(at, count, b);
    at.add(rows_, begin);
    at.add(inner_, first);
    const int64_t n = std::min(kPart, inner_.size - first), end = std::min(count, begin + turn_);
    const RowConstants constants = {b.pivot, b.delta, b.factor, b.scale, b.bias};
    if (is_uniform_ && has_delta_) return write_uniform<GivenUniform>(at, n, begin, end, constants);
    if (is_uniform_) return write_uniform<GivenNearUniform>(at, n, begin, end, constants);
    for (int64_t r = begin; r < end; ++r, at.add(rows_, 1))
      write_affine(
          at, n,
          {broadcast(b.pivot[r]), broadcast(b.delta[r]), broadcast(b.factor[r]), nullptr, nullptr},
          b);
  }

  /// n elements of each of rows [begin, end) whose scale and bias are the same along them.
  template <class Formula>
  void write_uniform(NormalizeOffsets at, int64_t n, int64_t begin, int64_t end,
                     const RowConstants& constants) const {
    if (do_follow_ &&
        write_following<Formula>(plan_.activation, y_ + at[Plan::kY], x_ + at[Plan::kX], n,
                                 end - begin, constants.from(begin), is_streamed_))
      return;
    for (int64_t r = begin; r < end; ++r, at.add(rows_, 1)) write(at, n, constants.of<Formula>(r));
  }

  void write_affine(NormalizeOffsets at, int64_t n, GivenAffine formula, Buffers& b) const {
    for (; n > 0; n -= kConverted, at.add(inner_, kConverted)) {
      const int64_t now = std::min(kConverted, n);
      formula.scale = b.scale_row.of(scale_, at[Plan::kScale], inner_.stride[Plan::kScale], now);
      formula.bias = b.bias_row.of(bias_, at[Plan::kBias], inner_.stride[Plan::kBias], now);
      write(at, now, formula);
    }
  }

  /// What is the same along each row, unless it is there already.
  void fill(const NormalizeOffsets& at, int64_t count, Buffers& b) const {
    if (b.are_of(at, count)) return;
    b.at = at;
    b.count = count;
    given_.fill(at, rows_, count, b.pivot, b.delta, b.factor);
    scale_.copy(at[Plan::kScale], rows_.stride[Plan::kScale], count, b.scale);
    bias_.copy(at[Plan::kBias], rows_.stride[Plan::kBias], count, b.bias);
  }

  template <class Formula>
  void write(const NormalizeOffsets& at, int64_t n, const Formula& formula) const {
    const T* const x = x_ + at[Plan::kX];
    apply_given(plan_.activation, y_ + at[Plan::kY], x, n, formula,
                {is_streamed_, is_streamed_ ? x + kAhead : nullptr});
  }

  static constexpr float kOne = 1, kZero = 0;
  static constexpr int64_t kAhead = tuning::normalize::kRowAheadBytes / int64_t(sizeof(T));

  const Plan& plan_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GivenStatistics<float> given_;
  const Plan::Axis& inner_;
  Plan::Axis rows_;       // beside each other
  int64_t parts_;         // of a row
  int64_t block_;         // rows whose statistics are there at once
  int64_t turn_, turns_;  // of a block: rows of a task, tasks
  bool is_uniform_, has_delta_;
  bool do_follow_;  // rows each other, and each is one part
  bool is_streamed_;
};

}  // namespace

bool are_statistics_of_rows(const NormalizePlan& plan) {
  if (plan.rank == 0) return false;
  const auto& [size, stride] = plan.axis[plan.rank - 1];
  return size >= kShortestRow && stride[NormalizePlan::kX] == 1 && stride[NormalizePlan::kY] == 1 &&
         stride[NormalizePlan::kMean] == 0 && stride[NormalizePlan::kVariance] == 0;
}

template <class T>
void normalize_rows(const NormalizePlan& plan, const Operands& operands) {
  Rows<T>(plan, operands).run();
}

template void normalize_rows<float>(const NormalizePlan&, const Operands&);
template void normalize_rows<Float16>(const NormalizePlan&, const Operands&);
template void normalize_rows<BFloat16>(const NormalizePlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
