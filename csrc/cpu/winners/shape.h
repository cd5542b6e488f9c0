// How plans with indices are cut into strips, and what their windows allow.
#pragma once

#include <limits>

#include "cpu/memory/sink.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/strip_tasks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::winners::kMostFoldedRows;

/// The shape of strips, if the plan fits: positions must fit the lanes of values.
[[gnu::noinline]] inline StripShape winner_shape(const PoolPlan& p) {
  const int64_t bytes = size_of(p.dtype) == 8 ? 8 : 4;
  int64_t last = 0;
  for (int i = 0; i < 3; ++i) last += (p.axis[i].in - 1) * p.flat.space[i];
  const bool packed = has_packed_planes(p) || p.x.space[2] == 1;
  if (!packed || (bytes == 4 && last >= std::numeric_limits<int32_t>::max())) return {};
  return strip_shape(p, kLineBytes / bytes, Sink<int64_t>::kPiece);
}

inline bool is_half(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

/// What positions within a window are told in, of values of as many bits: what taps add to them
/// fits.
inline bool has_near_taps(const PoolPlan& p) {
  const int64_t inner = p.axis[1].dilation * p.flat.space[1];
  const int64_t most =
      is_half(p.dtype) ? std::numeric_limits<int16_t>::max() : std::numeric_limits<int32_t>::max();
  return p.axis[0].window == 1 && p.axis[1].window <= 3 && 2 * inner + 3 * p.flat.space[2] < most;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
