// The paths of pooling without indices on the CPU, first choice first.
#include <limits>

#include "cpu/isa/families.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/parts.h"
#include "cpu/pool/strip_shape.h"
#include "cpu/pool/turned.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using enum ValuePath;

template <ValuePath kPath>
void run(const PoolPlan& plan, const Arrays& a) {
  if (plan.outputs() == 0) return;
  if (plan.kind == PoolKind::max) return max_values(plan, kPath, a.inputs[0], a.outputs[0]);
  if (plan.kind == PoolKind::average) return average_values(plan, kPath, a.inputs[0], a.outputs[0]);
  lp_values(plan, kPath, a.inputs[0], a.outputs[0]);
}

template <ValuePath kPath>
bool is_on_processor(const PoolPlan&, const Machine&) {
  return is_compiled(kPath);
}

template <ValuePath kPath>
bool has_type(const PoolPlan& plan, const Machine&) {
  const bool is_float = plan.dtype == Dtype::float32 || plan.dtype == Dtype::float64;
  return has_loops(kPath, {plan.kind, int(size_of(plan.dtype)), is_float});
}

template <ValuePath kPath>
constexpr Predicate<PoolPlan> kHasAvx = {"the processor has AVX", is_on_processor<kPath>};
template <ValuePath kPath>
constexpr Predicate<PoolPlan> kIsUsual = {"maxima or averages of 8 or 16 bits or of float32",
                                          has_type<kPath>};

bool have_neighbours(const PoolPlan& plan, const Machine&) {
  return plan.x.batch[1] == 1 && plan.y.batch[1] == 1;
}

/// Where windows advance by one, rows that are joined before them serve three of them.
bool is_average_of_nine(const PoolPlan& p) {
  const PoolAxis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  return p.kind == PoolKind::average && d.window == 1 && h.window == 3 && w.window == 3 &&
         w.stride > 1;
}

bool has_taps(const PoolPlan& p, const Machine&) {
  const int64_t taps = most_taps(p, 3);
  return p.batch[1] * value_bytes(p) >= kVectorBytes && joins_rows_first(p) &&
         (taps <= 4 || taps == 8 || is_average_of_nine(p));
}

bool fits_strips(const PoolPlan& plan, const Machine&) { return value_shape(plan).fits(); }
constexpr Predicate<PoolPlan> kFitsStrips = {
    "rows have several windows whose columns lie together, or close by, and fit a line of the "
    "first cache",
    fits_strips};

/// A few rows of wide pixels are joined as fast where they stand.
bool are_pixels_narrow(const PoolPlan& plan, const Machine& machine) {
  constexpr int64_t kWideBytes = tuning::pool::kWidePixelBytes;
  return !have_neighbours(plan, machine) || plan.batch[1] * size_of(plan.dtype) < kWideBytes ||
         plan.axis[2].stride == 1 || most_taps(plan, 3) > 9;
}

bool fits_lane_thirds(const PoolPlan& plan, const Machine&) {
  return lane_third_shape(plan).fits();
}

bool fits_packed(const PoolPlan& plan, const Machine&) { return packed_shape(plan).fits(); }
constexpr Predicate<PoolPlan> kIsPacked = {
    "windows advance by one over planes without gaps, as long as their outputs", fits_packed};

bool fits_plane_thirds(const PoolPlan& plan, const Machine&) {
  return has_plane_thirds(plan, packed_shape(plan));
}

bool fits_short_rows(const PoolPlan& plan, const Machine&) {
  return has_short_rows(plan, packed_shape(plan));
}

bool fits_fourths(const PoolPlan& plan, const Machine&) {
  return has_fourths(plan, value_shape(plan));
}

bool fits_pairs(const PoolPlan& plan, const Machine&) {
  return folds_pairs(plan, value_shape(plan));
}

bool has_avx(const PoolPlan&, const Machine&) { return !kIsKeptSmall; }
bool is_turned(const PoolPlan& plan, const Machine&) { return fits_turned(plan); }

/// Elements of the longest row that is turned: loops along rows are as fast where they are longer,
/// those that have something of several windows at once from fewer elements on.
int64_t most_turned(const PoolPlan& plan, const Machine& machine) {
  const int64_t bytes = size_of(plan.dtype), floats = 64 / std::max<int64_t>(bytes, 4);
  const bool is_packed = fits_packed(plan, machine);
  if (is_packed && has_type<plane_thirds>(plan, machine) && fits_plane_thirds(plan, machine))
    return plan.kind == PoolKind::max || kVectorBytes < 64 ? 8 : bytes == 2 ? 7 : 0;
  if (has_type<pairs>(plan, machine) && fits_pairs(plan, machine))
    return plan.axis[2].window > 2 ? floats : std::min<int64_t>(kVectorBytes / 4, 32 / bytes);
  const bool has_fourths = has_type<fourths>(plan, machine) && fits_fourths(plan, machine);
  return has_fourths || (is_packed && plan.kind != PoolKind::lp)
             ? floats
             : (tuning::turn::kLongRow - 1) / bytes;
}

