// Normalization on the CPU: groups read along their own memory, in chunks that the cache holds.
#include "cpu/mvn/plain.h"

#include <memory>

#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/moments.h"
#include "cpu/mvn/walk.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kLeastBatch = 8, kMostBatch = 16;
constexpr int64_t kShortPiece = 32;  // shorter pieces of a row are packed rather than done singly

/// One thread's space for a chunk of each tensor, in the type of the computation. Arrays begin at
/// different places of a page: lines that meet in one set of the first-level cache slow each other.
template <class A>
struct Buffers {
  static constexpr int64_t kLength = kChunk<A> + 1280 / int64_t(sizeof(A));
  alignas(64) A x[kLength], y[kLength], scale[kLength], bias[kLength];
};

template <class T>
class Groups {
 public:
  using A = Acc<T>;

  Groups(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        scale_(o.inputs[1], plan.scale_dtype, &kOne),
        bias_(o.inputs[2], plan.bias_dtype, &kZero),
        statistics_(plan, o),
        rank_(std::max(plan.reduced_rank, 1)),
        x_rank_(join_for_x(plan.reduced, rank_, x_axes_)),
        chunks_((plan.group_size + kChunk<A> - 1) / kChunk<A>),
        are_pieces_short_(rank_ > 1 && plan.reduced[rank_ - 1].size < kShortPiece) {}

  void run() const {
    if (!plan_.use_mean && !plan_.use_variance) return run_without_statistics();
    const bool are_few = plan_.groups < 4 * num_threads() && num_threads() > 1;
    if (are_few && chunks_ > 4) return run_in_parts();
    parallel_for(plan_.groups, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers<A>> room;
      Buffers<A>& buffers = *room;
      Walk group(plan_.kept, plan_.kept_rank, begin);
      Rows rows = common_rows(buffers);
      const int64_t batch = std::min(kMostBatch, kChunk<A> / 2 / plan_.group_size);
      if (batch >= kLeastBatch) {
        for (int64_t g = begin; g < end; g += batch)
          run_batch(group, g, std::min(batch, end - g), rows, buffers);
        return;
      }
      for (int64_t g = begin; g < end; ++g, group.advance())
        run_group(group.offsets(), g, rows, buffers);
    });
  }

 private:
  /// Positions [first, first + n) of the group that stands at `group`.
  struct Chunk {
    Offsets group;
    int64_t first, n;
  };

  /// Scale and bias of a whole group where all groups share them and one chunk holds them.
  struct Rows {
    const A *scale = nullptr, *bias = nullptr;
  };

  Chunk chunk(const Offsets& group, int64_t index) const {
    const int64_t first = index * kChunk<A>;
    return {group, first, std::min(kChunk<A>, plan_.group_size - first)};
  }

