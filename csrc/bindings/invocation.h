// One call of a canonical operator: from its tensors to the result.
#pragma once

#include <memory>
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

/// x, then a gradient or the scale, then the bias.
struct NamedInputs {
  NamedInput x, second = {}, third = {};
};

/// Takes the inputs and outputs of a call, looks its plan up or makes it, checks what each call
/// must be checked for, brings the outputs that are missing and runs the plan.
class Invocation {
 public:
  Invocation(Call& call, const NamedInputs& inputs);

  /// What the plan depends on beside the tensors is added here.
  PlanKey& key() { return key_; }

  /// The next output, which `out` is, or None where it is to be allocated.
  void add_output(const char* field, const char* name, py::handle out);

  /// The first output may be x itself.
  void permit_in_place() { may_be_in_place_ = true; }

  /// What output `index` is: the caller's array, which must then be of this type and these sizes,
  /// or a dense tensor in the memory order of `like`. To be called while a plan is made.
  const TensorDesc& settle(int index, Dtype dtype, const Dims& sizes, const TensorDesc& like);

  /// The result: `out` itself where it is given, else one array, or two in a tuple. `make` makes
  /// the plan where there is none for an equal call.
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
    bool is_given;
  };

  std::shared_ptr<const PlannedCall> keep(const Program::Plan& plan) const;
  void check_arrays() const;
  Operands operands() const;
  void allocate(const PlannedCall& planned);
  void make_ready(const Program& program, Pins& pins);
  void log(const PlannedCall& planned) const;
  py::object run_planned(const PlannedCall& planned, py::handle out);

  Call& call_;
  NamedInput inputs_[3];
  Output outputs_[2];
  int output_count_ = 0;
  bool may_be_in_place_ = false, is_row_major_ = false;
  PlanKey key_;
};

}  // namespace cudml::bindings
