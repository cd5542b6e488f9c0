// The device: it creates all other objects, and is removed when one of them is misused.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "com/errors.h"
#include "com/object.h"
#include "core/check.h"
#include "library/errors.h"

namespace cudml::com {

/// May be used from any number of threads.
class Device final : public Object<IDMLDevice> {
 public:
  Device(std::string place, bool is_debug) : place_(std::move(place)), is_debug_(is_debug) {}

  HRESULT CheckFeatureSupport(DML_FEATURE feature, UINT query_size, const void* query,
                              UINT support_size, void* support) override;
  HRESULT CreateOperator(const DML_OPERATOR_DESC* desc, REFIID riid, void** ppv) override;
  HRESULT CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID riid,
                          void** ppv) override;
  HRESULT CreateOperatorInitializer(UINT count, IDMLCompiledOperator* const* operators, REFIID riid,
                                    void** ppv) override;
  HRESULT CreateCommandRecorder(REFIID riid, void** ppv) override;
  HRESULT CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID riid, void** ppv) override;
  HRESULT Evict(UINT count, IDMLPageable* const* objects) override;
  HRESULT MakeResident(UINT count, IDMLPageable* const* objects) override;
  HRESULT GetDeviceRemovedReason() override;

  const std::string& place() const { return place_; }  // "cpu", "cuda:1"
  bool is_cpu() const { return place_ == "cpu"; }

  /// Runs a method that returns an HRESULT.
  template <class Method>
  HRESULT attempt(const Method& method) noexcept {
    const library::CallState state;
    if (is_removed()) return refuse_removed();
    try {
      return method();
    } catch (...) {
      return report(is_debug_);
    }
  }

  /// Runs a method that returns nothing: its failure removes the device.
  template <class Method>
  void attempt_or_remove(const Method& method) noexcept {
    const library::CallState state;
    if (is_removed()) return;
    try {
      method();
    } catch (...) {
      remove(report(is_debug_));
    }
  }

 private:
  bool is_removed() const { return removed_.load(std::memory_order_acquire) != S_OK; }
  HRESULT refuse_removed() noexcept;
  void remove(HRESULT reason) noexcept;

  const std::string place_;
  const bool is_debug_;
  std::atomic<HRESULT> removed_{S_OK};  // the reason
  std::mutex lock_;
  std::string removal_;  // what was wrong
};

/// Hands an object out as the interface `riid`; what `make` returns is a reference to it.
template <class Make>
HRESULT hand_out(const Make& make, REFIID riid, void** ppv) {
  const auto object = make();
  const HRESULT result = object->QueryInterface(riid, ppv);
  if (FAILED(result))
    throw Failure(result,
                  "riid names no interface of the object's; it must be one that the object has");
  return result;
}

/// The same where ppv is optional: without it, everything is checked and S_FALSE returned.
template <class Make>
HRESULT hand_out_if_wanted(const Make& make, REFIID riid, void** ppv) {
  if (ppv) return hand_out(make, riid, ppv);
  make();
  return S_FALSE;
}

/// What a device has made.
template <class Interface, class... Bases>
class Child : public Object<Interface, Bases..., IDMLDeviceChild> {
 public:
  explicit Child(Device& device) : device_(&device) {}

  HRESULT GetDevice(REFIID riid, void** ppv) final { return device_->QueryInterface(riid, ppv); }
  Device& device() const { return *device_; }

 private:
  Ref<Device> device_;
};

/// An interface's own object, which must be of this device; `what` begins the refusal.
template <class T, class Interface, class... What>
T& own(const Device& device, Interface* object, const What&... what) {
  check(object != nullptr, what..., " is null; it must be an object of this device");
  T* const found = dynamic_cast<T*>(object);
  check(found && &found->device() == &device, what...,
        " is of another device; it must be an object of this device");
  return *found;
}

}  // namespace cudml::com