bool are_rows_short(const PoolPlan& plan, const Machine& machine) {
  return plan.axis[2].in <= most_turned(plan, machine);
}

bool fits_planes(const PoolPlan& plan, const Machine&) { return has_whole_rows(plan); }
constexpr Predicate<PoolPlan> kHasPlanes = {"each plane is one packed row that one window covers",
                                            fits_planes};

bool has_few_vectors(const PoolPlan& p, const Machine&) {
  const int64_t n = p.axis[2].in;
  return n >= kLanes<float> && n < 16 * kLanes<float>;
}

bool fits_side_by_side(const PoolPlan& plan, const Machine&) { return has_lanes(plan); }

constexpr Path<PoolPlan> kPaths[] = {
    {"pool/taps",
     {kHasAvx<taps>,
      kIsUsual<taps>,
      {"planes lie side by side in x and y", have_neighbours},
      {"rows have several windows of at most 4 taps, or of 8, or averages of 3 x 3 that are 2 or "
       "more apart, in enough planes for a vector",
       has_taps}},
     run<taps>,
     {2.12, "88 average 3x3/2, 32x192x35x35, float16 L"}},
    {"pool/lane_thirds",
     {kHasAvx<lane_thirds>,
      {"maxima of 16 bits or of float32", has_type<lane_thirds>},
      kFitsStrips,
      {"windows are three columns, two apart, and at most three rows, over planes side by side, "
       "from a vector to 4096 bytes of them",
       fits_lane_thirds}},
     run<lane_thirds>,
     {1.37, "01 max 3x3/2, 32x64x112x112, float32 L"}},
    {"pool/turned",  // where windows are joined as those of strips are, with their bits
     {{"the processor has AVX", has_avx},
      {"32 planes or more are packed, one after the other, and so short that 32 of them stay in "
       "the caches side by side",
       is_turned},
      kFitsStrips,
      {"rows are at most 16 elements, 8 of float64 and for most pairs of columns and windows of "
       "three columns one apart, or less than 512 bytes where no loops along rows have something "
       "of several windows at once",
       are_rows_short}},
     run_turned,
     {2.19, "88 average 3x3/2, 64x256x14x14, float16 C"}},
    {"pool/plane_thirds",
     {kHasAvx<plane_thirds>,
      kIsUsual<plane_thirds>,
      kFitsStrips,
      kIsPacked,
      {"windows are three columns around their output, and at most three rows and planes",
       fits_plane_thirds}},
     run<plane_thirds>,
     {2.16, "09 average 3x3/1, 32x768x17x17, float32 C"}},
    {"pool/short_rows",
     {{"the processor has AVX-512", is_on_processor<short_rows>},
      {"maxima of 16 bits or of float32", has_type<short_rows>},
      kFitsStrips,
      kIsPacked,
      {"a vector holds a row, and what windows reach beyond it", fits_short_rows}},
     run<short_rows>,
     {1.62, "07 max 5x5/1, 8x256x20x20, float16 C"}},
    {"pool/packed_planes",
     {kFitsStrips, kIsPacked},
     run<packed_planes>,
     {1.23, "08 max 3x3/1 dilated, 8x64x128x128, float32 C"}},
    {"pool/fourths",
     {kHasAvx<fourths>,
      {"maxima or averages of 16 bits or of float32", has_type<fourths>},
      kFitsStrips,
      {"windows are four or five packed columns, four apart", fits_fourths}},
     run<fourths>,
     {1.19, "20 average 5/4, 2x256x32000, float16 C"}},
    {"pool/pairs",
     {{"maxima or averages of 8 or 16 bits or of float32, or norms of float32", has_type<pairs>},
      kFitsStrips,
      {"windows are two or three packed columns, two apart, and real but for one before the first",
       fits_pairs}},
     run<pairs>,
     {2.92, "06 max 3x3/2, 32x192x35x35, float16 C"}},
    {"pool/strips",
     {kFitsStrips,
      {"fewer than 2 KB of planes lie side by side in x and y, or windows are 1 apart along rows "
       "or "
       "have more than 9 taps",
       are_pixels_narrow}},
     run<strips>,
     {235, "48 max 2x2/2 images, 16x1024x1024x3, uint8 C"}},
    {"pool/short_planes",
     {kHasAvx<short_planes>,
      {"averages of 16 bits", has_type<short_planes>},
      kHasPlanes,
      {"planes are 1 to 16 vectors of float32 long", has_few_vectors}},
     run<short_planes>,
     {1.1, "14 average global, 256x2048x7x7, float16 C"}},
    {"pool/planes",
     {kHasPlanes},
     run<planes>,
     {1.11, "21 max over length, 64x256x1024, float16 C"}},
    {"pool/side_by_side",
     {{"8 planes or more lie side by side in x, and columns do not", fits_side_by_side}},
     run<side_by_side>,
     {40, "14 average global, 256x2048x7x7, float16 L"}},
    {"pool/plain", {}, run<plain>},
};

}  // namespace

Paths<PoolPlan> pool_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
