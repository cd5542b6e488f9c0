// The paths of the gradient of padding on the CPU, first choice first.
#include "cpu/isa/families.h"
#include "cpu/pad_grad/pieces.h"
#include "cpu/pad_grad/plain.h"
#include "cpu/pad_grad/rows.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

bool have_runs(const PadGradPlan& plan, const Machine&) { return GradLine(plan).has_runs; }
bool have_few_ends(const PadGradPlan& plan, const Machine&) { return has_few_ends(plan); }
bool have_few_rows(const PadGradPlan& plan, const Machine&) { return has_few_rows(plan); }
bool has_long_sums(const PadGradPlan& plan, const Machine&) { return plan.long_sums > 0; }

/// Calls fn(grad, result) with the arrays in the type of the elements.
template <class Fn>
void as_floats(const PadGradPlan& plan, const Arrays& a, const Fn& fn) {
  visit(plan.dtype, FloatTypes{},
        [&]<class T>() { fn(static_cast<const T*>(a.inputs[0]), static_cast<T*>(a.outputs[0])); });
}

void run_rows(const PadGradPlan& plan, const Arrays& a) {
  as_floats(plan, a, [&](const auto* grad, auto* result) { add_rows(plan, grad, result); });
}

void run_pieces(const PadGradPlan& plan, const Arrays& a) {
  as_floats(plan, a, [&]<class T>(const T* grad, T* result) {
    gather_pieces(plan, grad, result, static_cast<Acc<T>*>(a.workspace));
  });
}

void run_plain(const PadGradPlan& plan, const Arrays& a) {
  as_floats(plan, a, [&](const auto* grad, auto* result) { gather_all(plan, grad, result); });
}

constexpr Path<PadGradPlan> kPaths[] = {
    {"pad_grad/rows",
     {{"elements behind the last padded axis are packed, or there are none", have_runs},
      {"at most 1024 elements of a line have several terms, each at most 256", have_few_ends},
      {"a line is the sum of at most 256", have_few_rows}},
     run_rows,
     {138, "49 reflect 3 grad, 8x3x256x256, float16 C"}},
    {"pad_grad/pieces", {{"few elements have more than 4096 terms", has_long_sums}}, run_pieces},
    {"pad_grad/plain", {}, run_plain},
};

}  // namespace

Paths<PadGradPlan> pad_grad_paths() { return kPaths; }

}  // namespace cudml::cpu::CUDML_ISA
