// Python arguments other than arrays, converted and refused in one voice.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "math/activation.h"
#include "ops/mvn.h"
#include "ops/pad.h"
#include "ops/pool.h"

namespace cudml::bindings {

namespace py = pybind11;

/// What a whole number may be, and what a refusal adds. Below `least_said` somebody who knows the
/// whole rule refuses.
struct Range {
  int64_t least, most;
  const char* hint = "";
  int64_t least_said = INT64_MIN;
};
inline constexpr Range kPadRange{0, 0xffffffff}, kStepRange{1, 0xffffffff};
inline constexpr Range kSizeRange{INT32_MIN, INT32_MAX, "", 1};  // of outputs: D-POOL-7

/// What a refusal calls an argument; put together only when there is one.
struct FieldName {
  FieldName(const char* field, int place = -1) : name(field), index(place) {}
  FieldName(const std::string& field) : name(field.c_str()) {}  // which must outlive this

  const char* name;
  int index = -1;  // within a sequence, or -1
};
std::ostream& operator<<(std::ostream& out, const FieldName& field);

/// Any object with __index__ except bool. TypeError for others, ValueError out of range.
int64_t whole_number(const char* op, const FieldName& field, py::handle object, Range range);

/// One whole number for all of `rank` dimensions, or a sequence with one for each.
Dims whole_numbers(const char* op, const char* field, py::handle object, int rank, Range range);

/// The same for some dimensions of a tensor, which refusals name.
Dims whole_numbers(const char* op, const char* field, py::handle object, const Dims& indices,
                   Range range);

/// A sequence with one size for each of `rank` dimensions; `what` says of what.
Dims whole_shape(const char* op, const char* field, const char* name, py::handle object, int rank,
                 const char* what);

/// True or False, Python's or NumPy's.
bool flag(const char* op, const char* field, py::handle object);

/// A real number as a double; bool is refused.
double real_number(const char* op, const char* field, py::handle object);

/// Pooled dimensions for an array of `rank`; None means the dimensions from 2 on.
Dims pooled_axes(const char* op, py::handle axes, int rank);

/// An int or a sequence of them, negative ones counted from the end.
Dims axes_of(const char* op, py::handle axes, int rank);

/// None, "ceil", an int or one int per pooled dimension.
void set_output_sizes(PoolDesc& desc, py::handle output_sizes);

/// uint32, uint64 or int64, given as a name or a dtype.
Dtype index_dtype(const char* op, py::handle object);

/// float32 or float64, of statistics and sums, given as a name or a dtype.
Dtype wide_dtype(const char* op, py::handle object);

/// "out is 3 (int)", "out has 1 entry": what is given where a tuple or list of arrays is wanted.
std::string given_for_several(const char* name, py::handle object);

/// The entries of a tuple or list of so many, as the argument `name` must be; `what` says of what.
py::tuple entries_of(const char* op, const char* name, py::handle object, int count,
                     const char* what);

/// Which of "x", "scale" and "bias" a sequence names, each at most once and one at least.
std::array<bool, 3> gradients_named(const char* op, py::handle object);
/// A mode's name.
Border border(const char* op, py::handle mode);

/// A mode's name for all dimensions, or a list or tuple with one per dimension.
void set_modes(PadDesc& desc, py::handle mode, int rank);

/// The constant in the tensor's type (D-PAD-5): integers exactly, everything else rounded once.
PadValue constant_value(const char* op, py::handle value, Dtype dtype);

/// What a tuple or list of two holds, whatever its type says of itself; nothing of anything else.
std::optional<std::pair<py::object, py::object>> two_of(py::handle object);

/// None, a name, or (name, {parameter: number}).
Activation activation(const char* op, py::handle object);

}  // namespace cudml::bindings