  Rows common_rows(Buffers<A>& buffers) const {
    Rows rows;
    if (rank_ > 1 || chunks_ > 1) return rows;
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

  /// The chunk of x as a packed row: in place where it is one, else in `buffer`.
  const A* pack(const Chunk& c, A* buffer) const {
    const MvnAxis& inner = x_axes_[x_rank_ - 1];
    if constexpr (std::is_same_v<T, A>)
      if (x_rank_ == 1 && inner.x == 1) return x_ + c.group.x + c.first;
    for_pieces(x_axes_, x_rank_, c.group, c.first, c.n,
               [&](const Offsets& at, int64_t to, int64_t n) {
                 load_row<T>(buffer + to, x_ + at.x, inner.x, n);
               });
    return buffer;
  }

  /// Groups so short that each would spend its time waiting for its own divisions and root: a few
  /// of them go from step to step together.
  void run_batch(Walk& group, int64_t first, int64_t count, const Rows& rows,
                 Buffers<A>& buffers) const {
    const int64_t n = plan_.group_size;
    const A* x[kMostBatch];
    Chunk chunks[kMostBatch];
    A pivot[kMostBatch] = {};
    double sum[kMostBatch];
    Normalizer<A> normalizers[kMostBatch];
    for (int64_t i = 0; i < count; ++i, group.advance()) {
      chunks[i] = chunk(group.offsets(), 0);
      x[i] = pack(chunks[i], buffers.x + i * n);
    }
    if (plan_.use_mean) {
      for (int64_t i = 0; i < count; ++i) sum[i] = sum_of(x[i], n);
      for (int64_t i = 0; i < count; ++i) pivot[i] = pivot_of<A>(sum[i], double(n));
    }
    for (int64_t i = 0; i < count; ++i)
      normalizers[i] = finish(first + i, moments_around(pivot[i], x[i], n, plan_.use_mean));
    for (int64_t i = 0; i < count; ++i) normalize(chunks[i], x[i], normalizers[i], rows, buffers);
  }

  /// What normalizing a group needs of its statistics, which are written where they are wanted.
  Normalizer<A> finish(int64_t group, const Moments<A>& moments) const {
    if (statistics_.are_wanted()) statistics_.put(group, moments);
    return normalizer_of(moments, plan_.use_variance, plan_.epsilon);
  }

  void run_group(const Offsets& group, int64_t index, const Rows& rows, Buffers<A>& buffers) const {
    const Chunk head = chunk(group, 0);
    const A* x = pack(head, buffers.x);
    Moments<A> moments = moments_of(x, head.n, plan_.use_mean);
    Pace pace;
    for (int64_t i = 1; i < chunks_; ++i) {
      pace.add(kChunk<A>);
      const Chunk c = chunk(group, i);
      moments = merge(moments, moments_of(pack(c, buffers.x), c.n, plan_.use_mean));
    }
    const Normalizer<A> normalizer = finish(index, moments);
    if (chunks_ == 1) return normalize(head, x, normalizer, rows, buffers);
    for (int64_t i = 0; i < chunks_; ++i) {
      pace.add(kChunk<A>);
      const Chunk c = chunk(group, i);
      normalize(c, pack(c, buffers.x), normalizer, rows, buffers);
    }
  }

  /// Calls fn(chunk, index of the chunk, index of its group, buffers) for all chunks, from all
  /// threads.
  template <class Fn>
  void for_chunks(const Fn& fn) const {
    const int64_t tasks = plan_.groups * chunks_;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers<A>> buffers;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t g = task / chunks_;
        const Walk group(plan_.kept, plan_.kept_rank, g);
        fn(chunk(group.offsets(), task % chunks_), task, g, *buffers);
      }
    });
  }

  void run_without_statistics() const {
    for_chunks([&](const Chunk& c, int64_t, int64_t, Buffers<A>& buffers) {
      normalize(c, pack(c, buffers.x), Normalizer<A>{}, Rows{}, buffers);
    });
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_group.
  void run_in_parts() const {
    const std::unique_ptr<Moments<A>[]> parts(new Moments<A>[size_t(plan_.groups * chunks_)]);
    const std::unique_ptr<Normalizer<A>[]> normalizers(new Normalizer<A>[size_t(plan_.groups)]);
    for_chunks([&](const Chunk& c, int64_t index, int64_t, Buffers<A>& buffers) {
      parts[size_t(index)] = moments_of(pack(c, buffers.x), c.n, plan_.use_mean);
    });
    for (int64_t g = 0; g < plan_.groups; ++g) {
      Moments<A> moments = parts[size_t(g * chunks_)];
      for (int64_t i = 1; i < chunks_; ++i)
        moments = merge(moments, parts[size_t(g * chunks_ + i)]);
      normalizers[size_t(g)] = finish(g, moments);
    }
    for_chunks([&](const Chunk& c, int64_t, int64_t g, Buffers<A>& buffers) {
      normalize(c, pack(c, buffers.x), normalizers[size_t(g)], Rows{}, buffers);
    });
  }

  void normalize(const Chunk& c, const A* x, const Normalizer<A>& normalizer, const Rows& rows,
                 Buffers<A>& buffers) const {
    if (are_pieces_short_) return normalize_packed(c, x, normalizer, buffers);
    const MvnAxis& inner = plan_.reduced[rank_ - 1];
    const auto normalized = [&](A value, int64_t) { return normalizer(value); };
    for_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
               [&](const Offsets& at, int64_t from, int64_t n) {
                 const Operand<A> scale =
                     rows.scale ? Operand<A>{rows.scale}
                                : operand_of(scale_, at.scale, inner.scale, n, buffers.scale);
                 const Operand<A> bias =
                     rows.bias ? Operand<A>{rows.bias}
                               : operand_of(bias_, at.bias, inner.bias, n, buffers.bias);
                 write_row(plan_.activation, y_ + at.y, inner.y, x + from, n, normalized, scale,
                           bias, buffers.y);
               });
  }

  /// Scale and bias are packed as x was, and the result is handed out piece by piece.
  void normalize_packed(const Chunk& c, const A* x, const Normalizer<A>& normalizer,
                        Buffers<A>& buffers) const {
    const MvnAxis& inner = plan_.reduced[rank_ - 1];
    for_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
               [&](const Offsets& at, int64_t to, int64_t n) {
                 for (int64_t i = 0; i < n; ++i)
                   buffers.scale[to + i] = scale_.at(at.scale + i * inner.scale);
                 for (int64_t i = 0; i < n; ++i)
                   buffers.bias[to + i] = bias_.at(at.bias + i * inner.bias);
               });
    const auto normalized = [&](A value, int64_t) { return normalizer(value); };
    normalize_row(buffers.y, x, c.n, normalized, {buffers.scale}, {buffers.bias});
    activate_row(plan_.activation, buffers.y, c.n);
    for_pieces(plan_.reduced, rank_, c.group, c.first, c.n,
               [&](const Offsets& at, int64_t from, int64_t n) {
                 store_row<T>(y_ + at.y, inner.y, buffers.y + from, n);
               });
  }

  static constexpr A kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  const T* x_;
  T* y_;
  Parameter<T> scale_, bias_;
  GroupStatistics statistics_;
  int rank_;
  MvnAxis x_axes_[kMaxRank];
  int x_rank_;
  int64_t chunks_;
  bool are_pieces_short_;
};

}  // namespace

template <class T>
void mvn_plain(const MvnPlan& plan, const Operands& operands) {
  if (plan.groups == 0) return;
  Groups<T>(plan, operands).run();
}

template void mvn_plain<float>(const MvnPlan&, const Operands&);
template void mvn_plain<double>(const MvnPlan&, const Operands&);
template void mvn_plain<Float16>(const MvnPlan&, const Operands&);
template void mvn_plain<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
