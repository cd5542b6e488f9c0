// The paths of normalization's gradients on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn_grad/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

void plain(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_plain<T>(plan, a); });
}

constexpr Path<MvnGradPlan> kPaths[] = {
    {"mvn_grad/plain", {}, plain},
};

}  // namespace

Paths<MvnGradPlan> mvn_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
