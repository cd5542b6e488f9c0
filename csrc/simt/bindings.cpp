// What only cudml._simt offers to Python: its kernels, and the stand-in runtime seen from outside.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>

#include "executor.h"
#include "simt/bindings.h"
#include "simt/host_part.h"
#include "streams.h"

namespace cudml::simt {
namespace {

namespace py = pybind11;

/// Fails with the error's name where the runtime refuses.
void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}

cudaStream_t stream_of(uintptr_t handle) { return reinterpret_cast<cudaStream_t>(handle); }

py::list calls() {
  py::list result;
  for (const Noted& noted : noted_calls())
    result.append(py::make_tuple(noted.call, noted.stream, noted.device, noted.object));
  return result;
}

void bind_runtime(py::module_& module) {
  module.def("simt_log", &log_calls);
  module.def("simt_calls", &calls);
  module.def("simt_fail", [](const std::string& call, int skipped, int error) {
    fail_call(call, skipped, cudaError_t(error));
  });
  module.def("simt_pending", [] { return std::string(cudaGetErrorName(cudaPeekAtLastError())); });
  module.def("simt_set_pending", [](int error) { set_last_error(cudaError_t(error)); });
  module.def("simt_device", [] { return current_device(); });
  module.def("simt_set_device", [](int device) { require(cudaSetDevice(device)); });
  module.def("simt_synchronize", [] { require(cudaDeviceSynchronize()); });
  module.def("simt_place", &place_memory);
  module.def("simt_unplace", &unplace_memory);
  module.def("simt_forget_loaded", [] {
    return py::capsule(new Loaded(forget_loaded()), "kernels",
                       [](void* kernels) { delete static_cast<Loaded*>(kernels); });
  });
  module.def("simt_remember_loaded",
             [](const py::capsule& kernels) { remember_loaded(*kernels.get_pointer<Loaded>()); });
  module.def("simt_events", &live_events);
  module.def("simt_set_driver", &set_driver);
  module.def("simt_support_pools", &support_pools);
  module.def("simt_pools", &memory_pools);
}

/// The capsule of a library's exchange table, as one that says its arrays are on the device.
py::capsule table_on_device_of(const py::capsule& table) {
  using bindings::dlpack::ExchangeTable;
  const auto* library = static_cast<const ExchangeTable*>(table.get_pointer<void>());
  return py::capsule(table_on_device(library), ExchangeTable::kCapsuleName);
}

void bind_streams(py::module_& module) {
  module.def("simt_exchange_table", &table_on_device_of);
  module.def("simt_set_current_stream", &set_current_stream);
  module.def("simt_skip_kernels", &skip_kernels);
  module.def("simt_stream", [] { return reinterpret_cast<uintptr_t>(make_stream()); });
  module.def("simt_destroy_stream",
             [](uintptr_t stream) { require(cudaStreamDestroy(stream_of(stream))); });
  module.def("simt_begin_capture",
             [](uintptr_t stream) { require(begin_capture(stream_of(stream))); });
  module.def("simt_end_capture", [](uintptr_t stream) {
    uint64_t graph = 0;
    require(end_capture(stream_of(stream), &graph));
    return graph;
  });
  module.def("simt_launch_graph", [](uint64_t graph, uintptr_t stream) {
    require(launch_graph(graph, stream_of(stream)));
  });
  module.def("simt_destroy_graph", &destroy_graph);
}

}  // namespace

void bind_simt(pybind11::module_& module) {
  module.def("all_kernels", &all_kernels);
  module.def("launched_kernels", &launched_kernels);
  bind_runtime(module);
  bind_streams(module);
}

}  // namespace cudml::simt
