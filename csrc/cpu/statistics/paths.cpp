// The paths of normalization's statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/statistics/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

void plain(const StatisticsPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { statistics_plain<T>(plan, a); });
}

constexpr Path<StatisticsPlan> kPaths[] = {
    {"statistics/plain", {}, plain},
};

}  // namespace

Paths<StatisticsPlan> statistics_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
