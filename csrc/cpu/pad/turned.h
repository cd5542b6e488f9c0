// Copies that turn rows into columns: dimensions without pads, of which another is packed in x than
// in the result.
#pragma once

#include "cpu/memory/strided_walk.h"
#include "cpu/simd/lanes.h"
#include "cpu/simd/square.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"
#include "ops/pad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The dimension that is packed in x, or -1 where the copy has no squares.
inline int turned_axis(const PadPlan& plan) {
  int turned = -1;
  for (int d = 0; d < plan.rank; ++d) {
    if (plan.axis[d].is_padded()) return -1;
    if (plan.axis[d].x_stride == 1) turned = d;
  }
  return plan.axis[plan.rank - 1].y_stride == 1 && turned < plan.rank - 1 ? turned : -1;
}

/// T is an unsigned integer of the elements' size.
template <class T>
class TurnedCopy {
 public:
  static bool fits(const PadPlan& plan) {
    const int turned = turned_axis(plan);
    return turned >= 0 && plan.axis[turned].out >= k && plan.axis[plan.rank - 1].out >= k;
  }

  TurnedCopy(const PadPlan& plan, const T* x, T* y)
      : x_(x), y_(y), columns_(plan.axis[plan.rank - 1]), rows_(plan.axis[turned_axis(plan)]) {
    for (int d = 0; d < plan.rank - 1; ++d)
      if (d != turned_axis(plan))
        outer_[rank_++] = {plan.axis[d].out, {plan.axis[d].y_stride, plan.axis[d].x_stride}};
    for (int d = 0; d < rank_; ++d) count_ *= outer_[d].size;
  }

  /// A task is some columns of a square's rows of the result.
  void run(int64_t bytes) const {
    const int64_t parts = (rows_.out + k - 1) / k, pieces = (columns_.out + kPiece - 1) / kPiece;
    parallel_for(count_ * parts * pieces, bytes, [&](int64_t begin, int64_t end) {
      Pace pace;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task / pieces, from = task % pieces * kPiece,
                      to = std::min(from + kPiece, columns_.out);
        const StridedOffsets<2> at = StridedWalk<2>(outer_, rank_, part / parts).offsets();
        const int64_t first = std::min(part % parts * k, rows_.out - k);
        turn_rows(y_ + at[0] + first * rows_.y_stride, x_ + at[1] + first, from, to);
        pace.add(k * (to - from));
      }
    });
  }

 private:
  static constexpr int64_t k = kSide<T>;
  static constexpr int64_t kPiece = 4096;  // columns of a task, a multiple of k

  /// Columns [from, to). The last square takes columns of the one before it again.
  void turn_rows(T* y, const T* x, int64_t from, int64_t to) const {
    for (int64_t column = from; column < to; column += k) {
      const int64_t at = std::min(column, columns_.out - k);
      SquareRow<T> rows[k];
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r)
        rows[r] = load_vector<SquareRow<T>>(x + (at + r) * columns_.x_stride);
      turn<T>(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) store_vector(y + r * rows_.y_stride + at, rows[r]);
    }
  }

  const T* x_;
  T* y_;
  const PadAxis &columns_, &rows_;  // packed in the result, and in x
  StridedAxis<2> outer_[kMaxRank];  // of the result and of x
  int rank_ = 0;
  int64_t count_ = 1;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
