// One call of a canonical operator: from its tensors to the result.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/explain.h"
#include "bindings/plan_cache.h"

namespace cudml::bindings {

/// An input under DirectML's name and Python's; null where it is absent.
struct NamedInput {
  const char *field = "", *name = "";
  Array* array = nullptr;
};

/// Takes the inputs and outputs of a call, looks its plan up or makes it, checks what each call
/// must be checked for, brings the outputs that are missing and runs the plan.
class Invocation {
 public:
  /// Inputs in the order of the plan's operands; one at least is there.
  Invocation(Call& call, std::initializer_list<NamedInput> inputs);

  /// What the plan depends on beside the tensors is added here.
  PlanKey& key() { return key_; }

  /// The next output, which `out` is, or None where it is to be allocated.
  void add_output(const char* field, const char* name, py::handle out);

  /// The next result is None: it is not asked for, or there is no such tensor.
  void add_no_output();

  /// The result is a tuple however many outputs there are.
  void return_tuple() { is_tuple_ = true; }

  /// The first output may be x itself.
  void permit_in_place() { may_be_in_place_ = true; }

  /// What output `index` is: the caller's array, which must then be of this type and these sizes,
  /// or a dense tensor in the memory order of `like`. To be called while a plan is made.
  const TensorDesc& settle(int index, Dtype dtype, const Dims& sizes, const TensorDesc& like);

  /// The result: `out` itself where it holds all outputs, else one array, or several in a tuple.
  /// `make` makes the plan where there is none for an equal call.
  template <class Make>
  py::object run(py::handle out, const Make& make) {
    if (call_.is_explained) {
      const auto plan = make();
      check_arrays();
      return explained(call_, plan, operands());
    }
    auto planned = find_plan(key_);
    if (!planned) planned = keep(make());
    return run_planned(*planned, out);
  }

 private:
  struct Output {
    const char *field, *name;
    Array array;  // without memory until it is allocated
    bool is_given, is_absent;
  };

  std::shared_ptr<const PlannedCall> keep(const Plan& plan) const;
  void check_arrays() const;
  Operands operands() const;
  void allocate(const PlannedCall& planned);
  void make_ready(const Program& program, Pins& pins);
  void log(const PlannedCall& planned) const;
  py::object results(py::handle out);
  std::span<const NamedInput> inputs() const { return {inputs_, input_count_}; }
  std::span<Output> outputs() { return {outputs_, output_count_}; }
  std::span<const Output> outputs() const { return {outputs_, output_count_}; }
  py::object run_planned(const PlannedCall& planned, py::handle out);

  Call& call_;
  NamedInput inputs_[kMostInputs];
  Output outputs_[kMostOutputs];
  size_t input_count_, output_count_ = 0;
  const Array* first_ = nullptr;  // input: what outputs are like
  bool may_be_in_place_ = false, is_row_major_ = false, is_tuple_ = false;
  PlanKey key_;
};

}  // namespace cudml::bindings
