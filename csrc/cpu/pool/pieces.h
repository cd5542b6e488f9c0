// Which outputs one task computes: rows, neighbouring planes or single windows, and pieces of large
// windows where there are few of them.
#pragma once

#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/pool/walk.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Float32 sums are kept at most this long before they go to double.
constexpr int64_t kChain = 2048;
using tuning::pool::kFewTasks;
using tuning::pool::kPieceTaps;
using tuning::pool::kRowElements;

/// Neighbouring planes lie side by side in x.
inline bool fits_lanes(const PoolPlan& p) {
  return p.x.batch[1] == 1 && p.batch[1] >= (p.x.space[2] == 1 ? 64 : 8);
}

/// Outputs [from, to) of [first, end) along a row whose windows are whole.
struct Interior {
  int64_t from, to;
};
inline Interior interior_of(const PoolAxis& w, int64_t first, int64_t end) {
  const int64_t last = w.in - 1 - (w.window - 1) * w.dilation + w.start;
  const int64_t from = std::min(end, std::max(first, (w.start + w.stride - 1) / w.stride));
  return {from, last < 0 ? from : std::clamp(last / w.stride + 1, from, end)};
}

/// Where piece i of the taps of a window begins.
inline int64_t piece_begin(const Box& box, int64_t pieces, int64_t i) {
  return box.taps / pieces * i + std::min(i, box.taps % pieces);
}

/// Few tasks with large windows: pieces of the windows side by side, then joined in order.
template <class Pool>
void run_pieces(const Pool& pool, const PoolPlan& plan, const TaskSpace& space, int64_t pieces) {
  using Total = typename Pool::Total;
  const int64_t tasks = space.count(), bytes = work_bytes(plan);
  const std::unique_ptr<Total[]> totals(new Total[size_t(tasks * pieces * space.chunk)]);
  const auto cut = [&](const Box& box, int64_t i) { return piece_begin(box, pieces, i); };
  parallel_for(tasks * pieces, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Task task = task_at(space, i / pieces);
      const Box box = box_of(plan, task, 3);
      const int64_t f = cut(box, i % pieces), last = cut(box, i % pieces + 1);
      if (f < last) pool.piece(task, box, f, last, totals.get() + i * space.chunk);
    }
  });
  parallel_for(tasks, tasks * pieces * 64, [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t i) {
      const Box box = box_of(plan, task, 3);
      Total* sum = totals.get() + i * pieces * space.chunk;
      for (int64_t p = 1; p < pieces && cut(box, p) < cut(box, p + 1); ++p)
        for (int64_t j = 0; j < task.n; ++j)
          sum[j] = Pool::combine(sum[j], sum[p * space.chunk + j]);
      pool.store(task, box, sum);
    });
  });
}

/// Many tasks with large windows: the same pieces one after the other, as the bits of a sum must
/// not tell how many there are.
template <class Pool>
void run_large_windows(const Pool& pool, const PoolPlan& plan, const TaskSpace& space,
                       int64_t pieces) {
  using Total = typename Pool::Total;
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    const std::unique_ptr<Total[]> totals(new Total[size_t(2 * space.chunk)]);
    Total *const sum = totals.get(), *const next = sum + space.chunk;
    for_tasks(space, begin, end, [&](const Task& task, int64_t) {
      const Box box = box_of(plan, task, 3);
      for (int64_t i = 0; i < std::min(pieces, box.taps); ++i) {
        const int64_t f = piece_begin(box, pieces, i), last = piece_begin(box, pieces, i + 1);
        pool.piece(task, box, f, last, i > 0 ? next : sum);
        for (int64_t j = 0; i > 0 && j < task.n; ++j) sum[j] = Pool::combine(sum[j], next[j]);
      }
      pool.store(task, box, sum);
    });
  });
}

/// `is_cut`: whether large windows are cut into pieces. A Pool tells whether the order in which
/// they are joined shows (kHasOrder).
template <class Pool>
void run_windows(const Pool& pool, const PoolPlan& plan, bool is_cut = true) {
  int64_t chunk = Pool::kChunk;
  while (chunk > tuning::pool::kLeastChunk &&
         make_tasks(plan, Pool::kLane, chunk).count() < kFewTasks)
    chunk /= 2;
  const TaskSpace space = make_tasks(plan, Pool::kLane, chunk);
  const int64_t pieces =
      is_cut ? std::min(tuning::pool::kMostPieces, most_taps(plan, 3) / kPieceTaps) : 1;
  if (pieces > 1 && space.count() < kFewTasks) return run_pieces(pool, plan, space, pieces);
  if constexpr (Pool::kHasOrder)
    if (pieces > 1) return run_large_windows(pool, plan, space, pieces);
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { pool.whole(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
