// Bindings: the form of what an application hands over.
#include "com/binding.h"

#include <algorithm>

#include "cuda/device.h"
#include "library/compiled.h"

namespace cudml::com {
namespace {

void check_place(const Device& device, const Where& where, const void* data) {
  if (device.is_cpu()) return;
  const int owner = cuda::device_of(data);
  check(join("cuda:", owner) == device.place(), where, ".Buffer is memory of ",
        owner < 0 ? "the host" : join("cuda:", owner), "; it must be of ", device.place());
}

Range read_buffer(const Device& device, const Where& where, const DML_BUFFER_BINDING& binding,
                  uint64_t alignment) {
  if (!binding.Buffer) return {};
  const CUDML_BUFFER& buffer = *binding.Buffer;
  check(buffer.Data != nullptr, where, ".Buffer->Data is null; it must point to ",
        buffer.SizeInBytes, " bytes");
  check(binding.Offset <= buffer.SizeInBytes, where, ".Offset is ", binding.Offset,
        "; it must be at most ", buffer.SizeInBytes, ", the SizeInBytes of its Buffer");
  check(binding.SizeInBytes <= buffer.SizeInBytes - binding.Offset, where, ".SizeInBytes is ",
        binding.SizeInBytes, "; it must be at most ", buffer.SizeInBytes - binding.Offset,
        ", what its Buffer has from Offset ", binding.Offset, " on");
  check(binding.SizeInBytes > 0, where, ".SizeInBytes is 0; it must be at least 1");
  std::byte* const data = static_cast<std::byte*>(buffer.Data) + binding.Offset;
  check(reinterpret_cast<uintptr_t>(data) % alignment == 0, where, ".Offset is ", binding.Offset,
        "; Buffer->Data + Offset must be a multiple of ", alignment, " bytes");
  check_place(device, where, data);
  return {data, binding.SizeInBytes};
}

}  // namespace

bool Binding::is_empty() const {
  return std::none_of(ranges.begin(), ranges.end(), [](const Range& r) { return r.data; });
}

std::ostream& operator<<(std::ostream& out, const Where& where) {
  out << where.method << (where.binding ? ": bindings[" : ": binding");
  if (where.binding) out << *where.binding << ']';
  if (where.entry) out << ".Bindings[" << *where.entry << ']';
  return out;
}

Binding read_binding(const Device& device, Where where, const DML_BINDING_DESC* desc,
                     uint64_t alignment) {
  Binding binding;
  if (!desc || desc->Type == DML_BINDING_TYPE_NONE) return binding;
  binding.type = desc->Type;
  check(desc->Type == DML_BINDING_TYPE_BUFFER || desc->Type == DML_BINDING_TYPE_BUFFER_ARRAY, where,
        ".Type is ", int(desc->Type), "; it must be 0 (NONE), 1 (BUFFER) or 2 (BUFFER_ARRAY)");
  check(desc->Desc != nullptr, where, ".Desc is null; it must point to a ",
        desc->Type == DML_BINDING_TYPE_BUFFER ? "DML_BUFFER_BINDING" : "DML_BUFFER_ARRAY_BINDING");
  if (desc->Type == DML_BINDING_TYPE_BUFFER) {
    const auto& buffer = *static_cast<const DML_BUFFER_BINDING*>(desc->Desc);
    binding.ranges.push_back(read_buffer(device, where, buffer, alignment));
    return binding;
  }
  const auto& array = *static_cast<const DML_BUFFER_ARRAY_BINDING*>(desc->Desc);
  check(array.BindingCount <= kMostInputs, where, ".BindingCount is ", array.BindingCount,
        "; it must be at most ", kMostInputs, ", the most inputs that an operator has");
  check(array.Bindings || array.BindingCount == 0, where, ".Bindings is null; it must point to ",
        array.BindingCount, " bindings");
  for (UINT i = 0; i < array.BindingCount; ++i) {
    where.entry = i;
    binding.ranges.push_back(read_buffer(device, where, array.Bindings[i], alignment));
  }
  return binding;
}

std::vector<Binding> read_bindings(const Device& device, const char* method, UINT count,
                                   const DML_BINDING_DESC* descs, uint64_t alignment) {
  check(descs || count == 0, method, ": bindings is null; it must point to ", count, " bindings");
  std::vector<Binding> bindings;
  for (UINT i = 0; i < count; ++i)
    bindings.push_back(read_binding(device, {method, i, {}}, &descs[i], alignment));
  return bindings;
}

std::byte* required(const char* op, const char* field, const Binding& binding, uint64_t bytes) {
  const Range range = binding.range();
  check(range.data, op, ": ", field,
        binding.type == DML_BINDING_TYPE_BUFFER_ARRAY ? " is bound to a BUFFER_ARRAY"
                                                      : " is not bound",
        "; it must be a BUFFER of at least ", bytes, " bytes");
  check(range.size >= bytes, op, ": ", field, " is bound to ", range.size,
        " bytes; there must be at least ", bytes);
  return range.data;
}

}  // namespace cudml::com
