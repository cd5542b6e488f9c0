// Programs run for Python: memory of arrays' libraries, and other threads meanwhile.
#pragma once

#include <utility>

#include "bindings/call.h"
#include "bindings/unlocked.h"
#include "library/program.h"

namespace cudml::bindings {

using library::NamedTensor;
using library::NamedTensors;
using library::Program;

/// Whether other threads' Python code may run while the program does.
inline bool lets_others_run(const Program& program) { return program.is_long(); }

/// Work of a program, without the interpreter lock where that pays. A signal may end it on the
/// CPU.
template <class Work>
void run_unlocked(const Program& program, const Work& work) {
  if (!lets_others_run(program)) return work();
  try {
    Unlocked unlocked;
    const Interruptible interruptible(unlocked);
    work();
  } catch (const cpu::Interrupted&) {
    throw py::error_already_set();
  }
}

/// Runs a program where the call's arrays live, in memory that is there for this call only; on a
/// GPU it is enqueued.
void run(const Program& program, const Call& call, const Operands& operands);

}  // namespace cudml::bindings
