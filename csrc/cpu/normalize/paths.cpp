// The paths of normalization with given statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/normalize/columns.h"
#include "cpu/normalize/plain.h"
#include "cpu/normalize/rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const NormalizePlan& plan, const Machine&) { return are_statistics_along(plan); }

bool are_floats_narrow(const NormalizePlan& plan, const Machine&) {
  return plan.dtype != Dtype::float64;
}
bool has_rows(const NormalizePlan& plan, const Machine&) { return are_statistics_of_rows(plan); }

void rows(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) normalize_rows<T>(plan, a);
  });
}

void columns(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { normalize_columns<T>(plan, a); });
}

void plain(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { normalize_plain<T>(plan, a); });
}

constexpr Path<NormalizePlan> kPaths[] = {
    {"normalize/rows",
     {{"elements are floats of at most 32 bits", are_floats_narrow},
      {"packed rows of 16 or more elements share their statistics", has_rows}},
     rows,
     {16, "87 BatchNorm+ReLU, stored, 64x512x7x7, float16 C"}},
    {"normalize/columns",
     {{"statistics differ along packed rows of 16 or more elements, or that follow each other, or "
       "shorter packed rows follow each other",
       has_columns}},
     columns,
     {66.7, "87 BatchNorm+ReLU, stored, 64x512x7x7, float16 L"}},
    {"normalize/plain", {}, plain},
};

}  // namespace

Paths<NormalizePlan> normalize_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
