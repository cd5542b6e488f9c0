// The paths of normalization with given statistics on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/normalize/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

void plain(const NormalizePlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { normalize_plain<T>(plan, a); });
}

constexpr Path<NormalizePlan> kPaths[] = {
    {"normalize/plain", {}, plain},
};

}  // namespace

Paths<NormalizePlan> normalize_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
