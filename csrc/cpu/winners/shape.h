// How plans with indices are cut into strips, and what their windows allow.
#pragma once

#include <limits>

#include "cpu/memory/sink.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/strip_tasks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::winners::kFewHalfTaps;
using tuning::winners::kFewLaneTaps;
using tuning::winners::kLaneRoom;
using tuning::winners::kMostFoldedRows;
using tuning::winners::kMostLaneTaps;

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

/// How plans with indices are cut where vectors hold planes that lie side by side: the taps of a
/// window, what there is from the position of the first to the last's, and the planes of a task,
/// but for the last one.
struct LaneTapShape {
  int64_t taps = 1, reach = 0, lanes, vector;

  explicit LaneTapShape(const PoolPlan& p)
      : vector(kVectorBytes / (is_half(p.dtype) ? 2 : std::max<int64_t>(4, size_of(p.dtype)))) {
    for (int i = 0; i < 3; ++i) {
      const PoolAxis& a = p.axis[i];
      taps = std::min(taps, kMostLaneTaps + 1) * a.window;
      reach += std::min((a.window - 1) * a.dilation, a.in - 1) * p.flat.space[i];
    }
    const int64_t line = 64 / int64_t(size_of(p.dtype)), part = even_part(p.batch[1], kLaneRoom);
    lanes = std::min((part + line - 1) / line * line, p.batch[1]);
  }

  bool fits(const PoolPlan& p) const {
    const int64_t last = p.batch[1] % std::max<int64_t>(1, lanes);
    const int64_t most = is_half(p.dtype) ? std::numeric_limits<int16_t>::max()
                                          : std::numeric_limits<int32_t>::max();
    return p.x.batch[1] == 1 && p.y.batch[1] == 1 && p.indices.batch[1] == 1 &&
           p.batch[1] >= vector && (last == 0 || last >= vector) && taps <= kMostLaneTaps &&
           reach <= most;
  }

  /// Of more taps strips take less: they join rows first, then the columns of these.
  bool has_few_taps(const PoolPlan& p) const {
    return taps <= (is_half(p.dtype) ? kFewHalfTaps : kFewLaneTaps);
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
