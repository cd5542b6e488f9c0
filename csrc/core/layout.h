// Rules about strides that hold for every operator: overlap, aliasing, memory order.
#pragma once

#include "core/tensor.h"

namespace cudml {

/// Refuses an output in which two elements share one address (D-TEN-1): sorted by stride, each
/// stride must exceed the span of the smaller ones. `field` is DirectML's name of the tensor.
void check_output_strides(const char* op, const char* field, const TensorDesc& output);

/// Refuses sizes whose product, or whose last element's offset in bytes, leaves 63 bits.
void check_extent(const char* op, const char* field, const TensorDesc& tensor);

/// The bytes a tensor touches: what remains of it when only overlap is asked for. Strides are in
/// bytes and not negative.
struct Footprint {
  uintptr_t base = 0;
  int64_t item_size = 1;
  Dims sizes, strides;
};
Footprint footprint_of(const TensorView& tensor);

enum class Overlap { none, some, unknown };

/// Whether two tensors share an element. Disjoint address ranges are told apart at once, tensors of
/// equal strides exactly; what a bounded search cannot settle is `unknown`.
Overlap overlap(const Footprint& a, const Footprint& b);

/// Same base, sizes, strides and element type; strides of size-1 dimensions do not count.
bool is_alias(const TensorView& a, const TensorView& b);

/// Refuses an output that shares memory with another tensor of the call (D-TEN-2).
void check_no_overlap(const char* op, const char* output_field, const Footprint& output,
                      const char* other_field, const Footprint& other);
inline void check_no_overlap(const char* op, const char* output_field, const TensorView& output,
                             const char* other_field, const TensorView& other) {
  check_no_overlap(op, output_field, footprint_of(output), other_field, footprint_of(other));
}

/// Dense strides for `sizes`, its dimensions ordered in memory as those of `like` (D-TEN-8).
/// Ranks are equal.
Dims strides_like(const Dims& sizes, const TensorDesc& like);

}  // namespace cudml
