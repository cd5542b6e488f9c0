// The paths of max pooling with indices on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pool/copied.h"
#include "cpu/winners/copied.h"
#include "cpu/winners/shape.h"
#include "cpu/winners/turned.h"
#include "cpu/winners/winners.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::winners::kShortHalfPairs;
using tuning::winners::kShortPairs;
using tuning::winners::kShortThird;

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

/// By vectors of 16 bytes strips take less, but of 16-bit floats.
bool has_lane_type(const PoolPlan& plan, const Machine&) {
  return kHasWideVectors || is_half(plan.dtype);
}

bool fits_lane_taps(const PoolPlan& plan, const Machine&) { return LaneTapShape(plan).fits(plan); }

bool has_few_taps(const PoolPlan& plan, const Machine& machine) {
  return LaneTapShape(plan).has_few_taps(plan) || !fits_strips(plan, machine);
}

bool fits_side_by_side(const PoolPlan& plan, const Machine&) { return fits_lanes(plan); }

constexpr Predicate<PoolPlan> kFitsStrips = {
    "rows have several windows whose columns lie together and fit a line of the first cache, in "
    "planes whose positions fit a lane",
    fits_strips};
constexpr Predicate<PoolPlan> kHasPairs = {
    "windows are two or three packed columns, two apart, that are real but for one before the "
    "first, of at most 16 rows",
    has_pairs};

bool has_planes(const PoolPlan& plan, const Machine&) { return has_whole_rows(plan); }

bool is_turned(const PoolPlan& plan, const Machine&) { return TurnedWinners::fits(plan); }

/// Those of the whole tensor, whose dimensions may lie in another order in memory.
bool are_turned_near(const PoolPlan& plan, const Machine&) {
  const PoolPlan inner = TurnedWinners(plan).inner(plan);
  return LaneTapShape(inner).fits(inner);
}

bool has_few_turned_taps(const PoolPlan& plan, const Machine&) {
  return LaneTapShape(plan).has_few_taps(plan);
}

/// Pairs of columns are as fast along rows of some vectors.
bool are_rows_short(const PoolPlan& plan, const Machine& machine) {
  const bool are_pairs = is_float_of_lanes(plan, machine) && has_float_lanes(plan, machine) &&
                         fits_strips(plan, machine) && has_pairs(plan, machine) &&
                         has_near(plan, machine);
  const int64_t most = kHasLineVectors && is_half(plan.dtype) ? kShortHalfPairs : kShortPairs;
  return !are_pairs || plan.axis[2].in <= most + (plan.axis[2].window == 3 ? kShortThird : 0);
}

bool are_apart(const PoolPlan& plan, const Machine&) { return are_planes_apart(plan); }
bool are_worth(const PoolPlan& plan, const Machine&) { return are_copies_worth(plan); }
bool is_copied(const PoolPlan& plan, const Machine&) { return fits_copied_winners(plan); }

constexpr Predicate<PoolPlan> kHasLaneType = {
    "the processor has vectors wider than 16 bytes, or elements are 16-bit floats", has_lane_type};

constexpr Path<PoolPlan> kPaths[] = {
    {"winners/turned",
     {kHasLaneType,
      {"32 planes or more are packed, one after the other, and so short that 32 of them have room "
       "side by side",
       is_turned},
      {"positions in these planes are near each other", are_turned_near},
      {"windows have at most 12 taps, or 32 of 16-bit floats", has_few_turned_taps},
      {"rows are at most 12 elements, or 16 where windows have three columns, and 8 more of 16-bit "
       "floats by vectors of 64 bytes; or windows are no pairs of columns, two apart",
       are_rows_short}},
     run_turned_winners,
     {4.77, "bfloat16 3x3/2 of 2x512x7x7 on Zen 4"}},
    {"winners/plain_pairs",
     {{"elements are floats of at most 32 bits", is_float_of_lanes},
      {"the processor has vectors wider than 16 bytes, or elements are float32", has_float_lanes},
      kFitsStrips,
      kHasPairs,
      {"windows have at most three rows, of one plane, and positions in them fit an element",
       has_near}},
     run<WinnerPath::plain_pairs>,
     {2.62, "02 max+uint32 3x3/2, 32x64x112x112, float16 C"}},
    {"winners/pairs",
     {{"elements are floats of at most 32 bits", is_float_of_lanes}, kFitsStrips, kHasPairs},
     run<WinnerPath::pairs>},
    {"winners/lane_taps",
     {kHasLaneType,
      {"windows have at most 64 taps, whose positions are near each other, in planes of which "
       "whole "
       "vectors lie side by side in all tensors",
       fits_lane_taps},
      {"windows have at most 12 taps, or 32 of 16-bit floats, or do not fit strips", has_few_taps}},
     run<WinnerPath::lane_taps>,
     {4.22, "float64 3x3/2 of 8x64x56x56 with channels last on Zen 4"}},
    {"winners/strips", {kFitsStrips}, run<WinnerPath::strips>},
    {"winners/planes",
     {{"each plane is one packed row that one window covers", has_planes}},
     run<WinnerPath::planes>,
     {3.66, "max+uint32 of rows, 8x64x56x56, float16 C, on Zen 4"}},
    {"winners/side_by_side",
     {{"8 planes or more lie side by side in x, or 64 of packed rows", fits_side_by_side}},
     run<WinnerPath::side_by_side>},
    {"winners/copied",
     {{"elements of x or of the result lie apart, or in another order than their positions",
       are_apart},
      {"there are at most two dimensions of planes, and 512 elements, in planes that are not "
       "expanded or of at most 4 MB",
       are_worth},
      {"packed copies have a path of their own", is_copied}},
     run_copied_winners,
     {56, "max+uint32 3x3/2 of 8x32x56x56, float16, columns first, on Zen 4"}},
    {"winners/plain", {}, run<WinnerPath::plain>},
};

}  // namespace

Paths<PoolPlan> winner_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
