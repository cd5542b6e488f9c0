// Gradient of max pooling by windows that cover planes side by side without overlap: all taps of a
// window at once, for vectors of planes.
#pragma once

#include <array>
#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/lane_output.h"
#include "cpu/pool_grad/max_pairs.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Windows that follow each other along a row: their taps in x and in the result, `step` and
/// `result_step` elements further on for each window, and their gradients.
template <class T>
struct LanePairs {
  static constexpr int64_t kMostTaps = 8;
  const T* x[kMostTaps];
  T* dst[kMostTaps];
  const T* grad;
  int64_t taps, step, result_step, grad_step, count, lanes;
  bool is_streamed;  // past the caches: whole vectors, each at a multiple of its size
};

/// The last vector of lanes may overlap the one before. kTaps is the number of taps, or 0 for any.
template <int kTaps, class T>
[[gnu::noinline]] void share_lane_pairs(const LanePairs<T>& windows) {
  using G = PairLane<T>;
  using P = Position<G>;
  constexpr int64_t kStep = kLanes<G>;
  LanePairs<T> w = windows;
  const int64_t taps = kTaps ? kTaps : w.taps;
  for (int64_t c = 0; c < w.count; ++c) {
    for (int64_t i = 0; i < w.lanes; i += kStep) {
      i = std::min(i, w.lanes - kStep);
      const int64_t at = c * w.step + i;
      auto best = pair_keys<T>(load_vector<Vector<G>>(w.x[0] + at));
      Vector<P> tap{};
#pragma GCC unroll 8
      for (int64_t k = 0; k < taps; ++k) {
        const T* const x = w.x[k] + at;
        __builtin_prefetch(reinterpret_cast<const char*>(x) + kKeysAheadBytes, 0, 3);
        if (k > 0) offer<G>(best, tap, pair_keys<T>(load_vector<Vector<G>>(x)), all_lanes(P(k)));
      }
      // GCC would ask of each share which of the comparisons above it stands for, lane by lane.
      tap = opaque(tap);
      const auto grad = summed<T>(load_vector<Vector<G>>(w.grad + c * w.grad_step + i));
#pragma GCC unroll 8
      for (int64_t k = 0; k < taps; ++k) {
        T* const dst = w.dst[k] + c * w.result_step + i;
        const Vector<G> share = tap == P(k) ? grad : Vector<G>{};
        w.is_streamed ? stream_vector(dst, share) : store_vector(dst, share);
      }
    }
  }
}

template <class T>
class MaxLanePairs {
  using Windows = LanePairs<T>;
  static constexpr int64_t kMostLanes = tuning::pool_grad::kPairLaneBytes / int64_t(sizeof(T));
  static constexpr int64_t kStaged =  // elements of a room, or a window
      tuning::pool_grad::kPairStagedBytes / int64_t(sizeof(T));

