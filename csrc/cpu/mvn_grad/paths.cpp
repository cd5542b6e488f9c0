// The paths of normalization's gradients on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn_grad/columns.h"
#include "cpu/mvn_grad/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const MvnGradPlan& plan, const Machine&) { return are_grad_columns_apart(plan); }

void columns(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_columns<T>(plan, a); });
}

void plain(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_plain<T>(plan, a); });
}

constexpr Path<MvnGradPlan> kPaths[] = {
    {"mvn_grad/columns",
     {{"elements of a group stand 8 or more apart, or packed pieces of at most 128, which share "
       "scale and bias",
       has_columns}},
     columns},
    {"mvn_grad/plain", {}, plain},
};

}  // namespace

Paths<MvnGradPlan> mvn_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
