#include "async_copies.h"

#include <cstdint>

#include "gang.h"

namespace cudml::simt {
namespace {

constexpr int kMostCopies = 64;
AsyncCopy copies[kMostGang][kMostCopies];

}  // namespace

void ask_copy(void* to, const void* from, size_t bytes, Site site) {
  const auto is_aligned = [&](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % bytes == 0;
  };
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail(site, "copies " + std::to_string(bytes) + " bytes asynchronously, not 4, 8 or 16");
  if (!is_aligned(to) || !is_aligned(from))
    fail(site, "copies from or to an address that is no multiple of " + std::to_string(bytes));
  Thread& thread = gang.thread();
  if (thread.copies_asked == kMostCopies)
    fail(site, "asks for more than " + std::to_string(kMostCopies) +
                   " copies, which is what the "
                   "executor keeps for a thread");
  copies[gang.running][thread.copies_asked++] = {to, from, bytes, thread.batches};
}

void commit_copies() { ++gang.thread().batches; }

const AsyncCopy* next_copy(size_t prior) {
  Thread& thread = gang.thread();
  if (thread.copies_done == thread.copies_asked) {
    thread.copies_done = thread.copies_asked = 0;
    return nullptr;
  }
  const AsyncCopy& copy = copies[gang.running][thread.copies_done];
  if (copy.batch + int(prior) >= thread.batches) return nullptr;
  ++thread.copies_done;
  return &copy;
}

}  // namespace cudml::simt
