// The paths of normalization's statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/statistics/columns.h"
#include "cpu/statistics/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const StatisticsPlan& plan, const Machine&) { return are_statistics_apart(plan); }

void columns(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { statistics_columns<T>(plan, a); });
}

void plain(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { statistics_plain<T>(plan, a); });
}

constexpr Path<StatisticsPlan> kPaths[] = {
    {"statistics/columns", {{"elements of a group stand 8 or more apart", has_columns}}, columns},
    {"statistics/plain", {}, plain},
};

}  // namespace

Paths<StatisticsPlan> statistics_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
