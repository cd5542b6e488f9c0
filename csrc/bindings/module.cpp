// The extension module: operators, threads, facts about the build, exceptions.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "bindings/arguments.h"
#include "bindings/call.h"
#include "bindings/exporter.h"
#include "bindings/memory.h"
#include "bindings/operators.h"
#include "bindings/plan_cache.h"
#include "bindings/raise.h"
#include "core/environment.h"
#include "cpu/isa/backend.h"
#include "cpu/simd/identity.h"
#include "cpu/threads/parallel.h"
#include "cuda/device.h"
#include "cudml/cudml.h"
#ifdef CUDML_SIMT
#include "simt/bindings.h"
#endif

#ifndef CUDML_MODULE
#define CUDML_MODULE _core  // a build of the same sources for another purpose names its own
#endif

#define CUDML_JOIN(a, b) a##b
#define CUDML_JOINED(a, b) CUDML_JOIN(a, b)
#define CUDML_INNER_MODULE CUDML_JOINED(CUDML_MODULE, _inner)

namespace cudml::bindings {
namespace {

/// Types, caches and NumPy itself are the process's; sets an ImportError anywhere but in its main
/// interpreter.
bool is_main_interpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(PyExc_ImportError,
                  "cudml cannot be imported in a subinterpreter; import it in the main one");
  return false;
}

py::list split(const std::string& text) {
  return text.empty() ? py::list() : py::list(py::str(text).attr("split")(","));
}

py::dict cuda_info() {
  const cuda::DeviceQuery query = cuda::query_devices();
  py::list devices;
  for (const cuda::Device& device : query.devices) {
    py::dict row;
    row["name"] = device.name;
    row["compute_capability"] = join(device.major, '.', device.minor);
    row["memory_bytes"] = device.memory_bytes;
    devices.append(row);
  }
  py::dict info;
  info["built"] = query.is_built;
  info["toolkit"] = *CUDML_CUDA_TOOLKIT ? py::object(py::str(CUDML_CUDA_TOOLKIT)) : py::none();
  info["architectures"] = split(CUDML_CUDA_ARCHITECTURES);
  info["why"] = query.is_built ? query.message : CUDML_CUDA_WHY;
  info["devices"] = devices;
  return info;
}

py::dict build_info() {
  py::dict info;
  info["version"] = CUDML_VERSION;
#if defined(__clang__)
  info["compiler"] = std::string("Clang ") + __clang_version__;
#else
  info["compiler"] = std::string("GCC ") + __VERSION__;
#endif
  info["instruction_sets"] = split(cpu::built_instruction_sets());
  info["instruction_set"] = cpu::backend().isa;
  info["cpu_features"] = cpu::features();
  info["cuda"] = cuda_info();
  return info;
}

int get_num_threads() {
  library::check_environment("get_num_threads");
  return cpu::num_threads();
}

void set_num_threads(const py::object& n) {
  library::check_environment("set_num_threads");
  unless_ended([&] {
    cpu::set_num_threads(int(whole_number("set_num_threads", "n", n, {1, kMaxThreads})));
  });
}

py::tuple cache_info() {
  const CacheInfo info = plan_cache_info();
  return py::make_tuple(info.hits, info.misses, info.maxsize, info.currsize);
}

void translate(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (...) {
    set_python_error();
  }
}

}  // namespace

// The module as pybind11 makes it; `PyInit_<CUDML_MODULE>` below is what the interpreter calls.
PYBIND11_MODULE(CUDML_INNER_MODULE, module) {
  if (!is_main_interpreter()) throw py::error_already_set();
  cpu::backend();  // refuses an instruction set that is not there; an ImportError here
  py::register_local_exception_translator(&translate);
  bind_operators(module);
  bind_directml(module);
  bind_exporter(module);
  module.def("build_info", &build_info);
  module.def("check_environment",
             [](const std::string& op) { library::check_environment(op.c_str()); });
  module.attr("LARGE_BYTES") = kLargeBytes;
  module.def("ask_for_large_pages", [](uintptr_t address, int64_t bytes) {
    ask_for_large_pages(reinterpret_cast<void*>(address), bytes);
  });
  module.def("get_num_threads", &get_num_threads);
  module.def("set_num_threads", &set_num_threads);
  module.def("clear_cache", &clear_plans);
  module.def("cache_info", &cache_info);
#ifdef CUDML_SIMT
  simt::bind_simt(module);
#endif
}

/// Subinterpreters are told before anything of pybind11's runs, which would wait there for the lock
/// that its own thread holds.
extern "C" PYBIND11_EXPORT PyObject* CUDML_JOINED(PyInit_, CUDML_MODULE)() {
  return is_main_interpreter() ? CUDML_JOINED(PyInit_, CUDML_INNER_MODULE)() : nullptr;
}

}  // namespace cudml::bindings
