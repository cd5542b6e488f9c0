// Arrays of other libraries: DLPack and the CUDA array interface.
#pragma once

#include "bindings/arrays.h"

namespace cudml::bindings {

/// An array that is not NumPy's, taken where it lies. TypeError for what is no array or has an
/// element type the library lacks, BufferError where the exchange fails or its strides or address
/// cannot be taken. Settles the call.
Array foreign_array(Call& call, const char* field, const char* name, py::handle object);

/// Memory of the library of `like` with exactly the strides of `desc`, imported.
Array new_foreign_array(Call& call, const char* field, py::handle like, const TensorDesc& desc);

/// What the library of the call's arrays makes of memory that was exported for it.
py::object import_result(Call& call, const Array& output);

}  // namespace cudml::bindings
