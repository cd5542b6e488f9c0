// What the threads of a gang have asked to be copied and not waited for.
#pragma once

#include <cstddef>

#include "executor.h"

namespace cudml::simt {

struct AsyncCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  int batch = 0;
};

/// Of the running thread, which waits for the copies of a batch together. A copy's bytes are 4, 8
/// or 16, and its addresses multiples of that.
void ask_copy(void* to, const void* from, size_t bytes, Site site);
void commit_copies();
/// The next copy of all batches but the last `prior`, or null where none is left.
const AsyncCopy* next_copy(size_t prior);

}  // namespace cudml::simt
