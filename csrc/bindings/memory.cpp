// Looks at NumPy's own struct of an array, which calls nothing.
#include "bindings/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/imported.h"

namespace cudml::bindings {
namespace {

const py::detail::PyArray_Proxy* proxy_of(const py::object& array) {
  return py::detail::array_proxy(array.ptr());
}

/// The array at the end of a chain of views.
py::object owner_of(py::handle array) {
  const auto& numpy = py::detail::npy_api::get();
  PyObject* owner = array.ptr();
  for (PyObject* base = owner; base && numpy.PyArray_Check_(base);
       base = py::detail::array_proxy(owner)->base)
    owner = base;
  return py::reinterpret_borrow<py::object>(owner);
}

int64_t bytes_of(const py::object& array) {
  const auto* known = proxy_of(array);
  int64_t bytes = py::reinterpret_borrow<py::dtype>(known->descr).itemsize();
  for (int d = 0; d < known->nd; ++d) bytes *= known->dimensions[d];
  return bytes;
}

}  // namespace

NumpyMemory::NumpyMemory(const py::array& array)
    : array_(array), owner_(owner_of(array)), rank_(std::min(int(array.ndim()), kMaxRank)) {
  const auto* known = proxy_of(array_);
  data_ = known->data;
  std::copy_n(known->dimensions, rank_, sizes_);
  std::copy_n(known->strides, rank_, strides_);
  owner_data_ = proxy_of(owner_)->data;
  owner_bytes_ = bytes_of(owner_);
}

Dims NumpyMemory::byte_strides() const {
  Dims strides;
  for (int d = 0; d < rank_; ++d) strides.push_back(sizes_[d] > 1 ? strides_[d] : 0);
  return strides;
}

bool NumpyMemory::is_unchanged() const {
  return proxy_of(array_)->data == data_ && proxy_of(owner_)->data == owner_data_ &&
         bytes_of(owner_) == owner_bytes_;
}

py::handle exporter_of(py::handle object) {
  PyObject* const exporter =
      PyMemoryView_Check(object.ptr()) ? PyMemoryView_GET_BUFFER(object.ptr())->obj : nullptr;
  return exporter ? exporter : object;
}

void Remembered::add(py::handle given) {
  const auto& numpy = py::detail::npy_api::get();
  const py::handle object = exporter_of(given);
  if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()) && i < 3; ++i)
      if (PyObject* const entry = PySequence_Fast_ITEMS(object.ptr())[i];
          numpy.PyArray_Check_(entry) && py::detail::array_proxy(entry)->nd > 0)
        add(entry);
  } else if (numpy.PyArray_Check_(object.ptr()) && count_ < kMost) {
    memories_[count_++] = NumpyMemory(py::reinterpret_borrow<py::array>(object));
  }
}

bool Remembered::is_unchanged(py::handle array) const {
  for (size_t i = 0; i < count_; ++i)
    if (memories_[i].is_of(array)) return memories_[i].is_unchanged();
  return true;
}

void ask_for_large_pages(void* data, int64_t bytes) {
  if (bytes < kLargeBytes) return;
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));  // requests are made of whole ones
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + uintptr_t(bytes),
             first = (begin + page - 1) / page * page, last = end / page * page;
  // Systems that have none refuse, and nothing is lost by it.
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

void Pins::add(py::handle array) {
  const auto& numpy = py::detail::npy_api::get();
  if (!numpy.PyArray_Check_(array.ptr())) {
    references_.push_back(storage_of(array));
    return;
  }
  // NumPy moves no array that there are weak references to, not even with refcheck=False; buffers
  // and views do not keep it from that.
  references_.push_back(owner_of(array));
  PyObject* reference = PyWeakref_NewRef(references_.back().ptr(), nullptr);
  if (!reference) throw py::error_already_set();
  references_.push_back(py::reinterpret_steal<py::object>(reference));
}

}  // namespace cudml::bindings
