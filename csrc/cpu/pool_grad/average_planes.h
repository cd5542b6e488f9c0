// Gradient of average pooling for planes that one window covers each: all their elements are alike.
#pragma once

#include "cpu/memory/line_stream.h"
#include "cpu/pool_grad/blocks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Planes are packed rows, or lie side by side: then a pixel, an element of each, is repeated.
template <class T>
class AveragePlanes {
  using Sum = Acc<T>;
  static constexpr int64_t kMost = LineStream::kShort / int64_t(sizeof(T));

 public:
  AveragePlanes(const PoolGradPlan& plan, const Arrays& a)
      : plan_(plan),
        n_(plan.forward.axis[2].in),
        grad_(static_cast<const T*>(a.inputs[1])),
        result_(static_cast<T*>(a.outputs[0])),
        are_rows_(plan.result.space[2] == 1),
        multiplies_(BlockShape::fits(plan)),
        is_streamed_(is_streamed(plan.forward.outputs() * n_ * int64_t(sizeof(T)))) {}

  static bool fits(const PoolGradPlan& plan) {
    return is_whole_row(plan.forward) && plan.forward.axis[2].in > 1 &&
           (plan.result.space[2] == 1 || has_lanes(plan));
  }

  void run() const {
    const int64_t piece = are_rows_ ? tuning::pool_grad::kRowElements : tuning::pool_grad::kPixels;
    TaskSpace space = plane_tasks(plan_, true, are_rows_ ? planes_at_once(n_) : kMost);
    space.dim[kSpaceDim + 2] = {(n_ + piece - 1) / piece, plan_.result.space[2] * piece, 0, 0, 0};
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      LineStream out;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) {
        const int64_t n = std::min(piece, n_ - task.space(2) * piece);
        T shares[kMost];
        share_out(task, shares);
        are_rows_ ? rows(task, n, shares, out) : pixels(task, n, shares, out);
      });
    });
  }

 private:
  /// What each element of the planes of a task gets. Bits are those of the paths for any windows:
  /// small ones multiply, and all add to +0.
  void share_out(const Task& task, T* shares) const {
    constexpr bool kIsWide = !std::is_same_v<T, Sum>;
    Sum wide[kIsWide ? kMost : 1];
    Sum* sums = wide;
    if constexpr (!kIsWide) sums = shares;
    load_grads<T>(sums, grad_ + task.y, plan_.forward.y.batch[1], task.n);
    const Sum taps = Sum(n_), factor = 1 / taps;
    if (multiplies_)
      for (int64_t i = 0; i < task.n; ++i) sums[i] = sums[i] * factor + Sum{0};
    else
      for (int64_t i = 0; i < task.n; ++i) sums[i] = sums[i] / taps + Sum{0};
    if constexpr (kIsWide) store_grads<T>(shares, 1, sums, task.n);
  }

  void rows(const Task& task, int64_t n, const T* shares, LineStream& out) const {
    for (int64_t i = 0; i < task.n; checkpoint_for(n), ++i) {
      T* const dst = result_ + task.x + i * plan_.result.batch[1];
      if (!is_streamed_) {
        fill(dst, n, shares[i]);
        continue;
      }
      out.seek(dst);
      for (int64_t k = 0; k < n; k += kMost) {
        const int64_t some = std::min(kMost, n - k);
        fill(reinterpret_cast<T*>(out.reserve()), some, shares[i]);
        out.commit(some * int64_t(sizeof(T)));
      }
    }
  }

  static void fill(T* dst, int64_t n, T value) {
    constexpr int64_t kStep = kVectorBytes / int64_t(sizeof(T));
    if (n < kStep) return void(std::fill_n(dst, n, value));
    T lanes[kStep];
    std::fill_n(lanes, kStep, value);
    const auto v = load_vector<Vector<char>>(reinterpret_cast<const char*>(lanes));
    for (int64_t i = 0; i < n - kStep; i += kStep)
      store_vector(reinterpret_cast<char*>(dst + i), v);
    store_vector(reinterpret_cast<char*>(dst + n - kStep), v);
  }

  [[gnu::noinline]] void pixels(const Task& task, int64_t n, const T* shares,
                                LineStream& out) const {
    const int64_t bytes = task.n * int64_t(sizeof(T));
    T* dst = result_ + task.x;
    for (int64_t i = 0; i < n; ++i, dst += plan_.result.space[2]) {
      if (is_streamed_) {
        out.seek(dst);
        out.copy(shares, bytes);
      } else {
        copy_bytes(dst, shares, bytes);
      }
    }
  }

  const PoolGradPlan& plan_;
  const int64_t n_;  // elements of a plane
  const T* const grad_;
  T* const result_;
  const bool are_rows_, multiplies_, is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
