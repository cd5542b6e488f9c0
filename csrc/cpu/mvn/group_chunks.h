// Chunks of groups on the CPU in the type of the computation: x as packed rows, and results by the
// plain formula.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/moments.h"
#include "cpu/mvn/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One thread's space for a chunk of each tensor, in the type of the computation. Arrays begin at
/// different places of a page: lines that meet in one set of the first-level cache slow each other.
template <class A>
struct ChunkBuffers {
  static constexpr int64_t kLength = kChunk<A> + 1280 / int64_t(sizeof(A));
  alignas(64) A x[kLength], y[kLength], scale[kLength], bias[kLength];
};

/// Positions [first, first + n) of the group that stands at `group`.
struct GroupChunk {
  Offsets group;
  int64_t first, n;
};

/// A plan's x in chunks.
template <class T>
class GroupChunks {
 public:
  using A = Acc<T>;

  GroupChunks(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        x_(static_cast<const T*>(o.inputs[0])),
        x_rank_(join_for_x(plan.reduced, std::max(plan.reduced_rank, 1), x_axes_)),
        count_((plan.group_size + kChunk<A> - 1) / kChunk<A>) {}

  /// Of a group.
  int64_t count() const { return count_; }

  GroupChunk chunk(const Offsets& group, int64_t index) const {
    const int64_t first = index * kChunk<A>;
    return {group, first, std::min(kChunk<A>, plan_.group_size - first)};
  }

  /// The chunk of x as a packed row: in place where it is one, else in `buffer`.
  const A* pack(const GroupChunk& c, A* buffer) const {
    const MvnAxis& inner = x_axes_[x_rank_ - 1];
    if constexpr (std::is_same_v<T, A>)
      if (x_rank_ == 1 && inner.x == 1) return x_ + c.group.x + c.first;
    for_axis_pieces(x_axes_, x_rank_, c.group, c.first, c.n,
                    [&](const Offsets& at, int64_t to, int64_t n) {
                      load_row<T>(buffer + to, x_ + at.x, inner.x, n);
                    });
    return buffer;
  }

 private:
  const MvnPlan& plan_;
  const T* x_;
  MvnAxis x_axes_[kMaxRank];
  int x_rank_;
  int64_t count_;
};

/// A plan's results, chunk by chunk.
template <class T>
class GroupResults {
 public:
  using A = Acc<T>;

  /// Scale and bias of a whole group where all groups share them and one chunk holds them.
  struct Rows {
    const A *scale = nullptr, *bias = nullptr;
  };

  GroupResults(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[1], plan.scale_dtype, &kOne),
        bias_(o.inputs[2], plan.bias_dtype, &kZero),
        rank_(std::max(plan.reduced_rank, 1)),
        are_pieces_short_(rank_ > 1 && plan.reduced[rank_ - 1].size < kShortPiece) {}

  Rows common_rows(ChunkBuffers<A>& buffers) const {
    Rows rows;
    if (rank_ > 1 || plan_.group_size > kChunk<A>) return rows;
    bool is_common_scale = true, is_common_bias = true;
    for (int d = 0; d < plan_.kept_rank; ++d) {
      is_common_scale &= plan_.kept[d].scale == 0;
      is_common_bias &= plan_.kept[d].bias == 0;
    }
    const MvnAxis& a = plan_.reduced[0];
    if (is_common_scale && a.scale) rows.scale = scale_.copy(0, a.scale, a.size, buffers.scale);
    if (is_common_bias && a.bias) rows.bias = bias_.copy(0, a.bias, a.size, buffers.bias);
    return rows;
  }

  void normalize(const GroupChunk& c, const A* x, const Normalizer<A>& normalizer, const Rows& rows,
                 ChunkBuffers<A>& buffers) const {
    if (are_pieces_short_) return normalize_packed(c, x, normalizer, buffers);
    const MvnAxis& inner = plan_.reduced[rank_ - 1];
    const auto normalized = [&](A value, int64_t) { return normalizer(value); };
    for_axis_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
                    [&](const Offsets& at, int64_t from, int64_t n) {
                      const Operand<A> scale =
                          rows.scale ? Operand<A>{rows.scale}
                                     : operand_of(scale_, at.scale, inner.scale, n, buffers.scale);
                      const Operand<A> bias =
                          rows.bias ? Operand<A>{rows.bias}
                                    : operand_of(bias_, at.bias, inner.bias, n, buffers.bias);
                      write_row(plan_.activation, y_ + at.y, inner.y, x + from, n, normalized,
                                scale, bias, buffers.y);
                    });
  }

 private:
  static constexpr int64_t kShortPiece = tuning::mvn::kPackedPiece;
  static constexpr A kOne = 1, kZero = 0;

  /// Scale and bias are packed as x was, and the result is handed out piece by piece.
  void normalize_packed(const GroupChunk& c, const A* x, const Normalizer<A>& normalizer,
                        ChunkBuffers<A>& buffers) const {
    const MvnAxis& inner = plan_.reduced[rank_ - 1];
    for_axis_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
                    [&](const Offsets& at, int64_t to, int64_t n) {
                      for (int64_t i = 0; i < n; ++i)
                        buffers.scale[to + i] = scale_.at(at.scale + i * inner.scale);
                      for (int64_t i = 0; i < n; ++i)
                        buffers.bias[to + i] = bias_.at(at.bias + i * inner.bias);
                    });
    const auto normalized = [&](A value, int64_t) { return normalizer(value); };
    normalize_row(buffers.y, x, c.n, normalized, {buffers.scale}, {buffers.bias});
    activate_row(plan_.activation, buffers.y, c.n);
    for_axis_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
                    [&](const Offsets& at, int64_t from, int64_t n) {
                      store_row<T>(y_ + at.y, inner.y, buffers.y + from, n);
                    });
  }

  const MvnPlan& plan_;
  T* y_;
  Parameter<T> scale_, bias_;
  int rank_;
  bool are_pieces_short_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
