// Stands between the library and another one's exchange table.
#include "simt/host_part.h"

#include <atomic>

namespace cudml::simt {
namespace {

using bindings::dlpack::ExchangeTable;
using bindings::dlpack::Tensor;

std::atomic<const ExchangeTable*> real{nullptr};
std::atomic<uintptr_t> stream{0};

int borrow(void* object, Tensor* out) {
  const int error = real.load()->borrow(object, out);
  if (error == 0 && out->device.type == bindings::dlpack::kCpu)
    out->device = {bindings::dlpack::kCuda, 0};
  return error;
}

int current_stream(int32_t, int32_t, void** out) {
  *out = reinterpret_cast<void*>(stream.load());
  return 0;
}

}  // namespace

const ExchangeTable* table_on_device(const ExchangeTable* library) {
  static const ExchangeTable table{bindings::dlpack::kMajorVersion,
                                   bindings::dlpack::kMinorVersion,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   &borrow,
                                   &current_stream};
  real = library;
  return &table;
}

void set_current_stream(uintptr_t handle) { stream = handle; }

}  // namespace cudml::simt
