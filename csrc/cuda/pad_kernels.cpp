// The kernels of padding, first choice first, and how they cut the work.
#include "cuda/pad_kernels.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace cudml::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kLongRow = 256;    // bytes from which rows are worth a kernel of their own
constexpr int64_t kTileRows = 1024;  // at most, for the sake of shared memory

constexpr int64_t kLongestRow = int64_t{1} << 27;  // elements, so that 32 bits count its bytes

/// What a row is: its axis in positions of `run` elements, and how many dimensions are around it.
struct PadLine {
  PadAxis axis;
  int64_t run;
  int outer_rank;

  int64_t elements() const { return axis.out * run; }
};

PadLine line_of(const PadPlan& plan) {
  const PadAxis& last = plan.axis[plan.rank - 1];
  if (plan.rank > 1 && !last.is_padded()) {
    PadAxis around = plan.axis[plan.rank - 2];
    if (around.x_stride == last.x_stride * last.in && around.y_stride == last.y_stride * last.out &&
        around.out < kLongestRow / last.out) {
      around.x_stride = last.x_stride;
      around.y_stride = last.y_stride;
      return {around, last.out, plan.rank - 2};
    }
  }
  return {last, 1, plan.rank - 1};
}

int64_t row_count(const PadPlan& plan, const PadLine& line) {
  int64_t rows = 1;
  for (int d = 0; d < line.outer_rank; ++d) rows *= plan.axis[d].out;
  return rows;
}

bool doubles(const PadPlan& plan, int64_t alignment) {
  const PadAxis& last = plan.axis[plan.rank - 1];
  const bool moves_blocks = last.mode == Border::constant || last.mode == Border::wrap;
  if (alignment % (2 * plan.item_size) != 0 || !moves_blocks) return false;
  if (last.x_stride != 1 || last.y_stride != 1) return false;
  if ((last.in | last.out | last.start) % 2 != 0) return false;
  for (int d = 0; d < plan.rank - 1; ++d)
    if ((plan.axis[d].x_stride | plan.axis[d].y_stride) % 2 != 0) return false;
  return true;
}

/// What a row is cut into, and the units that are copied straight. For `row`, unit u covers bytes
/// 16 u - phase and on, where `phase` depends on the row's address: the units between first and
/// last lie inside for every phase, with room for reading 32 aligned bytes.
int64_t cut_row(PadKernel kernel, int64_t item, PadRows& r) {
  if (kernel != PadKernel::row) return r.out;
  const int64_t phase = kVectorBytes - item, start = r.start * item, end = start + r.in * item;
  const int64_t units = (r.out * item + phase + kVectorBytes - 1) / kVectorBytes;
  const int64_t first = (start + 2 * phase + kVectorBytes - 1) / kVectorBytes;
  const int64_t last = end / kVectorBytes - 1;
  if (first >= last) return units;
  r.inner_first = uint32_t(first);
  r.inner_last = uint32_t(last);
  return units;
}

uint32_t at_least_1(uint32_t n) { return std::max(n, 1u); }

}  // namespace

int64_t pad_elements(const PadPlan& plan) {
  int64_t n = 1;
  for (int d = 0; d < plan.rank; ++d) n *= plan.axis[d].out;
  return n;
}

PadPlan widened(const PadPlan& plan, PadKernel kernel, int64_t alignment) {
  // The first element that is read may be aligned less than the array's.
  const int64_t bits = alignment | plan.x_first * plan.item_size, common = bits & -bits;
  PadPlan wide = plan;
  for (size_t i = size_t(plan.item_size); i < sizeof wide.value.bytes; ++i)
    wide.value.bytes[i] = wide.value.bytes[i - size_t(plan.item_size)];
  while (wide.item_size < pad_width(kernel) && doubles(wide, common)) {
    wide.item_size *= 2;
    PadAxis& last = wide.axis[wide.rank - 1];
    last.in /= 2;
    last.out /= 2;
    last.start /= 2;
    for (int d = 0; d < wide.rank - 1; ++d) {
      wide.axis[d].x_stride /= 2;
      wide.axis[d].y_stride /= 2;
    }
    if (last.out == 1 && wide.rank > 1) --wide.rank;
  }
  return wide;
}

