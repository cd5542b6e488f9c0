// Normalization with given statistics of packed rows, by explicit vectors.
#include "cpu/normalize/rows.h"

#include "cpu/normalize/formulas.h"
#include "cpu/normalize/given.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kShortestRow = 16;
constexpr int64_t kPart = 1 << 14;    // elements of a row that are one task
constexpr int64_t kBlock = 4096;      // elements whose scale and bias are converted at once
constexpr int64_t kLeastTurn = 2048;  // bytes of rows that are written past the caches

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
  alignas(64) float room_[kBlock];
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
        parts_((inner_.size + kPart - 1) / kPart),
        is_uniform_(inner_.stride[Plan::kScale] == 0 && inner_.stride[Plan::kBias] == 0),
        is_streamed_(x_ != y_ && is_copy_streamed(plan.elements * int64_t(sizeof(T))) &&
                     inner_.size * int64_t(sizeof(T)) >= kLeastTurn) {}

  void run() const {
    const int64_t tasks = plan_.elements / inner_.size * parts_;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> buffers;
      StridedWalk<Plan::kTensors> row(plan_.axis, plan_.rank - 1, begin / parts_);
      Pace pace;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts_, n = std::min(kPart, inner_.size - part * kPart);
        pace.add(n);
        run_part(row.offsets(), part * kPart, n, *buffers);
        if (part + 1 == parts_) row.advance();
      }
    });
  }

 private:
  struct Buffers {
    FloatRow scale, bias;
  };

  /// Elements [first, first + n) of a row.
  void run_part(NormalizeOffsets at, int64_t first, int64_t n, Buffers& buffers) const {
    const Normalizer<float> normal = given_.at(at);
    const Floats pivot = broadcast(normal.pivot), delta = broadcast(normal.delta),
                 factor = broadcast(normal.factor);
    at.add(inner_, first);
    if (is_uniform_) {
      const Floats scale = broadcast(scale_.at(at[Plan::kScale])),
                   bias = broadcast(bias_.at(at[Plan::kBias]));
      return write(at, n, GivenUniform{pivot, delta, factor, scale, bias});
    }
    for (; n > 0; n -= kBlock, at.add(inner_, kBlock)) {
      const int64_t now = std::min(kBlock, n);
      const float* scale =
          buffers.scale.of(scale_, at[Plan::kScale], inner_.stride[Plan::kScale], now);
      const float* bias = buffers.bias.of(bias_, at[Plan::kBias], inner_.stride[Plan::kBias], now);
      write(at, now, GivenAffine{pivot, delta, factor, scale, bias});
    }
  }

  template <class Formula>
  void write(const NormalizeOffsets& at, int64_t n, const Formula& formula) const {
    apply_given(plan_.activation, y_ + at[Plan::kY], x_ + at[Plan::kX], n, formula, is_streamed_);
  }

  static constexpr float kOne = 1, kZero = 0;

  const Plan& plan_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GivenStatistics<float> given_;
  const Plan::Axis& inner_;
  int64_t parts_;  // of a row
  bool is_uniform_, is_streamed_;
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
