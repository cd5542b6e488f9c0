#include "bulk_copies.h"

#include "gang.h"
#include "sanitizers.h"

namespace cudml::simt {
namespace {

constexpr int kMostBarriers = 64;

/// Of one copy: the executor knows no other use.
struct CopyBarrier {
  const void* word = nullptr;
  int thread = 0;  // that began it
  Site site;       // of the copy
  bool is_shown = false, has_arrived = false, is_done = false;
  uint32_t expected = 0;
  AsyncCopy copy;

  bool is_complete() const { return has_arrived && expected == copy.bytes; }
};

struct BlockBarriers {
  int count = 0;
  CopyBarrier barrier[kMostBarriers];
};
BlockBarriers barriers[kMostCluster];

CopyBarrier* barrier_at(const void* word) {
  BlockBarriers& own = barriers[gang.block()];
  for (int i = 0; i < own.count; ++i)
    if (own.barrier[i].word == word) return &own.barrier[i];
  return nullptr;
}

CopyBarrier& shown_barrier(const void* word, Site site) {
  CopyBarrier* found = barrier_at(word);
  if (!found) fail(site, "names a barrier that has not begun");
  if (!found->is_shown) fail(site, "names a barrier that no fence has shown to the copy engine");
  return *found;
}

bool is_own(const void* address, size_t bytes) {
  const auto is_shared = [](const void* at) {
    return gang.shared.of_other(gang.block(), at, gang.block()) != nullptr;
  };
  return is_shared(address) && is_shared(static_cast<const char*>(address) + bytes - 1);
}

/// What the running thread did for the barrier, those who wait for it see.
void publish(CopyBarrier& barrier) {
  order_release(const_cast<void*>(barrier.word));
  if (!barrier.is_complete()) return;
  const int first = gang.block() * gang.launch.threads;
  const auto waiting = [first](int i) {
    return gang.threads[first + i].wait == Wait::copies ? first + i : -1;
  };
  gang.schedule.wake(gang.launch.threads, waiting, wake);
}

}  // namespace

void begin_copy_barrier(const void* word, uint32_t arrivals, Site site) {
  BlockBarriers& own = barriers[gang.block()];
  if (barrier_at(word)) fail(site, "begins a barrier again");
  if (reinterpret_cast<uintptr_t>(word) % 8 || !is_own(word, 8))
    fail(site, "begins a barrier that is not in the block's shared memory, at a multiple of 8");
  if (arrivals != 1 || own.count == kMostBarriers)
    fail(site, "more arrivals, or barriers, than the executor knows");
  own.barrier[own.count] = {};
  own.barrier[own.count].word = word;
  own.barrier[own.count++].thread = gang.running;
}

void show_copy_barriers() {
  BlockBarriers& own = barriers[gang.block()];
  for (int i = 0; i < own.count; ++i)
    if (own.barrier[i].thread == gang.running) own.barrier[i].is_shown = true;
}

void expect_bytes(const void* word, uint32_t bytes, Site site) {
  CopyBarrier& barrier = shown_barrier(word, site);
  if (barrier.has_arrived) fail(site, "arrives at a barrier of one arrival again");
  barrier.has_arrived = true;
  barrier.expected = bytes;
  publish(barrier);
}

void ask_bulk_copy(const void* word, void* to, const void* from, uint32_t bytes, Site site) {
  CopyBarrier& barrier = shown_barrier(word, site);
  const auto is_multiple = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  if (bytes == 0 || bytes % 16 || !is_multiple(to) || !is_multiple(from))
    fail(site, "copies " + std::to_string(bytes) +
                   " bytes in bulk: not a multiple of 16, or not "
                   "from and to addresses that are");
  if (!is_own(to, bytes)) fail(site, "copies to what is not in the block's own shared memory");
  if (barrier.copy.bytes) fail(site, "asks for a second copy, of which the executor keeps one");
  barrier.copy = {to, from, bytes, 0};
  barrier.site = site;
  publish(barrier);
}

const AsyncCopy* awaited_copy(const void* word, uint32_t parity, Site site) {
  CopyBarrier* barrier = barrier_at(word);
  if (!barrier || parity != 0) fail(site, "waits for another phase than a barrier's first");
  while (!barrier->is_complete()) wait_here(Wait::copies, site);
  order_acquire(const_cast<void*>(word));
  return barrier->is_done ? nullptr : &barrier->copy;
}

void end_bulk_copy(const void* word) {
  barrier_at(word)->is_done = true;
  order_release(const_cast<void*>(word));
}

void begin_bulk_copies(int rank) { barriers[rank].count = 0; }

void check_bulk_copies(int rank) {
  const BlockBarriers& own = barriers[rank];
  for (int i = 0; i < own.count; ++i)
    if (own.barrier[i].copy.bytes && !own.barrier[i].is_done)
      fail(own.barrier[i].site, "is still on its way when the block returns");
}

}  // namespace cudml::simt
