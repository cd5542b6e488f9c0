// Copies, as paddings without a border.
#include "cpu/pad/copy.h"

#include "cpu/isa/families.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

Dtype dtype_of(int64_t bytes) {
  return bytes == 1   ? Dtype::uint8
         : bytes == 2 ? Dtype::uint16
         : bytes == 4 ? Dtype::uint32
                      : Dtype::uint64;
}

}  // namespace

void copy_elements(int64_t bytes, const Dims& sizes, const void* from, const Dims& from_strides,
                   void* to, const Dims& to_strides) {
  PadDesc none;
  none.start_padding = none.end_padding = Dims::filled(sizes.rank, 0);
  const Dtype dtype = dtype_of(bytes);
  const PadPlan plan =
      make_plan(none, TensorDesc{dtype, sizes, from_strides}, TensorDesc{dtype, sizes, to_strides});
  Arrays arrays;
  arrays.inputs[0] = from;
  arrays.outputs[0] = to;
  const Paths<PadPlan> paths = pad_paths();
  paths[size_t(choose::first(paths, plan, Machine{num_threads()}))].run(plan, arrays);
}

}  // namespace cudml::cpu::CUDML_ISA
