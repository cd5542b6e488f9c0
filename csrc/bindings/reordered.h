// New tensors in memory that another library allocated for it.
#pragma once

#include <memory>

#include "bindings/dlpack.h"
#include "core/tensor.h"

namespace cudml::bindings::dlpack {

/// A tensor whose dimensions lie in another order than those that its memory was allocated with:
/// tables give packed memory alone.
struct Reordered {
  ManagedVersioned own;
  ManagedVersioned* memory;
  Dims sizes, strides;

  /// Takes what was allocated.
  static ManagedVersioned* of(std::unique_ptr<Reordered> self, const TensorDesc& desc,
                              ManagedVersioned* memory) {
    self->own = *memory;
    self->own.manager = self.get();
    self->own.deleter = [](ManagedVersioned* own) {
      const std::unique_ptr<Reordered> ended(static_cast<Reordered*>(own->manager));
      if (ended->memory->deleter) ended->memory->deleter(ended->memory);
    };
    self->memory = memory;
    self->sizes = desc.sizes;
    self->strides = desc.strides;
    self->own.tensor.shape = self->sizes.value;
    self->own.tensor.strides = self->strides.value;
    return &self.release()->own;
  }
};

}  // namespace cudml::bindings::dlpack
