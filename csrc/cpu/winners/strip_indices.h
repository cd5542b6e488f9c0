// Where strips put their indices.
#pragma once

#include <limits>
#include <optional>

#include "cpu/pool/strip_sink.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Indices of strips, which go out as int64 or as uint32: positions that have found their plane.
template <class P>
class StripIndices {
 public:
  StripIndices(void* indices, const PoolPlan& plan, const StripShape& shape) : plan_(plan) {
    const bool streamed = is_streamed(plan.outputs() * int64_t(size_of(plan.index_dtype)));
    if (plan.index_dtype == Dtype::uint32)
      narrow_.emplace(static_cast<uint32_t*>(indices), plan.indices, plan, shape, streamed);
    else
      wide_.emplace(static_cast<int64_t*>(indices), plan.indices, plan, shape, streamed);
  }

  /// Begins with those of a strip. Where they are uint32 they may be put there as they are, with
  /// slack of a sink behind; else null.
  uint32_t* begin(const Strip& s) {
    if (wide_) to_wide_ = wide_->room(s.task.indices, s);
    if (narrow_) to_narrow_ = narrow_->room(s.task.indices, s);
    return to_narrow_;
  }
  void write(const Strip& s, const P* place) {
    wide_ ? put(to_wide_, s, place) : put(to_narrow_, s, place);
  }
  void end(const Strip& s) {
    wide_ ? wide_->put(s.task.indices, s) : narrow_->put(s.task.indices, s);
  }

 private:
  static constexpr P kNone = std::numeric_limits<P>::max();

  template <class Index>
  void put(Index* to, const Strip& s, const P* place) {
    const Task& task = s.task;
    const int64_t plane = s.lines.rows * s.columns.n * task.n;  // outputs of one plane
    for (int64_t first = 0; first < s.outputs(); first += plane) {
      const Index base = Index(task.flat + first / plane * plan_.flat.batch[1]);
      if (task.n == 1)
        number(place + first, plane, base, to + first);
      else
        number_lanes(place + first, plane, task.n, base, to + first);
    }
  }

  template <class Index>
  static void number(const P* place, int64_t n, Index base, Index* to) {
    constexpr int64_t kBlock = 16;
    for (int64_t i = 0; i < n; i += kBlock)
      for (int64_t j = i; j < i + kBlock; ++j)
        to[j] = place[j] == kNone ? Index(-1) : Index(base + Index(place[j]));
  }

  template <class Index>
  void number_lanes(const P* place, int64_t n, int64_t lanes, Index base, Index* to) const {
    const Index step = Index(plan_.flat.batch[1]);
    for (int64_t j = 0; j < n; j += lanes)
      for (int64_t c = 0; c < lanes; ++c)
        to[j + c] =
            place[j + c] == kNone ? Index(-1) : Index(base + Index(c) * step + Index(place[j + c]));
  }

  const PoolPlan& plan_;
  std::optional<StripSink<int64_t>> wide_;
  std::optional<StripSink<uint32_t>> narrow_;
  int64_t* to_wide_ = nullptr;
  uint32_t* to_narrow_ = nullptr;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
