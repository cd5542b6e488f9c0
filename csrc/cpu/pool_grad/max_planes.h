// Gradient of max pooling for planes that one window covers each: zeros, and what the winner gets.
#pragma once

#include <cstring>

#include "cpu/memory/line_stream.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/winners/whole_plane.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class Op>
class MaxPlanes {
  using E = typename Op::Element;
  static constexpr int64_t kMost = LineStream::kShort / int64_t(sizeof(E));

 public:
  MaxPlanes(const Op& op, const PoolGradPlan& plan, const Arrays& a)
      : op_(op),
        plan_(plan),
        n_(plan.forward.axis[2].in),
        x_(static_cast<const E*>(a.inputs[0])),
        grad_(static_cast<const E*>(a.inputs[1])),
        result_(static_cast<E*>(a.outputs[0])),
        is_streamed_(is_streamed(plan.forward.outputs() * n_ * int64_t(sizeof(E)))) {}

  void run() const {
    const TaskSpace space = plane_tasks(plan_, true, planes_at_once(n_));
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      LineStream out;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { planes(task, out); });
    });
  }

 private:
  void planes(const Task& task, LineStream& out) const {
    for (int64_t i = 0; i < task.n; checkpoint_for(n_), ++i) {
      const E* const plane = x_ + task.flat + i * plan_.forward.x.batch[1];
      const int64_t winner = winner_of(op_, plane, n_);
      const E share = added_to_zero(grad_[task.y + i * plan_.forward.y.batch[1]]);
      E* const dst = result_ + task.x + i * plan_.result.batch[1];
      if (is_streamed_)
        stream(dst, winner, share, out);
      else
        put(dst, n_, winner, share);
    }
  }

  /// Bits of 16-bit floats but for -0 keep what they are.
  E added_to_zero(E share) const {
    if constexpr (std::is_floating_point_v<E>) return share + E{0};
    return uint16_t(share) == 0x8000 ? E{0} : share;
  }

  /// n elements, of which number `winner`, if it is among them, gets the share.
  static void put(E* dst, int64_t n, int64_t winner, E share) {
    std::memset(dst, 0, size_t(n) * sizeof(E));
    if (uint64_t(winner) < uint64_t(n)) dst[winner] = share;
  }

  void stream(E* dst, int64_t winner, E share, LineStream& out) const {
    out.seek(dst);
    for (int64_t i = 0; i < n_; i += kMost) {
      const int64_t n = std::min(kMost, n_ - i);
      put(reinterpret_cast<E*>(out.reserve()), n, winner - i, share);
      out.commit(n * int64_t(sizeof(E)));
    }
  }

  const Op op_;
  const PoolGradPlan& plan_;
  const int64_t n_;  // elements of a plane
  const E* const x_;
  const E* const grad_;
  E* const result_;
  const bool is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
