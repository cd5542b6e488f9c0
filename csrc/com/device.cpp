// The device's methods, and the functions that create devices.
#include "com/device.h"

#include <algorithm>

#include "com/binding_table.h"
#include "com/operators.h"
#include "cuda/device.h"
#include "cudml/cudml.h"
#include "directml/schema.h"
#include "library/compiled.h"
#include "library/operator.h"

namespace cudml::com {
namespace {

constexpr DML_EXECUTION_FLAGS kExecutionFlags =
    DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION | DML_EXECUTION_FLAG_DISABLE_META_COMMANDS |
    DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE;

void require_out(const char* method, void** ppv) {
  if (!ppv) throw Failure(E_POINTER, join(method, ": ppv is null; it must not be"));
}

/// The struct of type T behind a query or its answer.
template <class T, class Void>
auto& struct_of(const char* what, UINT size, Void* data) {
  using Struct = std::conditional_t<std::is_const_v<Void>, const T, T>;
  check(data != nullptr, what, " is null; it must point to ", sizeof(T), " bytes");
  check(size == sizeof(T), what, " has ", size, " bytes; it must have ", sizeof(T));
  return *static_cast<Struct*>(data);
}

/// Types that at least one operator takes.
bool is_supported(DML_TENSOR_DATA_TYPE type) {
  const auto& padding = directml::support_at(DML_OPERATOR_PADDING1, DML_FEATURE_LEVEL_6_4);
  return unsigned(type) < 32 && (padding.types >> type & 1) != 0;
}

DML_FEATURE_LEVEL highest_of(const DML_FEATURE_QUERY_FEATURE_LEVELS& query) {
  check(query.RequestedFeatureLevels && query.RequestedFeatureLevelCount > 0,
        "CheckFeatureSupport: no RequestedFeatureLevels are given; there must be at least 1");
  auto highest = DML_FEATURE_LEVEL(0);
  for (UINT i = 0; i < query.RequestedFeatureLevelCount; ++i)
    if (directml::name_of(query.RequestedFeatureLevels[i]))
      highest = std::max(highest, query.RequestedFeatureLevels[i]);
  if (!highest)
    throw Failure(DXGI_ERROR_UNSUPPORTED,
                  "CheckFeatureSupport: none of RequestedFeatureLevels is supported; the levels "
                  "are " +
                      directml::level_names());
  return highest;
}

void check_pageables(const Device& device, const char* method, UINT count,
                     IDMLPageable* const* objects) {
  check(objects || count == 0, method, ": ppObjects is null; it must point to ", count, " objects");
  for (UINT i = 0; i < count; ++i)
    own<Dispatchable>(device, objects[i], method, ": ppObjects[", i, "]");
}

}  // namespace

HRESULT Device::CheckFeatureSupport(DML_FEATURE feature, UINT query_size, const void* query,
                                    UINT support_size, void* support) {
  return attempt([&] {
    constexpr const char *kQuery = "CheckFeatureSupport: featureQueryData",
                         *kSupport = "CheckFeatureSupport: featureSupportData";
    if (feature == DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT) {
      const auto& asked =
          struct_of<DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT>(kQuery, query_size, query);
      struct_of<DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT>(kSupport, support_size, support)
          .IsSupported = is_supported(asked.DataType);
      return S_OK;
    }
    check(feature == DML_FEATURE_FEATURE_LEVELS, "CheckFeatureSupport: feature is ", int(feature),
          "; it must be 0 (TENSOR_DATA_TYPE_SUPPORT) or 1 (FEATURE_LEVELS)");
    const auto& asked = struct_of<DML_FEATURE_QUERY_FEATURE_LEVELS>(kQuery, query_size, query);
    auto& answer = struct_of<DML_FEATURE_DATA_FEATURE_LEVELS>(kSupport, support_size, support);
    answer.MaxSupportedFeatureLevel = highest_of(asked);
    return S_OK;
  });
}

HRESULT Device::CreateOperator(const DML_OPERATOR_DESC* desc, REFIID riid, void** ppv) {
  if (ppv) *ppv = nullptr;
  const auto make = [&] {
    check(desc != nullptr, "CreateOperator: desc is null; it must point to a DML_OPERATOR_DESC");
    return Ref<Operator>::adopt(new Operator(*this, library::make_operator(*desc)));
  };
  return attempt([&] { return hand_out_if_wanted(make, riid, ppv); });
}

HRESULT Device::CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID riid,
                                void** ppv) {
  if (ppv) *ppv = nullptr;
  const auto make = [&] {
    const auto& described = own<Operator>(*this, op, "CompileOperator: op");
    check((flags & ~kExecutionFlags) == 0, "CompileOperator: flags is ", int(flags),
          "; it must be a combination of 1, 2 and 4");
    return Ref<CompiledOperator>::adopt(
        new CompiledOperator(*this, library::compile(described.lowered(), place_)));
  };
  return attempt([&] { return hand_out_if_wanted(make, riid, ppv); });
}

HRESULT Device::CreateOperatorInitializer(UINT count, IDMLCompiledOperator* const* operators,
                                          REFIID riid, void** ppv) {
  if (ppv) *ppv = nullptr;
  const auto make = [&] {
    return Ref<Initializer>::adopt(new Initializer(*this, count, operators));
  };
  return attempt([&] {
    require_out("CreateOperatorInitializer", ppv);
    return hand_out(make, riid, ppv);
  });
}

