// What every object has: its reference count, the interfaces it answers to, private data.
#pragma once

#include <atomic>
#include <cwchar>

#include "com/private_data.h"

namespace cudml::com {

/// Direct3D's identifier of an object's name among its private data, in wide characters.
inline constexpr GUID kNameData = {
    0x4cca5fd8, 0x921f, 0x42c8, {0x85, 0x66, 0x70, 0xca, 0xf2, 0xa9, 0xb7, 0x41}};

/// Answers to Interface and to its Bases. Born with one reference.
template <class Interface, class... Bases>
class Object : public Interface {
 public:
  HRESULT QueryInterface(REFIID riid, void** ppv) final {
    if (!ppv) return E_POINTER;
    const bool is_known = riid == uuidof<IUnknown>() || riid == uuidof<IDMLObject>() ||
                          riid == uuidof<Interface>() || (... || (riid == uuidof<Bases>()));
    // The interfaces are a single line of inheritance: all of them begin at the same address.
    *ppv = is_known ? static_cast<Interface*>(this) : nullptr;
    if (!is_known) return E_NOINTERFACE;
    AddRef();
    return S_OK;
  }
  ULONG AddRef() final { return count_.fetch_add(1, std::memory_order_relaxed) + 1; }
  ULONG Release() final {
    const ULONG left = count_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if (left == 0) delete this;
    return left;
  }

  HRESULT GetPrivateData(REFGUID guid, UINT* size, void* data) final {
    return data_.get(guid, size, data);
  }
  HRESULT SetPrivateData(REFGUID guid, UINT size, const void* data) final {
    return data_.set(guid, size, data);
  }
  HRESULT SetPrivateDataInterface(REFGUID guid, IUnknown* data) final {
    return data_.set(guid, data);
  }
  HRESULT SetName(PCWSTR name) final {
    const size_t length = name ? std::wcslen(name) : 0;
    return data_.set(kNameData, UINT(length * sizeof(wchar_t)), name);
  }

 protected:
  virtual ~Object() = default;

 private:
  std::atomic<ULONG> count_{1};
  PrivateData data_;
};

}  // namespace cudml::com
