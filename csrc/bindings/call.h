// One call of an operator: where its arrays live and on which stream its work goes.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/memory.h"
#include "cuda/choose.h"
#include "library/environment.h"
#include "library/place.h"

namespace cudml::bindings {

namespace py = pybind11;

using library::Place;

/// The first array settles the place, and with it the stream; every other one must agree.
class Call {
 public:
  /// Refuses the call where a variable CUDML_… of the environment is out of range.
  Call(const char* op_name, py::handle stream);

  /// A call of an operator that is compiled for `place`.
  Call(const char* op_name, py::handle stream, Place place);

  /// Makes this a call that is explained: for the named device or architecture, or for None where
  /// its arrays are.
  void explain_for(py::handle device);

  /// Says of every array where it is. `array` is the array itself where it is not NumPy's; it tells
  /// which stream is current and who allocates. All must be of one library, as far as libraries are
  /// known.
  void settle(Place where, const char* field, const char* name, py::handle array = {});

  /// CPU arrays take no stream. To be asked once the inputs are known.
  void check_stream() const;

  bool is_stream_given() const { return !stream_argument_.is_none(); }

  /// The stream in DLPack's numbers, where 1 is the legacy default one.
  uintptr_t dlpack_stream() const { return stream ? reinterpret_cast<uintptr_t>(stream) : 1; }

  const char* op;
  uint64_t forced_kernel = 0;  // a hash of what CUDML_KERNEL was
  Place place;
  Remembered remembered;
  void* stream = nullptr;  // cudaStream_t; null is the legacy default stream
  py::handle library;      // the first array, where it is not NumPy's

  /// Set where a call is to be explained and not run: arrays need no memory then, and nothing is
  /// allocated. Its GPU is `situation`, where there is one.
  bool is_explained = false;
  bool is_place_forced = false;  // wherever the arrays are
  bool may_mix = false;          // arrays of other libraries are taken, too
  std::string device_name;       // "cpu", "cuda:0", "sm_90"; empty: the place's name
  std::optional<cuda::Situation> situation;
  const Dims* pooled_axes = nullptr;  // of a pooling or its gradient; the caller keeps them

 private:
  void find_stream();
  void check_place(Place where, const char* field, const char* name) const;
  void check_library(const char* field, const char* name, py::handle array) const;

  py::handle stream_argument_;
  const char *first_field_ = nullptr, *first_name_ = nullptr;  // of the first array
  bool is_settled_ = false;
};

}  // namespace cudml::bindings