HRESULT Device::CreateCommandRecorder(REFIID riid, void** ppv) {
  if (ppv) *ppv = nullptr;
  const auto make = [&] { return Ref<CommandRecorder>::adopt(new CommandRecorder(*this)); };
  return attempt([&] {
    require_out("CreateCommandRecorder", ppv);
    return hand_out(make, riid, ppv);
  });
}

HRESULT Device::CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID riid, void** ppv) {
  if (ppv) *ppv = nullptr;
  const auto make = [&] { return Ref<BindingTable>::adopt(new BindingTable(*this, desc)); };
  return attempt([&] {
    require_out("CreateBindingTable", ppv);
    return hand_out(make, riid, ppv);
  });
}

// Nothing is ever moved out of a device's memory.

HRESULT Device::Evict(UINT count, IDMLPageable* const* objects) {
  return attempt([&] {
    check_pageables(*this, "Evict", count, objects);
    return S_OK;
  });
}

HRESULT Device::MakeResident(UINT count, IDMLPageable* const* objects) {
  return attempt([&] {
    check_pageables(*this, "MakeResident", count, objects);
    return S_OK;
  });
}

HRESULT Device::GetDeviceRemovedReason() {
  const library::CallState state;
  if (is_removed()) refuse_removed();
  return removed_.load(std::memory_order_acquire);
}

HRESULT Device::refuse_removed() noexcept {
  try {
    const std::lock_guard guard(lock_);
    throw Failure(DXGI_ERROR_DEVICE_REMOVED, "the device has been removed: " + removal_);
  } catch (...) {
    return report(is_debug_);
  }
}

void Device::remove(HRESULT reason) noexcept {
  const std::lock_guard guard(lock_);
  if (is_removed()) return;
  try {
    removal_ = cudml_last_error();
  } catch (const std::bad_alloc&) {
    removal_.clear();
  }
  removed_.store(reason, std::memory_order_release);
}

namespace {

std::string place_of(const CUDML_DEVICE_DESC* desc) {
  check(desc != nullptr, "DMLCreateDevice: device is null; it must point to a CUDML_DEVICE_DESC");
  if (desc->Type == CUDML_DEVICE_TYPE_CPU) {
    check(desc->Ordinal == 0, "DMLCreateDevice: Ordinal is ", desc->Ordinal,
          "; of the CPU it must be 0");
    return "cpu";
  }
  check(desc->Type == CUDML_DEVICE_TYPE_CUDA, "DMLCreateDevice: Type is ", int(desc->Type),
        "; it must be 0 (CPU) or 1 (CUDA)");
  const cuda::DeviceQuery query = cuda::query_devices();
  if (desc->Ordinal >= query.devices.size())
    throw Failure(
        DXGI_ERROR_UNSUPPORTED,
        join("DMLCreateDevice: Ordinal is ", desc->Ordinal, "; there are ", query.devices.size(),
             " CUDA devices", query.is_built ? "" : ", this build has no CUDA kernels",
             query.message.empty() ? "" : ": " + query.message));
  return join("cuda:", desc->Ordinal);
}

HRESULT create_device(const CUDML_DEVICE_DESC* desc, DML_CREATE_DEVICE_FLAGS flags,
                      DML_FEATURE_LEVEL level, REFIID riid, void** ppv) noexcept {
  const library::CallState state;
  if (ppv) *ppv = nullptr;
  const bool is_debug = (flags & DML_CREATE_DEVICE_FLAG_DEBUG) != 0;
  const auto make = [&] {
    check((flags & ~DML_CREATE_DEVICE_FLAG_DEBUG) == 0, "DMLCreateDevice: flags is ", int(flags),
          "; it must be 0 (NONE) or 1 (DEBUG)");
    if (level > DML_FEATURE_LEVEL_6_4)
      throw Failure(DXGI_ERROR_UNSUPPORTED, join("DMLCreateDevice1: minimumFeatureLevel is ",
                                                 int(level), "; it must be at most 25600 (6_4)"));
    check(directml::name_of(level), "DMLCreateDevice1: minimumFeatureLevel is ", int(level),
          "; it must be one of ", directml::level_names());
    return Ref<Device>::adopt(new Device(place_of(desc), is_debug));
  };
  try {
    return hand_out_if_wanted(make, riid, ppv);
  } catch (...) {
    return report(is_debug);
  }
}

}  // namespace
}  // namespace cudml::com

extern "C" HRESULT DMLCreateDevice(const CUDML_DEVICE_DESC* device, DML_CREATE_DEVICE_FLAGS flags,
                                   REFIID riid, void** ppv) {
  return cudml::com::create_device(device, flags, DML_FEATURE_LEVEL_1_0, riid, ppv);
}

extern "C" HRESULT DMLCreateDevice1(const CUDML_DEVICE_DESC* device, DML_CREATE_DEVICE_FLAGS flags,
                                    DML_FEATURE_LEVEL minimumFeatureLevel, REFIID riid,
                                    void** ppv) {
  return cudml::com::create_device(device, flags, minimumFeatureLevel, riid, ppv);
}
