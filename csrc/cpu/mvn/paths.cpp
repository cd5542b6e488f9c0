// The paths of normalization on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn/columns.h"
#include "cpu/mvn/plain.h"
#include "cpu/mvn/rows.h"
#include "cpu/mvn/short_rows.h"
#include "cpu/mvn/tiles.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool are_floats_narrow(const MvnPlan& plan, const Machine&) { return plan.dtype != Dtype::float64; }

bool are_floats_wide(const MvnPlan& plan, const Machine&) { return plan.dtype == Dtype::float64; }

bool has_columns(const MvnPlan& plan, const Machine&) { return are_columns_apart(plan); }
bool has_tiles(const MvnPlan& plan, const Machine&) { return are_columns_tiled(plan); }
bool has_short_rows(const MvnPlan& plan, const Machine&) { return are_rows_short(plan); }
bool has_packed_rows(const MvnPlan& plan, const Machine&) { return are_rows_packed(plan); }

void tiles(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_tiles<T>(plan, a);
  });
}

void short_rows(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_short<T>(plan, a);
  });
}

void rows(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_rows<T>(plan, a);
  });
}

void columns(const MvnPlan& plan, const Arrays& a) { mvn_columns(plan, a); }

void plain(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_plain<T>(plan, a); });
}

constexpr Predicate<MvnPlan> kNarrow{"elements are floats of at most 32 bits", are_floats_narrow};
constexpr Predicate<MvnPlan> kPacked{
    "a group is packed, or in pieces that are, of 16 or more elements: near each other, few, or of "
    "more than 256, or 1024 of 16 bits, or of any length where they make up 16 or more packed "
    "elements, and have the same scale and bias, or one of each",
    has_packed_rows};

// Rows of the same length, type and strides take the same sums, whatever stands beside them: no
// choice among different ones may ask how many there are, nor where.
constexpr Path<MvnPlan> kPaths[] = {
    {"mvn/short_rows",
     {kNarrow, {"groups are rows of at most 15 elements at equal distances", has_short_rows}},
     short_rows},
    {"mvn/tiles",
     {kNarrow,
      {"elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits, and "
       "of less than 16 or three times their number: its sums are then those it has among "
       "neighbours, be there any or none",
       has_tiles}},
     tiles,
     {145, "40 GroupNorm+SiLU, 1x128x1024x1024, float16 L"}},
    {"mvn/rows", {kNarrow, kPacked}, rows, {3.53, "34 LayerNorm, 8192x16384, bfloat16 C"}},
    {"mvn/columns",
     {{"elements are float64", are_floats_wide},
      {"elements of a group stand 8 or more apart, or packed pieces of less than 16", has_columns}},
     columns,
     {14.7, "122 BatchNorm, 8x256x14x14, float64 L"}},
    {"mvn/plain", {}, plain},
};

}  // namespace

Paths<MvnPlan> mvn_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
