// The paths of the merge of statistics on the CPU.
#include "cpu/isa/families.h"
#include "cpu/merge/plain.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

void plain(const MergePlan& plan, const Arrays& a) {
  visit(plan.dtype, Types<float, double>{}, [&]<class T>() { merge_plain<T>(plan, a); });
}

constexpr Path<MergePlan> kPaths[] = {
    {"merge/plain", {}, plain},
};

}  // namespace

Paths<MergePlan> merge_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
