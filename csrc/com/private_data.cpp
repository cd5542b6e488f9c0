// Private data by GUID.
#include "com/private_data.h"

#include <algorithm>
#include <cstring>

#include "com/errors.h"

namespace cudml::com {

HRESULT PrivateData::get(REFGUID guid, UINT* size, void* data) const noexcept {
  if (!size) return E_POINTER;
  const std::lock_guard guard(lock_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.guid == guid; });
  const UINT room = *size;
  if (found == entries_.end()) {
    *size = 0;
    return DXGI_ERROR_NOT_FOUND;
  }
  IUnknown* const object = found->object.get();
  const void* const from = object ? static_cast<const void*>(&object) : found->bytes.data();
  *size = object ? UINT(sizeof object) : UINT(found->bytes.size());
  if (!data) return S_OK;
  if (room < *size) return DXGI_ERROR_MORE_DATA;
  if (*size) std::memcpy(data, from, *size);
  if (object) object->AddRef();
  return S_OK;
}

void PrivateData::put(Entry entry, bool is_empty) {
  Ref<IUnknown> former;  // released without the lock: it may call back
  const std::lock_guard guard(lock_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& other) { return other.guid == entry.guid; });
  if (found != entries_.end()) {
    former = std::move(found->object);
    entries_.erase(found);
  }
  if (!is_empty) entries_.push_back(std::move(entry));
}

HRESULT PrivateData::set(REFGUID guid, UINT size, const void* data) noexcept {
  try {
    const auto* bytes = static_cast<const std::byte*>(data);
    put({guid, data ? std::vector(bytes, bytes + size) : std::vector<std::byte>(), {}}, !data);
    return S_OK;
  } catch (...) {
    return report(false);
  }
}

HRESULT PrivateData::set(REFGUID guid, IUnknown* data) noexcept {
  try {
    put({guid, {}, Ref<IUnknown>(data)}, !data);
    return S_OK;
  } catch (...) {
    return report(false);
  }
}

}  // namespace cudml::com
