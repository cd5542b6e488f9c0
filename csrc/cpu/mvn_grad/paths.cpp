// The paths of normalization's gradients on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/mvn_grad/columns.h"
#include "cpu/mvn_grad/plain.h"
#include "cpu/mvn_grad/planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool has_columns(const MvnGradPlan& plan, const Machine&) { return are_grad_columns_apart(plan); }

void columns(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_columns<T>(plan, a); });
}

bool has_planes(const MvnGradPlan& plan, const Machine&) { return has_grad_planes(plan); }

void planes(const MvnGradPlan& plan, const Arrays& a) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() { mvn_grad_planes<T>(plan, a); });
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
    {"mvn_grad/planes",
     {{"groups consist of packed pieces of at least 16 elements, each with one scale and bias",
       has_planes}},
     planes},
    {"mvn_grad/plain", {}, plain},
};

}  // namespace

Paths<MvnGradPlan> mvn_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
