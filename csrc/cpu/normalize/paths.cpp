// The paths of normalization with given statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/normalize/columns.h"
#include "cpu/normalize/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const NormalizePlan& plan, const Machine&) { return are_statistics_along(plan); }

void columns(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { normalize_columns<T>(plan, a); });
}

void plain(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { normalize_plain<T>(plan, a); });
}

constexpr Path<NormalizePlan> kPaths[] = {
    {"normalize/columns",
     {{"statistics differ along packed rows of 16 or more elements, or that follow each other",
       has_columns}},
     columns},
    {"normalize/plain", {}, plain},
};

}  // namespace

Paths<NormalizePlan> normalize_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
