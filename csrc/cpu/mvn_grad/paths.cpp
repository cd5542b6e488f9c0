// The paths of normalization's gradients on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn_grad/columns.h"
#include "cpu/mvn_grad/copied.h"
#include "cpu/mvn_grad/plain.h"
#include "cpu/mvn_grad/planes.h"
#include "cpu/mvn_grad/rows.h"
#include "cpu/mvn_grad/side_by_side.h"
#include "cpu/mvn_grad/spread.h"
#include "cpu/mvn_grad/turned.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const MvnGradPlan& plan, const Machine&) { return are_grad_columns_apart(plan); }
bool has_other_order(const MvnGradPlan& plan, const Machine&) { return fits_copied_grad(plan); }
bool has_short_cells(const MvnGradPlan& plan, const Machine&) { return are_grad_cells_short(plan); }
bool are_floats_narrow(const MvnGradPlan& plan, const Machine&) {
  return plan.dtype != Dtype::float64;
}
/// Without statistics each element is a group, and paths differ in what they round. Sums are not
/// elements.
bool has_groups(const MvnGradPlan& plan, const Machine&) {
  return plan.uses_statistics() || plan.kind == MvnGradKind::sums;
}
bool are_sums_of_cells(const MvnGradPlan& plan, const Machine&) {
  return plan.kind != MvnGradKind::sums || plan.is_cell_a_group();
}
bool has_planes(const MvnGradPlan& plan, const Machine&) { return has_grad_planes(plan); }
bool has_short_planes(const MvnGradPlan& plan, const Machine&) {
  return has_short_grad_planes(plan);
}
bool passes_quickly(const MvnGradPlan& plan, const Machine&) { return passes_grad_quickly(plan); }
bool are_planes_many(const MvnGradPlan& plan, const Machine& machine) {
  return !are_sums_of_cells(plan, machine) || !has_few_grad_planes(plan);
}
bool has_short_rows(const MvnGradPlan& plan, const Machine&) { return are_grad_rows_short(plan); }
bool has_packed_rows(const MvnGradPlan& plan, const Machine&) { return are_grad_rows_packed(plan); }
bool has_moderate_rows(const MvnGradPlan& plan, const Machine&) {
  return are_grad_rows_moderate(plan);
}

void columns(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_columns<T>(plan, a); });
}

void side_by_side(const MvnGradPlan& plan, const Arrays& a) { mvn_grad_side_by_side(plan, a); }

bool has_spread_pieces(const MvnGradPlan& plan, const Machine&) {
  return are_grad_pieces_spread(plan);
}

void spread(const MvnGradPlan& plan, const Arrays& a) {
  run_grad_spread(mvn_grad_paths(), plan, a);
}

void turned(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_grad_turned<T>(plan, a);
  });
}

void rows(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_grad_rows<T>(plan, a);
  });
}

void planes(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_planes<T>(plan, a); });
}

void short_planes(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_grad_short_planes<T>(plan, a);
  });
}

void plain(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_plain<T>(plan, a); });
}

constexpr Predicate<MvnGradPlan> kNarrow{"elements are floats of at most 32 bits",
                                         are_floats_narrow};
constexpr Predicate<MvnGradPlan> kGroups{"elements share statistics, or sums are asked for",
                                         has_groups};
constexpr Predicate<MvnGradPlan> kSumsOfCells{"sums are of elements that share statistics",
                                              are_sums_of_cells};

constexpr Path<MvnGradPlan> kPaths[] = {
    {"mvn_grad/copied",
     {kGroups,
      {"a group's elements are packed in x but not in grad or dx, or less than 8 apart in one of "
       "these and 8 or more in x, where another path than plain takes copies that stand alike",
       has_other_order}},
     run_copied_grad,
     {9.9, "BatchNorm grad, 8x64x56x56, float32 L with a gradient C, on Zen 5"}},
    {"mvn_grad/side_by_side",
     {kNarrow,
      kGroups,
      kSumsOfCells,
      {"at most 1024 elements of a group, with a scale or bias each, or at most 24 without any "
       "stand "
       "8 or more apart",
       has_short_cells}},
     side_by_side,
     {13.4, "60 RMSNorm+SiLU grad, 1x96x4x480x832, bfloat16 C"}},
    {"mvn_grad/columns",
     {kGroups,
      {"elements of a group stand 8 or more apart; or 2 to 7, cut evenly into 16 or more rows that "
       "span at least 16; or packed pieces, which share scale and bias: of at most 128, or, with "
       "these varying along them, 8 or more of at most 4096",
       has_columns},
      {"groups do not consist of at most 256 packed planes with one scale and bias each",
       are_planes_many}},
     columns,
     {65.7, "63 GroupNorm grad, 2x320x64x64, float16 L"}},
    {"mvn_grad/rows",
     {kNarrow,
      kGroups,
      {"a group is one packed row, with scale and bias for each position or for all of it",
       has_packed_rows},
      {"rows have 32 to 16384 elements; of float32 without parameters and activation at most "
       "16383, by vectors of 64 bytes 2047; with a scale or bias of their own at most 2048, with "
       "these "
       "varying along them 1048576",
       has_moderate_rows}},
     rows,
     {3.52, "58 RMSNorm grad, 8192x4096, bfloat16 C"}},
    {"mvn_grad/turned",
     {kNarrow,
      kGroups,
      {"a group is one element, or one packed row too short to be taken as such", has_short_rows}},
     turned,
     {7.08, "LayerNorm grad, 262144x16, bfloat16 C, on Zen 4"}},
    {"mvn_grad/spread",
     {kNarrow,
      kGroups,
      {"a group is one packed row of pieces of at most 15 elements, each with one scale and bias, "
       "and no longer than rows with these for each position",
       has_spread_pieces}},
     spread,
     {37.9, "GroupNorm grad, 1024x320x7 in 2 groups, bfloat16 C, on Zen 4"}},
    {"mvn_grad/short_planes",
     {kNarrow,
      kGroups,
      {"groups of at most 131072 elements consist of packed pieces of 16 to 1024, each with one "
       "scale and bias, which all share or which follow each other along one dimension",
       has_short_planes},
      {"elements have a mean, a variance, sums of their own, and no activation, one of two "
       "straight "
       "pieces, or SiLU",
       passes_quickly}},
     short_planes,
     {1.77, "BatchNorm grad, 2x512x7x7, float16 C, on Zen 4"}},
    {"mvn_grad/planes",
     {kGroups,
      kSumsOfCells,
      {"groups consist of packed pieces of at least 16 elements, each with one scale and bias",
       has_planes}},
     planes,
     {3.64, "64 BatchNorm grad, 32x64x112x112, float16 C"}},
    {"mvn_grad/plain", {}, plain},
};

}  // namespace

Paths<MvnGradPlan> mvn_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
