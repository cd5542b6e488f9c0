// Working memory of single calls.
#include "bindings/run.h"

#include "bindings/libraries.h"
#include "core/check.h"
#include "cuda/capture.h"

namespace cudml::bindings {
namespace {

/// A graph keeps memory of its own; a library would hand this out again while the graph is there.
bool may_borrow(const Call& call) {
  try {
    return !cuda::is_capturing(call.stream);
  } catch (const cuda::Error& error) {
    throw error.prefixed(join(call.op, ": "));
  }
}

}  // namespace

void run(const Program& program, const Call& call, const Operands& operands) {
  LibraryScratch given;  // dropped with the interpreter lock held
  if (call.place.is_cuda())
    if (const int64_t bytes = program.workspace_bytes_for(operands); bytes && may_borrow(call))
      given = scratch_like(call, call.library, bytes);
  run_unlocked(program, [&] {
    library::NewMemory memory(call.place, given.address);
    program.run(operands, memory, call.stream);
  });
}

}  // namespace cudml::bindings
