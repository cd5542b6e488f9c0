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

/// Such rows are packed, and no longer than a piece.
inline bool has_whole_rows(const PoolPlan& p) {
  return is_whole_row(p) && p.x.space[2] == 1 && p.axis[2].in < kPieceTaps;
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

/// What large windows ask of a pool. Pools are many: one loop over pieces serves all of them.
struct PiecePool {
  const void* pool;
  int64_t total_bytes;
  /// Joins taps [first, last) of a window, first < last.
  void (*piece)(const void* pool, const Task& task, const Box& box, int64_t first, int64_t last,
                void* totals);
  /// Joins n totals with as many others, which come behind them.
  void (*combine)(void* totals, const void* others, int64_t n);
  void (*store)(const void* pool, const Task& task, const Box& box, const void* totals);
};

template <class Pool>
PiecePool piece_pool(const Pool& pool) {
  using Total = typename Pool::Total;
  return {&pool, sizeof(Total),
          [](const void* at, const Task& task, const Box& box, int64_t first, int64_t last,
             void* totals) {
            const auto* const to = static_cast<const Pool*>(at);
            to->piece(task, box, first, last, static_cast<Total*>(totals));
          },
          [](void* totals, const void* others, int64_t n) {
            auto* const to = static_cast<Total*>(totals);
            const auto* const from = static_cast<const Total*>(others);
            for (int64_t i = 0; i < n; ++i) to[i] = Pool::combine(to[i], from[i]);
          },
          [](const void* at, const Task& task, const Box& box, const void* totals) {
            const auto* const to = static_cast<const Pool*>(at);
            to->store(task, box, static_cast<const Total*>(totals));
          }};
}

/// Few tasks with large windows: pieces of the windows side by side, then joined in order.
[[gnu::noinline]] inline void run_pieces(const PiecePool& p, const PoolPlan& plan,
                                         const TaskSpace& space, int64_t pieces) {
  const int64_t tasks = space.count(), bytes = work_bytes(plan);
  const int64_t step = space.chunk * p.total_bytes;
  const std::unique_ptr<char[]> totals(new char[size_t(tasks * pieces * step)]);
  const auto cut = [&](const Box& box, int64_t i) { return piece_begin(box, pieces, i); };
  parallel_for(tasks * pieces, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Task task = task_at(space, i / pieces);
      const Box box = box_of(plan, task, 3);
      const int64_t f = cut(box, i % pieces), last = cut(box, i % pieces + 1);
      if (f < last) p.piece(p.pool, task, box, f, last, totals.get() + i * step);
    }
  });
  parallel_for(tasks, tasks * pieces * 64, [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t i) {
      const Box box = box_of(plan, task, 3);
      char* const sum = totals.get() + i * pieces * step;
      for (int64_t k = 1; k < pieces && cut(box, k) < cut(box, k + 1); ++k)
        p.combine(sum, sum + k * step, task.n);
      p.store(p.pool, task, box, sum);
    });
  });
}

/// Many tasks with large windows: the same pieces one after the other, as the bits of a sum must
/// not tell how many there are.
[[gnu::noinline]] inline void run_large_windows(const PiecePool& p, const PoolPlan& plan,
                                                const TaskSpace& space, int64_t pieces) {
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    const int64_t step = space.chunk * p.total_bytes;
    const std::unique_ptr<char[]> totals(new char[size_t(2 * step)]);
    char *const sum = totals.get(), *const next = sum + step;
    for_tasks(space, begin, end, [&](const Task& task, int64_t) {
      const Box box = box_of(plan, task, 3);
      for (int64_t i = 0; i < std::min(pieces, box.taps); ++i) {
        const int64_t f = piece_begin(box, pieces, i), last = piece_begin(box, pieces, i + 1);
        p.piece(p.pool, task, box, f, last, i > 0 ? next : sum);
        if (i > 0) p.combine(sum, next, task.n);
      }
      p.store(p.pool, task, box, sum);
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
  if (pieces > 1 && space.count() < kFewTasks)
    return run_pieces(piece_pool(pool), plan, space, pieces);
  if constexpr (Pool::kHasOrder)
    if (pieces > 1) return run_large_windows(piece_pool(pool), plan, space, pieces);
  parallel_for(space.count(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { pool.whole(task); });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
