// Results for libraries that let nobody allocate for them: memory that they import.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "bindings/arrays.h"
#include "bindings/call.h"

namespace cudml::bindings {

/// Memory of this library's own, filled on a stream, which other libraries take by DLPack or the
/// array interfaces. Every capsule and view keeps it.
class ExportedMemory {
 public:
  /// Memory for a dense tensor where the call's work goes.
  ExportedMemory(const Call& call, const TensorDesc& desc);

  const TensorView& view() const { return view_; }

  /// `__dlpack__`, whose keywords are stream, max_version, dl_device and copy: a capsule, versioned
  /// where `max_version` allows. Work of the consumer's stream is ordered after what fills the
  /// memory.
  py::object capsule(const py::args& arguments, const py::kwargs& keywords) const;
  py::tuple dlpack_device() const;
  py::dict array_interface() const;
  py::dict cuda_array_interface() const;

 private:
  void order_consumer(const py::object& stream) const;
  py::dict interface() const;

  TensorView view_;
  Place place_;
  void* stream_;
  std::shared_ptr<void> memory_;
};

/// A new array that is memory to be imported by a library.
Array exported_array(const Call& call, const TensorDesc& desc);

void bind_exporter(py::module_& module);

}  // namespace cudml::bindings
