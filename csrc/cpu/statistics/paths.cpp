// The paths of normalization's statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/statistics/columns.h"
#include "cpu/statistics/plain.h"
#include "cpu/statistics/rows.h"
#include "cpu/statistics/tiles.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool are_floats_narrow(const StatisticsPlan& plan, const Machine&) {
  return plan.dtype != Dtype::float64;
}
bool are_floats_wide(const StatisticsPlan& plan, const Machine&) {
  return plan.dtype == Dtype::float64;
}
bool has_tiles(const StatisticsPlan& plan, const Machine&) { return are_statistics_tiled(plan); }

void tiles(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) statistics_tiles<T>(plan, a);
  });
}

bool has_columns(const StatisticsPlan& plan, const Machine&) { return are_statistics_apart(plan); }

void columns(const StatisticsPlan& plan, const Arrays& a) { statistics_columns(plan, a); }

bool has_rows(const StatisticsPlan& plan, const Machine&) { return are_groups_packed(plan); }

void rows(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) statistics_rows<T>(plan, a);
  });
}

void plain(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { statistics_plain<T>(plan, a); });
}

constexpr Predicate<StatisticsPlan> kNarrow{"elements are floats of at most 32 bits",
                                            are_floats_narrow};

constexpr Path<StatisticsPlan> kPaths[] = {
    {"statistics/tiles",
     {kNarrow,
      {"elements of a group stand apart, or packed pieces of at most 256, or 1024 of 16 bits, and "
       "of less than 16 or three times their number",
       has_tiles}},
     tiles,
     {65.1, "statistics over N, H and W, 16x64x112x112, float16 L"}},
    {"statistics/columns",
     {{"elements are float64", are_floats_wide},
      {"elements of a group stand 8 or more apart", has_columns}},
     columns,
     {8.16, "statistics over N, H and W, 16x64x112x112, float64 L"}},
    {"statistics/rows",
     {kNarrow, {"a group is packed, or in pieces of 16 or more elements that are", has_rows}},
     rows,
     {1.67, "statistics over N, H and W, 16x64x112x112, float16 C"}},
    {"statistics/plain", {}, plain},
};

}  // namespace

Paths<StatisticsPlan> statistics_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
