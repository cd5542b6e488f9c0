// Normalization on the CPU: groups read along their own memory, in chunks that the cache holds.
#include "cpu/mvn/plain.h"

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/group_chunks.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/threads/arena.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"
#include "math/long_sum.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kLeastBatch;
using tuning::mvn::kMostBatch;

template <class T>
class Groups {
 public:
  using A = Acc<T>;

  Groups(const MvnPlan& plan, const Operands& o)
      : plan_(plan), chunks_(plan, o), results_(plan, o), statistics_(plan, o) {}

  void run() const {
    if (!plan_.use_mean && !plan_.use_variance) return run_without_statistics();
    const bool are_few = plan_.groups < 4 * num_threads() && num_threads() > 1;
    if (are_few && chunks_.count() > 4) return run_in_parts();
    parallel_for(plan_.groups, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> room;
      Buffers& buffers = *room;
      Walk group(plan_.kept, plan_.kept_rank, begin);
      Rows rows = results_.common_rows(buffers);
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
  using Chunk = GroupChunk;
  using Buffers = ChunkBuffers<A>;
  using Rows = typename GroupResults<T>::Rows;

  /// Groups so short that each would spend its time waiting for its own divisions and root: a few
  /// of them go from step to step together.
  void run_batch(Walk& group, int64_t first, int64_t count, const Rows& rows,
                 Buffers& buffers) const {
    const int64_t n = plan_.group_size;
    const A* x[kMostBatch];
    Chunk chunks[kMostBatch];
    A pivot[kMostBatch] = {};
    double sum[kMostBatch];
    Normalizer<A> normalizers[kMostBatch];
    for (int64_t i = 0; i < count; ++i, group.advance()) {
      chunks[i] = chunks_.chunk(group.offsets(), 0);
      x[i] = chunks_.pack(chunks[i], buffers.x + i * n);
    }
    if (plan_.use_mean) {
      for (int64_t i = 0; i < count; ++i) sum[i] = sum_of(x[i], n);
      for (int64_t i = 0; i < count; ++i) pivot[i] = pivot_beside(x[i], sum[i], n);
    }
    for (int64_t i = 0; i < count; ++i)
      normalizers[i] = finish(first + i, moments_around(pivot[i], x[i], n, plan_.use_mean));
    for (int64_t i = 0; i < count; ++i)
      results_.normalize(chunks[i], x[i], normalizers[i], rows, buffers);
  }

  /// What normalizing a group needs of its statistics, which are written where they are wanted.
  Normalizer<A> finish(int64_t group, const Moments<A>& moments) const {
    if (statistics_.are_wanted()) statistics_.put(group, moments);
    return normalizer_of(moments, plan_.use_variance, plan_.epsilon);
  }

  void run_group(const Offsets& group, int64_t index, const Rows& rows, Buffers& buffers) const {
    const Chunk head = chunks_.chunk(group, 0);
    const A* x = nullptr;  // the last chunk, which is the first where there is one
    int64_t next = 0;
    Pace pace;
    const auto moments = [&] {
      pace.add(kChunk<A>);
      const Chunk c = chunks_.chunk(group, next++);
      return moments_of(x = chunks_.pack(c, buffers.x), c.n, plan_.use_mean);
    };
    const Normalizer<A> normalizer = finish(index, long_sum<Moments<A>>(chunks_.count(), moments));
    if (chunks_.count() == 1) return results_.normalize(head, x, normalizer, rows, buffers);
    for (int64_t i = 0; i < chunks_.count(); ++i) {
      pace.add(kChunk<A>);
      const Chunk c = chunks_.chunk(group, i);
      results_.normalize(c, chunks_.pack(c, buffers.x), normalizer, rows, buffers);
    }
  }

  /// Calls fn(chunk, index of the chunk, index of its group, buffers) for all chunks, from all
  /// threads.
  template <class Fn>
  void for_chunks(const Fn& fn) const {
    const int64_t tasks = plan_.groups * chunks_.count();
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Room<Buffers> buffers;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t g = task / chunks_.count();
        const Walk group(plan_.kept, plan_.kept_rank, g);
        fn(chunks_.chunk(group.offsets(), task % chunks_.count()), task, g, *buffers);
      }
    });
  }

  void run_without_statistics() const {
    for_chunks([&](const Chunk& c, int64_t, int64_t, Buffers& buffers) {
      results_.normalize(c, chunks_.pack(c, buffers.x), Normalizer<A>{}, Rows{}, buffers);
    });
  }

  /// Few large groups: threads share each of them. The sums are the same as in run_group.
  void run_in_parts() const {
    const std::unique_ptr<Moments<A>[]> parts(
        new Moments<A>[size_t(plan_.groups * chunks_.count())]);
    const std::unique_ptr<Normalizer<A>[]> normalizers(new Normalizer<A>[size_t(plan_.groups)]);
    for_chunks([&](const Chunk& c, int64_t index, int64_t, Buffers& buffers) {
      parts[size_t(index)] = moments_of(chunks_.pack(c, buffers.x), c.n, plan_.use_mean);
    });
    for (int64_t g = 0; g < plan_.groups; ++g) {
      const Moments<A>* own = parts.get() + g * chunks_.count();
      normalizers[size_t(g)] =
          finish(g, long_sum<Moments<A>>(chunks_.count(), [&] { return *own++; }));
    }
    for_chunks([&](const Chunk& c, int64_t, int64_t g, Buffers& buffers) {
      results_.normalize(c, chunks_.pack(c, buffers.x), normalizers[size_t(g)], Rows{}, buffers);
    });
  }

  const MvnPlan& plan_;
  const GroupChunks<T> chunks_;
  const GroupResults<T> results_;
  GroupStatistics statistics_;
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
