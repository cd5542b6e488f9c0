// Where arrays' memory is: remembered while Python code may move it, held while work runs; and new
// memory of results.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <vector>

#include "core/tensor.h"

namespace cudml::bindings {

namespace py = pybind11;

/// The memory of a NumPy array as it was when it was read. It may be gone when work begins, by
/// `resize` or `__setstate__` of the array or of the one that it is a view of.
class NumpyMemory {
 public:
  NumpyMemory() = default;
  explicit NumpyMemory(const py::array& array);

  explicit operator bool() const { return bool(array_); }
  bool is_of(py::handle array) const { return array_.is(array); }
  const void* data() const { return data_; }
  Dims byte_strides() const;  // 0 for sizes of 1

  /// Whether it is where it was, all of it. Calls nothing of Python's.
  bool is_unchanged() const;

 private:
  py::object array_, owner_;  // the owner is the array itself or what it is a view of
  const void *data_ = nullptr, *owner_data_ = nullptr;
  Py_intptr_t sizes_[kMaxRank], strides_[kMaxRank];
  int rank_ = 0;
  int64_t owner_bytes_ = 0;
};

/// What a memoryview is of, which does not keep NumPy's arrays in place; any other object itself.
py::handle exporter_of(py::handle object);

/// The NumPy arrays of a call as they were when it began, before Python code of any of its
/// arguments ran: a view does not tell that the array which owns its memory let go of it.
class Remembered {
 public:
  /// Remembers an array, or those in a tuple or list; nothing of any other object. Arrays in these
  /// that have no dimensions are numbers, of which there may be many.
  void add(py::handle object);

  /// Whether the memory of an array is where it was, if the array is remembered.
  bool is_unchanged(py::handle array) const;

 private:
  static constexpr size_t kMost = 16;  // more than any call has
  std::array<NumpyMemory, kMost> memories_;
  size_t count_ = 0;
};

/// From which on memory is much, as NumPy has it: two large pages.
constexpr int64_t kLargeBytes = 4 << 20;

/// Asks for large pages under new memory on the CPU, if it is much: the system clears each page as
/// it is first written, and small ones take longer than any operator. NumPy asks so itself.
void ask_for_large_pages(void* data, int64_t bytes);

/// Keeps the memory of arrays where it is, as far as their libraries let anybody do that, while
/// other threads may run: NumPy's and torch's.
class Pins {
 public:
  void add(py::handle array);

 private:
  std::vector<py::object> references_;
};

}  // namespace cudml::bindings
