// Binding tables, and the recorder that dispatches what they are for.
#pragma once

#include "com/dispatchable.h"

namespace cudml::com {

class BindingTable final : public Child<IDMLBindingTable> {
 public:
  BindingTable(Device& device, const DML_BINDING_TABLE_DESC* desc);

  void BindInputs(UINT count, const DML_BINDING_DESC* bindings) override;
  void BindOutputs(UINT count, const DML_BINDING_DESC* bindings) override;
  void BindTemporaryResource(const DML_BINDING_DESC* binding) override;
  void BindPersistentResource(const DML_BINDING_DESC* binding) override;
  HRESULT Reset(const DML_BINDING_TABLE_DESC* desc) override;

  /// Runs what the table is for, which must be `dispatchable`.
  void dispatch(const char* method, IDMLDispatchable* dispatchable, void* stream) const;

 private:
  void point_to(const DML_BINDING_TABLE_DESC* desc);
  Dispatchable& target(const char* method) const;

  Ref<IDMLDispatchable> dispatchable_;  // null until Reset names one
  Dispatchable* target_ = nullptr;      // the same object
  Bound bound_;
};

class CommandRecorder final : public Child<IDMLCommandRecorder> {
 public:
  using Child::Child;

  void RecordDispatch(CUDML_STREAM stream, IDMLDispatchable* dispatchable,
                      IDMLBindingTable* bindings) override;
};

}  // namespace cudml::com