PadRows rows_of(PadKernel kernel, const PadPlan& plan) {
  PadRows r;
  const PadLine line = line_of(plan);
  r.outer_rank = line.outer_rank;
  for (int d = 0; d < r.outer_rank; ++d) {
    const PadAxis& a = plan.axis[d];
    r.outer[d] = {FastDiv(uint32_t(a.out)), a.mode, a.in, a.start, a.x_stride, a.y_stride};
  }
  r.mode = line.axis.mode;
  r.run = int32_t(line.run);
  r.by_run = FastDiv(uint32_t(line.run));
  r.runs_in = int32_t(line.axis.in);
  r.runs_start = int32_t(line.axis.start);
  r.in = r.runs_in * r.run;
  r.out = int32_t(line.elements());
  r.start = r.runs_start * r.run;
  r.x_stride = line.axis.x_stride;
  r.y_stride = line.axis.y_stride;
  r.has_map = (kernel == PadKernel::flat ? r.out : r.out - r.in) <= kPadMap;
  const int64_t units = cut_row(kernel, plan.item_size, r);
  const int64_t vectors = std::max<int64_t>(1, r.out * plan.item_size / kVectorBytes);
  r.tiles = cut_rows(row_count(plan, line), units, kernel == PadKernel::flat ? vectors : units,
                     kTileRows);
  r.by_units = FastDiv(uint32_t(units));
  r.by_inner = FastDiv(at_least_1(r.inner_last - r.inner_first));
  r.by_border = FastDiv(at_least_1(uint32_t(units) - (r.inner_last - r.inner_first)));
  return r;
}

namespace {

template <PadKernel kKernel>
PadPlan plan_for(const PadPlan& plan, const Situation& s) {
  return widened(plan, kKernel, s.alignment);
}

template <PadKernel kKernel>
bool has_few_rows(const PadPlan& plan, const Situation& s) {
  const PadPlan p = plan_for<kKernel>(plan, s);
  const PadLine line = line_of(p);
  return row_count(p, line) < int64_t{1} << 31 && line.elements() < kLongestRow;
}

bool is_wide(const PadPlan& plan, const Situation& s) {
  return plan_for<PadKernel::wide>(plan, s).item_size == 16;
}

template <PadKernel kKernel>
bool is_packed_along_rows(const PadPlan& plan, const Situation& s) {
  const PadPlan p = plan_for<kKernel>(plan, s);
  return p.axis[p.rank - 1].x_stride == 1 && p.axis[p.rank - 1].y_stride == 1;
}

bool has_long_rows(const PadPlan& plan, const Situation& s) {
  const PadPlan p = plan_for<PadKernel::row>(plan, s);
  return line_of(p).elements() * p.item_size >= kLongRow;
}

bool is_result_packed(const PadPlan& plan, const Situation&) {
  int64_t stride = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (plan.axis[d].y_stride != stride) return false;
    stride *= plan.axis[d].out;
  }
  return true;
}

bool has_short_rows(const PadPlan& plan, const Situation& s) {
  const PadPlan p = plan_for<PadKernel::flat>(plan, s);
  return line_of(p).elements() <= kPadMap;
}

template <PadKernel kKernel>
Geometry row_geometry(const PadPlan& plan, const Situation& s) {
  if (pad_elements(plan) == 0) return {0, kPadThreads, 0, 0};
  const PadRows rows = rows_of(kKernel, plan_for<kKernel>(plan, s));
  return {blocks_of(rows.tiles), kPadThreads, int64_t(rows.tiles.tile_rows * sizeof(PadRow)), 0};
}

Geometry generic_geometry(const PadPlan& plan, const Situation&) {
  const int64_t blocks = (pad_elements(plan) + kPadThreads - 1) / kPadThreads;
  return {uint32_t(std::min(blocks, kMostLoopBlocks)), kPadThreads, 0, 0};
}

template <PadKernel kKernel>
constexpr Predicate<PadPlan> kCounts32{"there are fewer than 2^31 rows of fewer than 2^27 elements",
                                       has_few_rows<kKernel>};

constexpr Kernel<PadPlan> kKernels[] = {
    {"pad_wide",
     {{"sizes, pads, strides and addresses are multiples of 16 bytes", is_wide},
      kCounts32<PadKernel::wide>},
     row_geometry<PadKernel::wide>},
    {"pad_row",
     {{"the elements of a row are neighbours in x and y", is_packed_along_rows<PadKernel::row>},
      {"rows are at least 256 bytes", has_long_rows},
      kCounts32<PadKernel::row>},
     row_geometry<PadKernel::row>},
    {"pad_flat",
     {{"the result is packed", is_result_packed},
      {"rows are at most 256 elements", has_short_rows},
      kCounts32<PadKernel::flat>},
     row_geometry<PadKernel::flat>},
    {"pad_strided", {kCounts32<PadKernel::strided>}, row_geometry<PadKernel::strided>},
    {"pad_generic", {}, generic_geometry},
};
static_assert(std::size(kKernels) == size_t(PadKernel::count));

}  // namespace

Kernels<PadPlan> pad_kernels() { return kKernels; }

}  // namespace cudml::cuda
