// What every call of a canonical operator has in common.
#include "bindings/invocation.h"

#include "bindings/exchange.h"
#include "bindings/libraries.h"

namespace cudml::bindings {

Invocation::Invocation(Call& call, const NamedInputs& inputs)
    : call_(call), inputs_{inputs.x, inputs.second, inputs.third}, key_(call) {
  for (const NamedInput& input : inputs_)
    if (input.array)
      key_.add(input.array->view);
    else
      key_.add(uint64_t(-1));
  const Array& like = inputs_[0].array ? *inputs_[0].array : *inputs_[1].array;
  is_row_major_ = like.lease && is_row_major(like.source);  // libraries with a table are not
  key_.add(uint64_t(is_row_major_));
}

void Invocation::add_output(const char* field, const char* name, py::handle out) {
  Output& output = outputs_[output_count_++];
  output.field = field;
  output.name = name;
  output.is_given = !out.is_none();
  if (output.is_given) {
    output.array = output_array(call_, field, name, out);
    key_.add(output.array.view);
  } else {
    key_.add(uint64_t(-1));
  }
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

std::shared_ptr<const PlannedCall> Invocation::keep(const Program::Plan& plan) const {
  auto planned = std::make_shared<const PlannedCall>(PlannedCall{
      Program(call_.op, plan, call_.place), {outputs_[0].array.view, outputs_[1].array.view}});
  // Python code of an argument, or another thread, may have forced another kernel meanwhile.
  if (library::forced_kernel_now() == call_.forced_kernel) keep_plan(key_, planned);
  return planned;
}

/// What the plan does not say: whether outputs can be written and share memory with other tensors.
void Invocation::check_arrays() const {
  for (int o = 0; o < output_count_; ++o) {
    const Output& output = outputs_[o];
    if (!output.is_given) continue;
    check_writable(call_.op, output.field, output.name, output.array);
    for (const NamedInput& input : inputs_) {
      if (!input.array) continue;
      const bool is_first = o == 0 && &input == &inputs_[0];
      if (may_be_in_place_ && is_first && is_alias(output.array.view, input.array->view)) continue;
      check_no_overlap(call_.op, output.field, output.array.footprint, input.field,
                       input.array->footprint);
    }
    if (o == 1 && outputs_[0].is_given)
      check_no_overlap(call_.op, output.field, output.array.footprint, outputs_[0].field,
                       outputs_[0].array.footprint);
  }
}

Operands Invocation::operands() const {
  const auto data = [](const NamedInput& input) -> void* {
    return input.array && !input.array->is_copy_due ? input.array->view.data : nullptr;
  };
  return {data(inputs_[0]), data(inputs_[1]), data(inputs_[2]), outputs_[0].array.view.data,
          outputs_[1].array.view.data};
}

void Invocation::allocate(const PlannedCall& planned) {
  const Array& like = inputs_[0].array ? *inputs_[0].array : *inputs_[1].array;
  for (int o = output_count_ - 1; o >= 0; --o)  // indices first: their type may be refused
    if (!outputs_[o].is_given)
      outputs_[o].array = new_array(call_, outputs_[o].field, like, planned.outputs[o]);
}

/// What an accepted call still needs. The arrays are looked at last, after everything that may run
/// Python code: their addresses hold from here on.
void Invocation::make_ready(const Program& program, Pins& pins) {
  for (int o = 0; o < output_count_; ++o)
    if (outputs_[o].is_given && outputs_[o].array.source) tell_written(outputs_[o].array.source);
  py::handle used[5];
  size_t count = 0;
  for (const NamedInput& input : inputs_)
    used[count++] = input.array ? input.array->source : py::handle();
  for (int o = 0; o < output_count_; ++o) used[count++] = outputs_[o].array.source;
  tell_used(call_, {used, count});
  for (const NamedInput& input : inputs_)
    if (input.array) make_copy(call_.op, input.field, input.name, *input.array);
  if (lets_others_run(program)) {
    for (const NamedInput& input : inputs_)
      if (input.array) pins.add(input.array->keep);
    for (int o = 0; o < output_count_; ++o) pins.add(outputs_[o].array.keep);
  }
  for (const NamedInput& input : inputs_)
    if (input.array) read_again(call_, input.field, input.name, *input.array);
  for (int o = 0; o < output_count_; ++o)
    read_again(call_, outputs_[o].field, outputs_[o].name, outputs_[o].array);
  for (const NamedInput& input : inputs_)
    if (input.array) check_unchanged(call_.op, input.field, input.name, *input.array);
  for (int o = 0; o < output_count_; ++o)
    check_unchanged(call_.op, outputs_[o].field, outputs_[o].name, outputs_[o].array);
}

void Invocation::log(const PlannedCall& planned) const {
  NamedTensor tensors[5];
  size_t count = 0;
  for (const NamedInput& input : inputs_)
    if (input.array) tensors[count++] = {input.field, &input.array->view};
  for (int o = 0; o < output_count_; ++o)
    tensors[count++] = {outputs_[o].field, &outputs_[o].array.view};
  library::log_call(call_.op, call_.place, call_.stream, planned.program.explain(operands()),
                    NamedTensors(tensors, count));
}

py::object Invocation::run_planned(const PlannedCall& planned, py::handle out) {
  check_arrays();
  allocate(planned);
  Pins pins;
  make_ready(planned.program, pins);
  if (library::is_logging()) log(planned);
  bindings::run(planned.program, call_, operands());
  if (!out.is_none()) return py::reinterpret_borrow<py::object>(out);
  py::object y = finished(call_, outputs_[0].array);
  if (output_count_ == 1) return y;
  return py::make_tuple(y, finished(call_, outputs_[1].array));
}

}  // namespace cudml::bindings
