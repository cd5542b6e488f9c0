// What an application attaches to an object: bytes or an interface under a GUID.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "com/ref.h"

namespace cudml::com {

/// May be used from any number of threads.
class PrivateData {
 public:
  HRESULT get(REFGUID guid, UINT* size, void* data) const noexcept;
  /// Null data remove what is there.
  HRESULT set(REFGUID guid, UINT size, const void* data) noexcept;
  HRESULT set(REFGUID guid, IUnknown* data) noexcept;

 private:
  struct Entry {
    GUID guid;
    std::vector<std::byte> bytes;
    Ref<IUnknown> object;  // in the place of bytes
  };

  void put(Entry entry, bool is_empty);

  mutable std::mutex lock_;
  std::vector<Entry> entries_;
};

}  // namespace cudml::com
