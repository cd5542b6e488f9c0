// The paths of normalization on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn/columns.h"
#include "cpu/mvn/plain.h"
#include "cpu/mvn/rows.h"
#include "cpu/mvn/short_rows.h"
#include "cpu/mvn/tiles.h"
#include "cpu/simd/vector.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_line_vectors(const MvnPlan&, const Machine&) { return kHasLineVectors; }

bool are_floats_narrow(const MvnPlan& plan, const Machine&) { return plan.dtype != Dtype::float64; }

bool is_row_nearer(const MvnPlan& plan, const Machine&) { return !are_columns_faster(plan); }
bool is_column_nearer(const MvnPlan& plan, const Machine&) { return are_columns_faster(plan); }
bool has_tiles(const MvnPlan& plan, const Machine&) { return are_columns_packed(plan); }
bool has_short_rows(const MvnPlan& plan, const Machine&) { return are_rows_short(plan); }
bool has_packed_rows(const MvnPlan& plan, const Machine&) { return are_rows_packed(plan); }

bool has_pairs(const MvnPlan& plan, const Machine& machine) {
  return are_rows_paired(plan, machine.threads);
}

void tiles(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_tiles<T>(plan, a.x, a.second, a.third, a.y);
  });
}

void short_rows(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_short<T>(plan, a.x, a.second, a.third, a.y);
  });
}

void paired_rows(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (kIsHalf<T>) mvn_paired_rows<T>(plan, a.x, a.second, a.third, a.y);
  });
}

void rows(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) mvn_rows<T>(plan, a.x, a.second, a.third, a.y);
  });
}

void columns(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{},
        [&]<class T>() { mvn_columns<T>(plan, a.x, a.second, a.third, a.y); });
}

void plain(const MvnPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{},
        [&]<class T>() { mvn_plain<T>(plan, a.x, a.second, a.third, a.y); });
}

constexpr Predicate<MvnPlan> kNarrow{"elements are floats of at most 32 bits", are_floats_narrow};
constexpr Predicate<MvnPlan> kRows{"the elements of a group are nearer in memory than groups are",
                                   is_row_nearer};
constexpr Predicate<MvnPlan> kPacked{"groups are packed, or in pieces of 16 or more elements",
                                     has_packed_rows};

constexpr Path<MvnPlan> kPaths[] = {
    {"mvn/tiles",
     {kNarrow,
      {"neighbours in memory belong to several groups, packed in x and y, with a scale and bias "
       "of the columns or one for all",
       has_tiles}},
     tiles},
    {"mvn/short_rows",
     {kNarrow,
      kRows,
      {"groups are rows of at most 16 elements that share scale and bias", has_short_rows}},
     short_rows},
    {"mvn/paired_rows",
     {{"the processor has vectors that fill a line of memory", has_line_vectors},
      kRows,
      kPacked,
      {"rows are 16-bit floats in whole lines, at least 3072 and 4 rows a thread, with a scale and "
       "a "
       "bias that they share and no activation",
       has_pairs}},
     paired_rows},
    {"mvn/rows", {kNarrow, kRows, kPacked}, rows},
    {"mvn/columns",
     {{"groups are nearer in memory than the elements of a group", is_column_nearer}},
     columns},
    {"mvn/plain", {}, plain},
};

}  // namespace

Paths<MvnPlan> mvn_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
