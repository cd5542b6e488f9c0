// Normalization with given statistics on the CPU: x read along its memory, in chunks that the cache
// holds.
#include "cpu/normalize/plain.h"

#include "cpu/memory/tuning.h"
#include "cpu/normalize/formulas.h"
#include "cpu/normalize/given.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kNormalizeChunk = 1024;
using tuning::normalize::kShortRow;

/// One thread's rows, in the type of the computation. They begin at different places of a page.
template <class A>
struct NormalizeRows {
  static constexpr int64_t kLength = kNormalizeChunk + 64 / int64_t(sizeof(A));
  alignas(64) A x[kLength], y[kLength], scale[kLength], bias[kLength], pivot[kLength],
      delta[kLength], factor[kLength];
};

template <class T>
class Positions {
 public:
  using A = Acc<T>;
  using Rows = NormalizeRows<A>;
  using Plan = NormalizePlan;

  Positions(const Plan& plan, const Operands& o)
      : plan_(plan),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[3], plan.scale_dtype, &kOne),
        bias_(o.inputs[4], plan.bias_dtype, &kZero),
        given_(plan, o),
        rank_(std::max(plan.rank, 1)),
        inner_(plan.axis[rank_ - 1]) {}

  void run() const {
    const int64_t chunks = (plan_.elements + kNormalizeChunk - 1) / kNormalizeChunk;
    const bool are_short = rank_ > 1 && inner_.size < kShortRow;
    parallel_for(chunks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Rows> rows;
      Pace pace;
      for (int64_t i = begin; i < end; ++i) {
        pace.add(kNormalizeChunk);
        const int64_t first = i * kNormalizeChunk;
        const int64_t n = std::min(kNormalizeChunk, plan_.elements - first);
        if (are_short)
          run_packed(first, n, *rows);
        else
          run_rows(first, n, *rows);
      }
    });
  }

 private:
  template <class Fn>
  void for_rows(int64_t first, int64_t n, const Fn& fn) const {
    for_axis_pieces(plan_.axis, rank_, NormalizeOffsets{}, first, n, fn);
  }

  void run_rows(int64_t first, int64_t n, Rows& rows) const {
    const bool is_shared = inner_.stride[Plan::kMean] == 0 && inner_.stride[Plan::kVariance] == 0;
    for_rows(first, n, [&](const NormalizeOffsets& at, int64_t, int64_t length) {
      if (is_shared) {
        const Normalizer<A> normal = given_.at(at);
        return write(at, length, [=](A value, int64_t) { return normal(value); }, rows);
      }
      given_.fill(at, inner_, length, rows.pivot, rows.delta, rows.factor);
      write(at, length, normalized_in(rows), rows);
    });
  }

  /// A value at a place of the rows.
  static auto normalized_in(const Rows& rows) {
    const A *pivot = rows.pivot, *delta = rows.delta, *factor = rows.factor;
    return [=](A value, int64_t i) { return ((value - pivot[i]) - delta[i]) * factor[i]; };
  }

  template <class Normalize>
  void write(const NormalizeOffsets& at, int64_t n, const Normalize& normalized, Rows& rows) const {
    const Operand<A> scale =
        operand_of(scale_, at[Plan::kScale], inner_.stride[Plan::kScale], n, rows.scale);
    const Operand<A> bias =
        operand_of(bias_, at[Plan::kBias], inner_.stride[Plan::kBias], n, rows.bias);
    const A* x = rows.x;
    if (std::is_same_v<T, A> && inner_.stride[Plan::kX] == 1)
      x = reinterpret_cast<const A*>(x_ + at[Plan::kX]);
    else
      load_row<T>(rows.x, x_ + at[Plan::kX], inner_.stride[Plan::kX], n);
    T* const y = y_ + at[Plan::kY];
    A* out = rows.y;
    if constexpr (std::is_same_v<T, A>)
      if (inner_.stride[Plan::kY] == 1) out = y;
    normalize_row(out, x, n, normalized, scale, bias);
    activate_row(plan_.activation, out, n);
    if (out == rows.y) store_row<T>(y, inner_.stride[Plan::kY], out, n);
  }

  /// A chunk of short stretches: everything is packed, and the result handed out again.
  void run_packed(int64_t first, int64_t n, Rows& rows) const {
    for_rows(first, n, [&](const NormalizeOffsets& at, int64_t to, int64_t length) {
      load_row<T>(rows.x + to, x_ + at[Plan::kX], inner_.stride[Plan::kX], length);
      for (int64_t i = 0; i < length; ++i) {
        rows.scale[to + i] = scale_.at(at[Plan::kScale] + i * inner_.stride[Plan::kScale]);
        rows.bias[to + i] = bias_.at(at[Plan::kBias] + i * inner_.stride[Plan::kBias]);
      }
      given_.fill(at, inner_, length, rows.pivot + to, rows.delta + to, rows.factor + to);
    });
    normalize_row(rows.y, rows.x, n, normalized_in(rows), {rows.scale}, {rows.bias});
    activate_row(plan_.activation, rows.y, n);
    for_rows(first, n, [&](const NormalizeOffsets& at, int64_t from, int64_t length) {
      store_row<T>(y_ + at[Plan::kY], inner_.stride[Plan::kY], rows.y + from, length);
    });
  }

  static constexpr A kOne = 1, kZero = 0;

  const Plan& plan_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GivenStatistics<A> given_;
  int rank_;
  const Plan::Axis& inner_;
};

}  // namespace

template <class T>
void normalize_plain(const NormalizePlan& plan, const Operands& operands) {
  if (!plan.is_empty()) Positions<T>(plan, operands).run();
}

template void normalize_plain<float>(const NormalizePlan&, const Operands&);
template void normalize_plain<double>(const NormalizePlan&, const Operands&);
template void normalize_plain<Float16>(const NormalizePlan&, const Operands&);
template void normalize_plain<BFloat16>(const NormalizePlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
