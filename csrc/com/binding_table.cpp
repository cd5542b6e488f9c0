// Binding tables and the recorder. Their failures remove the device: most of their methods return
// nothing.
#include "com/binding_table.h"

namespace cudml::com {

BindingTable::BindingTable(Device& device, const DML_BINDING_TABLE_DESC* desc) : Child(device) {
  point_to(desc);
}

void BindingTable::point_to(const DML_BINDING_TABLE_DESC* desc) {
  IDMLDispatchable* const named = desc ? desc->Dispatchable : nullptr;
  target_ =
      desc ? &own<Dispatchable>(device(), named, "DML_BINDING_TABLE_DESC: Dispatchable") : nullptr;
  dispatchable_ = Ref<IDMLDispatchable>(named);
}

Dispatchable& BindingTable::target(const char* method) const {
  check(target_, method, ": the table has no Dispatchable; Reset must name one first");
  return *target_;
}

void BindingTable::dispatch(const char* method, IDMLDispatchable* dispatchable,
                            void* stream) const {
  Dispatchable& object = target(method);
  check(dispatchable_.get() == dispatchable, method,
        ": bindings is a table for another dispatchable; Reset must name this one");
  object.dispatch(bound_, stream);
}

void BindingTable::BindInputs(UINT count, const DML_BINDING_DESC* bindings) {
  constexpr const char* kMethod = "IDMLBindingTable::BindInputs";
  device().attempt_or_remove([&] {
    const Dispatchable& dispatchable = target(kMethod);
    dispatchable.check_input_count(count);
    auto inputs =
        read_bindings(device(), kMethod, count, bindings, DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT);
    dispatchable.check_inputs(inputs);
    bound_.inputs = std::move(inputs);
  });
}

void BindingTable::BindOutputs(UINT count, const DML_BINDING_DESC* bindings) {
  constexpr const char* kMethod = "IDMLBindingTable::BindOutputs";
  device().attempt_or_remove([&] {
    const Dispatchable& dispatchable = target(kMethod);
    dispatchable.check_output_count(count);
    auto outputs =
        read_bindings(device(), kMethod, count, bindings, dispatchable.output_alignment());
    dispatchable.check_outputs(outputs);
    bound_.outputs = std::move(outputs);
  });
}

void BindingTable::BindTemporaryResource(const DML_BINDING_DESC* binding) {
  device().attempt_or_remove([&] {
    bound_.temporary = read_binding(device(), {"IDMLBindingTable::BindTemporaryResource", {}, {}},
                                    binding, DML_TEMPORARY_BUFFER_ALIGNMENT);
  });
}

void BindingTable::BindPersistentResource(const DML_BINDING_DESC* binding) {
  device().attempt_or_remove([&] {
    bound_.persistent = read_binding(device(), {"IDMLBindingTable::BindPersistentResource", {}, {}},
                                     binding, DML_PERSISTENT_BUFFER_ALIGNMENT);
  });
}

HRESULT BindingTable::Reset(const DML_BINDING_TABLE_DESC* desc) {
  return device().attempt([&] {
    point_to(desc);
    bound_ = {};
    return S_OK;
  });
}

void CommandRecorder::RecordDispatch(CUDML_STREAM stream, IDMLDispatchable* dispatchable,
                                     IDMLBindingTable* bindings) {
  constexpr const char* kMethod = "IDMLCommandRecorder::RecordDispatch";
  device().attempt_or_remove([&] {
    check(dispatchable, kMethod, ": dispatchable is null; it must be an object of this device");
    own<BindingTable>(device(), bindings, kMethod, ": bindings")
        .dispatch(kMethod, dispatchable, stream);
  });
}

}  // namespace cudml::com