 public:
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    int64_t taps = 1;
    for (const PoolAxis& a : f.axis) {
      if (a.start != 0 || (a.window != a.stride && a.out > 1)) return false;
      if (a.window * a.out > a.in) return false;
      if (a.dilation != 1 && a.window != 1) return false;
      if (a.window > Windows::kMostTaps) return false;
      taps *= a.window;
    }
    return taps > 1 && taps <= Windows::kMostTaps && has_lanes(plan) && f.x.batch[1] == 1 &&
           f.y.batch[1] == 1 && f.batch[1] * int64_t(size_of(f.dtype)) >= kVectorBytes;
  }

  MaxLanePairs(const PoolGradPlan& plan, const void* x, const void* grad, void* result)
      : plan_(plan),
        f_(plan.forward),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        output_(plan, result),
        lanes_(lanes_of(f_.batch[1])) {
    for (const PoolAxis& a : f_.axis) taps_ *= a.window;
    staged_ = std::max<int64_t>(1, kStaged / (taps_ * lanes_));
    // Stores past the caches of half a line each, to as many lines as there are taps, take up to
    // five times as long, and loads wait for those whose places in a page they have.
    is_direct_ = !output_.is_streamed() || (kHasLineVectors && output_.is_whole());
  }

  void run() const {
    TaskSpace space = plane_tasks(plan_, true, lanes_);
    for (int i = 0; i < 2; ++i) space.dim[kSpaceDim + i].size = f_.axis[i].out;
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Room room(staged_ * taps_ * lanes_);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { row(task, room); });
    });
  }

 private:
  static constexpr int64_t kLine = LaneOutput<T>::kLine;

  /// Planes of a task, whole lines of them as near to an even part as leaves the last one a vector.
  static int64_t lanes_of(int64_t batch) {
    constexpr int64_t kVector = kVectorBytes / int64_t(sizeof(T));
    int64_t lanes = (even_part(batch, kMostLanes) + kLine - 1) / kLine * kLine;
    for (; lanes > 0; lanes -= kLine)
      if (batch % lanes == 0 || batch % lanes >= kVector) return lanes;
    return batch;
  }

  struct Room {
    std::unique_ptr<T[]> lines;
    LineStream out;

    explicit Room(int64_t elements) : lines(new T[size_t(elements + kLine)]) {}
    T* begin() const { return lines.get() + bytes_to_line(lines.get()) / int64_t(sizeof(T)); }
  };

  /// A row of windows, and the elements behind the last one's that have none.
  void row(const Task& task, Room& room) const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1], &x = f_.axis[2];
    const int64_t o = task.space(0), p = task.space(1);
    const int64_t* const r = plan_.result.space;
    if (is_direct_)
      share(task, 0, x.out, output_.place(task, o * z.window, p * y.window, 0), {r[0], r[1], r[2]});
    for (int64_t c = 0, n; c < x.out && !is_direct_; c += n) {
      n = std::min(staged_, x.out - c);
      share(task, c, n, room.begin(),
            {n * x.window * task.n * y.window, n * x.window * task.n, task.n});
      for (int64_t i = 0; i < z.window * y.window; ++i)
        output_.put(task, o * z.window + i / y.window, p * y.window + i % y.window, c * x.window,
                    n * x.window, room.begin() + i * n * x.window * task.n, room.out);
    }
    const int64_t bottom = p + 1 == y.out ? y.in : (p + 1) * y.window;
    const int64_t back = o + 1 == z.out ? z.in : (o + 1) * z.window;
    for (int64_t i = o * z.window; i < back; ++i)
      for (int64_t j = p * y.window; j < bottom; ++j) {
        const bool has_windows = i < (o + 1) * z.window && j < (p + 1) * y.window;
        output_.put_nothing(task, i, j, has_windows ? x.out * x.window : 0);
      }
  }

  /// Windows [c, c + n) of the task's row; their elements from dst on, `step` apart along each
  /// axis.
  void share(const Task& task, int64_t c, int64_t n, T* dst,
             const std::array<int64_t, 3>& step) const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1], &x = f_.axis[2];
    const int64_t o = task.space(0), p = task.space(1);
    Windows w;
    w.taps = 0;
    for (int64_t i = 0; i < z.window; ++i)
      for (int64_t j = 0; j < y.window; ++j)
        for (int64_t k = 0; k < x.window; ++k, ++w.taps) {
          w.x[w.taps] = x_ + task.flat + (o * z.window + i) * f_.x.space[0] +
                        (p * y.window + j) * f_.x.space[1] + (c * x.window + k) * f_.x.space[2];
          w.dst[w.taps] = dst + i * step[0] + j * step[1] + k * step[2];
        }
    w.grad = grad_ + task.y + o * f_.y.space[0] + p * f_.y.space[1] + c * f_.y.space[2];
    w.step = x.window * f_.x.space[2];
    w.result_step = x.window * step[2];
    w.is_streamed = output_.is_streamed() && is_direct_;
    w.grad_step = f_.y.space[2];
    w.count = n;
    w.lanes = task.n;
    if (w.taps == 4) return share_lane_pairs<4>(w);
    if (w.taps == 8) return share_lane_pairs<8>(w);
    share_lane_pairs<0>(w);
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const T* const x_;
  const T* const grad_;
  const LaneOutput<T> output_;
  const int64_t lanes_;
  int64_t taps_ = 1, staged_;  // of a window; windows of a room
  bool is_direct_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
