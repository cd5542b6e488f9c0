// What every call of a canonical operator has in common.
#include "bindings/invocation.h"

#include "bindings/exchange.h"
#include "bindings/libraries.h"

namespace cudml::bindings {

Invocation::Invocation(Call& call, std::initializer_list<NamedInput> inputs)
    : call_(call), input_count_(inputs.size()), key_(call) {
  std::copy(inputs.begin(), inputs.end(), inputs_);
  for (const NamedInput& input : inputs) {
    if (!input.array) {
      key_.add(uint64_t(-1));
      continue;
    }
    key_.add(input.array->view);
    if (!first_) first_ = input.array;
  }
  is_row_major_ = first_->lease && is_row_major(first_->source);  // libraries with a table are not
  key_.add(uint64_t(is_row_major_));
}

void Invocation::add_output(const char* field, const char* name, py::handle out) {
  Output& output = outputs_[output_count_++];
  output.field = field;
  output.name = name;
  output.is_given = !out.is_none();
  output.is_absent = false;
  if (output.is_given) {
    output.array = output_array(call_, field, name, out);
    key_.add(output.array.view);
  } else {
    key_.add(uint64_t(-1));
  }
}

void Invocation::add_no_output() {
  Output& output = outputs_[output_count_++];
  output.is_given = false;
  output.is_absent = true;
  key_.add(uint64_t(-2));
}

const TensorDesc& Invocation::settle(int index, Dtype dtype, const Dims& sizes,
                                     const TensorDesc& like) {
  Output& output = outputs_[index];
  if (output.is_given)
    check_output(call_.op, output.field, output.name, output.array, dtype, sizes);
  else
    static_cast<TensorDesc&>(output.array.view) = {
        dtype, sizes, is_row_major_ ? packed_strides(sizes) : strides_like(sizes, like)};
  return output.array.view;
}

std::shared_ptr<const PlannedCall> Invocation::keep(const Plan& plan) const {
  auto planned =
      std::make_shared<PlannedCall>(PlannedCall{Program(call_.op, plan, call_.place), {}});
  for (size_t o = 0; o < output_count_; ++o) planned->outputs[o] = outputs_[o].array.view;
  // Python code of an argument, or another thread, may have forced another kernel meanwhile.
  if (library::forced_kernel_now() == call_.forced_kernel) keep_plan(key_, planned);
  return planned;
}

/// What the plan does not say: whether outputs can be written and share memory with other tensors.
void Invocation::check_arrays() const {
  for (const Output& output : outputs()) {
    if (!output.is_given) continue;
    check_writable(call_.op, output.field, output.name, output.array);
    for (const NamedInput& input : inputs()) {
      if (!input.array) continue;
      const bool is_first = &output == &outputs_[0] && &input == &inputs_[0];
      if (may_be_in_place_ && is_first && is_same(output.array, *input.array)) continue;
      check_no_overlap(call_.op, output.field, output.array.footprint, input.field,
                       input.array->footprint);
    }
    for (const Output* other = &outputs_[0]; other < &output; ++other)
      if (other->is_given)
        check_no_overlap(call_.op, output.field, output.array.footprint, other->field,
                         other->array.footprint);
  }
}

Operands Invocation::operands() const {
  Operands operands;
  for (size_t i = 0; i < input_count_; ++i)
    if (const Array* input = inputs_[i].array; input && !input->is_copy_due)
      operands.inputs[i] = input->view.data;
  for (size_t o = 0; o < output_count_; ++o) operands.outputs[o] = outputs_[o].array.view.data;
  return operands;
}

void Invocation::allocate(const PlannedCall& planned) {
  for (size_t o = output_count_; o-- > 0;)  // indices first: their type may be refused
    if (!outputs_[o].is_given && !outputs_[o].is_absent)
      outputs_[o].array = new_array(call_, outputs_[o].field, *first_, planned.outputs[o]);
}

/// What an accepted call still needs. The arrays are looked at last, after everything that may run
/// Python code: their addresses hold from here on.
void Invocation::make_ready(const Program& program, Pins& pins) {
  py::handle used[kMostInputs + kMostOutputs];
  size_t count = 0;
  for (const NamedInput& input : inputs())
    used[count++] = input.array ? input.array->source : py::handle();
  for (const Output& output : outputs()) {
    if (output.is_given && output.array.source) tell_written(output.array.source);
    used[count++] = output.array.source;
  }
  tell_used(call_, {used, count});
  for (const NamedInput& input : inputs())
    if (input.array) make_copy(call_.op, input.field, input.name, *input.array);
  if (lets_others_run(program)) {
    for (const NamedInput& input : inputs())
      if (input.array) pins.add(input.array->keep);
    for (const Output& output : outputs())
      if (!output.is_absent) pins.add(output.array.keep);
  }
  for (const NamedInput& input : inputs())
    if (input.array) read_again(call_, input.field, input.name, *input.array);
  for (const Output& output : outputs())
    if (!output.is_absent) read_again(call_, output.field, output.name, output.array);
  for (const NamedInput& input : inputs())
    if (input.array) check_unchanged(call_.op, input.field, input.name, *input.array);
  for (const Output& output : outputs())
    if (!output.is_absent) check_unchanged(call_.op, output.field, output.name, output.array);
}

void Invocation::log(const PlannedCall& planned) const {
  NamedTensor tensors[kMostInputs + kMostOutputs];
  size_t count = 0;
  for (const NamedInput& input : inputs())
    if (input.array) tensors[count++] = {input.field, &input.array->view};
  for (const Output& output : outputs())
    if (!output.is_absent) tensors[count++] = {output.field, &output.array.view};
  library::log_call(call_.op, call_.place, call_.stream, planned.program.explain(operands()),
                    NamedTensors(tensors, count));
}

py::object Invocation::results(py::handle out) {
  bool are_all_given = !out.is_none();
  for (const Output& output : outputs()) are_all_given &= output.is_given;
  if (are_all_given) return py::reinterpret_borrow<py::object>(out);
  if (output_count_ == 1 && !is_tuple_) return finished(call_, outputs_[0].array);
  py::tuple all(output_count_);
  for (size_t o = 0; o < output_count_; ++o) {
    const Output& output = outputs_[o];
    all[o] = output.is_absent  ? py::object(py::none())
             : output.is_given ? py::reinterpret_borrow<py::object>(output.array.keep)
                               : finished(call_, output.array);
  }
  return all;
}

py::object Invocation::run_planned(const PlannedCall& planned, py::handle out) {
  check_arrays();
  allocate(planned);
  Pins pins;
  make_ready(planned.program, pins);
  if (library::is_logging()) log(planned);
  bindings::run(planned.program, call_, operands());
  return results(out);
}

}  // namespace cudml::bindings
