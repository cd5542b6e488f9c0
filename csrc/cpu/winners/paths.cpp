// The paths of max pooling with indices on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/winners/shape.h"
#include "cpu/winners/winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <WinnerPath kPath>
void run(const PoolPlan& plan, const Arrays& a) {
  max_winners(plan, kPath, a.inputs[0], a.outputs[0], a.outputs[1]);
}

bool fits_strips(const PoolPlan& plan, const Machine&) { return winner_shape(plan).fits(); }

bool has_pairs(const PoolPlan& plan, const Machine&) {
  return folds_pairs(plan, winner_shape(plan)) && most_taps(plan, 2) <= kMostFoldedRows;
}

bool is_float_of_lanes(const PoolPlan& plan, const Machine&) {
  return plan.dtype == Dtype::float32 || is_half(plan.dtype);
}

bool has_float_lanes(const PoolPlan& plan, const Machine&) {
  return kHasWideVectors || plan.dtype == Dtype::float32;
}

bool has_near(const PoolPlan& plan, const Machine&) { return has_near_taps(plan); }

bool fits_side_by_side(const PoolPlan& plan, const Machine&) { return fits_lanes(plan); }

constexpr Predicate<PoolPlan> kFitsStrips = {
    "rows have several windows whose columns lie together and fit a line of the first cache, in "
    "planes whose positions fit a lane",
    fits_strips};
constexpr Predicate<PoolPlan> kHasPairs = {
    "windows are two or three packed columns, two apart, that are real but for one before the "
    "first, of at most 16 rows",
    has_pairs};

constexpr Path<PoolPlan> kPaths[] = {
    {"winners/plain_pairs",
     {{"elements are floats of at most 32 bits", is_float_of_lanes},
      {"the processor has vectors wider than 16 bytes, or elements are float32", has_float_lanes},
      kFitsStrips,
      kHasPairs,
      {"windows have at most three rows, of one plane, and positions in them fit an element",
       has_near}},
     run<WinnerPath::plain_pairs>,
     {2.6, "02 max+uint32 3x3/2, 32x64x112x112, float16 C"}},
    {"winners/pairs",
     {{"elements are floats of at most 32 bits", is_float_of_lanes}, kFitsStrips, kHasPairs},
     run<WinnerPath::pairs>},
    {"winners/strips", {kFitsStrips}, run<WinnerPath::strips>},
    {"winners/side_by_side",
     {{"8 planes or more lie side by side in x, or 64 of packed rows", fits_side_by_side}},
     run<WinnerPath::side_by_side>},
    {"winners/plain", {}, run<WinnerPath::plain>},
};

}  // namespace

Paths<PoolPlan> winner_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
