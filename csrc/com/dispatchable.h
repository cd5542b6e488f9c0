// What a binding table and a recorder need of a compiled operator or an initializer.
#pragma once

#include "com/binding.h"

namespace cudml::com {

class Dispatchable {
 public:
  virtual Device& device() const = 0;

  /// Of inputs and outputs: what buffers must start at multiples of.
  virtual uint64_t output_alignment() const = 0;

  // Refuse what can be seen to be wrong before a dispatch. Counts come first: bindings beyond them
  // may not be there to be read.
  virtual void check_input_count(size_t count) const = 0;
  virtual void check_output_count(size_t count) const = 0;
  virtual void check_inputs(const std::vector<Binding>& inputs) const = 0;
  virtual void check_outputs(const std::vector<Binding>& outputs) const = 0;

  /// Works at once on the CPU and is enqueued on a GPU. Refuses before anything is written.
  virtual void dispatch(const Bound& bound, void* stream) = 0;

 protected:
  ~Dispatchable() = default;
};

}  // namespace cudml::com
