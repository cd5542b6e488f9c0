// What the pooling gradients' kernels read of a plan, and how they cut the work.
#include <algorithm>

#include "cuda/pool_grad_kernels.h"
#include "cuda/pool_kernels.h"

namespace cudml::cuda {
namespace {

constexpr int64_t kMostRows = 256;  // of a tile: 9 KiB of shared memory

GradAxis axis_of(const PoolAxis& a, bool include_padding) {
  GradAxis g;
  g.in = int32_t(a.in);
  g.out = int32_t(a.out);
  g.window = int32_t(a.window);
  g.stride = int32_t(a.stride);
  g.start = int32_t(a.start);
  g.end = int32_t(a.end);
  const int64_t room = a.in + (include_padding ? a.end : 0) + a.start - a.window;
  g.full_first = include_padding ? 0 : int32_t((a.start + a.stride - 1) / a.stride);
  g.full_last = room < 0 ? -1 : int32_t(std::min(room / a.stride, a.out - 1));
  g.by_in = FastDiv(uint32_t(a.in));
  g.by_stride = FastDiv(uint32_t(a.stride));
  return g;
}

GradStrides strides_of(const PoolStrides& s) {
  return {{int32_t(s.batch[0]), int32_t(s.batch[1])},
          {int32_t(s.space[0]), int32_t(s.space[1]), int32_t(s.space[2])}};
}

}  // namespace

int64_t pool_grad_elements(const PoolGradPlan& plan) {
  const PoolPlan& f = plan.forward;
  if (f.outputs() == 0) return 0;
  return f.batch[0] * f.batch[1] * f.axis[0].in * f.axis[1].in * f.axis[2].in;
}

bool has_lanes(const PoolGradPlan& plan) {
  const bool closer = plan.result.batch[1] < plan.result.space[2];
  return plan.forward.batch[1] > 1 && (closer || plan.forward.axis[2].in == 1);
}

GradPairs pairs_of(const PoolGradPlan& plan) {
  const PoolPlan& f = plan.forward;
  const GradRows rows = rows_of(plan, 1, 1, 0);
  GradPairs p;
  std::copy(rows.axis, rows.axis + 3, p.axis);
  p.x = strides_of(f.x);
  p.grad = rows.grad;
  p.result = rows.result;
  p.columns = kGradVectorBytes / int32_t(size_of(f.dtype));
  const int64_t columns = (f.axis[2].in + p.columns - 1) / p.columns;
  const int64_t cells = (f.axis[1].in + 1) / 2;
  p.by_columns = FastDiv(uint32_t(columns));
  p.by_cells = FastDiv(uint32_t(cells));
  p.by_planes = FastDiv(uint32_t(f.batch[1]));
  p.include_padding = f.include_padding;
  p.inverse = rows.inverse;
  p.units = uint32_t(f.batch[0] * f.batch[1] * f.axis[0].in * cells * columns);
  return p;
}

GradStrips strips_of(const PoolGradPlan& plan, bool has_vectors) {
  constexpr int64_t kMany = 14 << 17;  // elements that fill a GPU with long strips
  const PoolPlan& f = plan.forward;
  const GradRows rows = rows_of(plan, 1, 1, 0);
  const PoolAxis &h = f.axis[1], &w = f.axis[2];
  const bool is_max = f.kind == PoolKind::max;
  GradStrips s;
  std::copy(rows.axis, rows.axis + 3, s.axis);
  s.x = strides_of(f.x);
  s.grad = rows.grad;
  s.result = rows.result;
  s.include_padding = f.include_padding;
  s.end = int32_t((h.in - 1 + h.start) / h.stride + 1);
  const int64_t lanes = has_vectors ? w.in / (kGradVectorBytes / int64_t(size_of(f.dtype)))
                        : is_max    ? (w.in + 1) / 2 + 1
                                    : w.in;
  const int64_t planes = f.batch[0] * f.batch[1] * f.axis[0].in;
  const int64_t steps = s.end - h.start / h.stride;
  // With the rows of windows above a strip, steps fill whole batches of loads.
  s.steps = h.stride == 2 ? 7 : planes * lanes * steps < kMany ? 6 : 14;
  const int64_t strips = (steps + s.steps - 1) / s.steps;
  s.by_lanes = FastDiv(uint32_t(lanes));
  s.by_strips = FastDiv(uint32_t(strips));
  s.by_planes = FastDiv(uint32_t(f.batch[1]));
  s.units = uint32_t(planes * lanes * strips);
  return s;
}

GradRows rows_of(const PoolGradPlan& plan, int64_t columns, int64_t planes, int64_t phase) {
  const PoolPlan& f = plan.forward;
  GradRows r;
  int64_t taps = 1;
  for (int i = 0; i < 3; ++i) {
    const PoolAxis& a = f.axis[i];
    r.axis[i] = axis_of(a, f.include_padding);
    taps *= a.window;
    if (i == 1) r.full_rows = int32_t(taps);
  }
  r.include_padding = f.include_padding;
  r.inverse = float(1.0 / double(taps));
  r.grad = strides_of(f.y);
  r.winners = strides_of(f.indices);
  r.result = strides_of(plan.result);
  const bool lanes_in_rows = columns == 1 && has_lanes(plan);
  const int64_t lanes = lanes_in_rows ? f.batch[1] / planes : 1;
  const int64_t outside = lanes_in_rows ? 1 : f.batch[1];
  const int64_t units = (f.axis[2].in + phase + columns - 1) / columns * lanes;
  r.by_units = FastDiv(uint32_t(units));
  r.by_lanes = FastDiv(uint32_t(lanes));
  r.by_planes = FastDiv(uint32_t(outside));
  r.tiles = cut_rows(f.batch[0] * outside * f.axis[0].in * f.axis[1].in, units, units, kMostRows);
  return r;
}

PoolPlan winners_plan(const PoolGradPlan& plan) {
  PoolPlan f = plan.forward;
  f.y = f.indices;  // nothing is stored there; the incoming gradient's strides do not matter
  for (int i = 0; i < f.outer_rank; ++i) f.outer[i].y = f.outer[i].indices;
  return f;
}

Choice winners_choice(const PoolPlan& whole, const Situation& situation) {
  const PoolPlan winners = in_slices(whole);
  const Kernels<PoolPlan> kernels = pool_kernels();
  int i = 0;
  while (choose::refusal(kernels[size_t(i)], winners, situation)) ++i;
  return {i, kernels[size_t(i)].name, kernels[size_t(i)].geometry(winners, situation)};
}

}  // namespace cudml::cuda
