// What threads do together: barriers of a block and of a cluster, calls of a warp, shared memory,
// atomics and fences. It checks that they meet as CUDA asks.
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include "gang.h"
#include "sanitizers.h"

namespace cudml::simt {
namespace {

void complete(Barrier& b, int first) {
  const int threads = gang.launch.threads;
  b.result = b.vote == Vote::count ? b.count
             : b.vote == Vote::all ? b.count == threads
             : b.vote == Vote::any ? b.count > 0
                                   : 0;
  b.arrived = b.count = 0;
  b.phase ^= 1;
  gang.schedule.wake(threads, [first](int i) { return first + i; }, wake);
}

/// The lanes' meeting of this mask, or a free place for a new one.
Meeting& meeting_of(Warp& warp, uint32_t mask) {
  for (uint32_t busy = warp.busy; busy; busy &= busy - 1) {
    Meeting& meeting = warp.meetings[__builtin_ctz(busy)];
    if (meeting.mask == mask && meeting.arrived != mask) return meeting;
  }
  Meeting& meeting = warp.meetings[__builtin_ctz(~warp.busy)];
  meeting.mask = mask;
  meeting.arrived = meeting.inside = 0;
  return meeting;
}

void check_mask(const Warp& warp, uint32_t mask, Site site) {
  const int own = gang.running % kWarp, first = gang.running - own;
  if (!(mask >> own & 1u)) fail(site, "the mask leaves out the calling lane");
  const uint32_t absent = mask & ~warp.present;
  if (!absent) return;
  const int lane = __builtin_ctz(absent);
  const bool exists = first + lane < gang.launch.together();
  fail(site, "the mask names lane " + std::to_string(lane) + ", which " +
                 (exists ? "has returned" : "the block does not have"));
}

void* cluster_order(int phase) { return gang.order(0, 2 + phase); }

/// Why the barrier of a block that this thread waits at does not end.
[[noreturn]] void fail_at_barrier(const Thread& thread) {
  const int block = gang.block(), first = block * gang.launch.threads;
  std::string others;
  for (int i = 0; i < gang.launch.threads && others.empty(); ++i) {
    const Thread& other = gang.threads[first + i];
    const std::string name = "thread " + std::to_string(i);
    if (other.has_returned) others = name + " has returned";
    if (other.wait == Wait::warp) others = name + " waits for its warp at " + at(other.site);
    if (other.wait == Wait::cluster) others = name + " waits for its cluster at " + at(other.site);
    if (other.wait == Wait::copies) others = name + " waits for a copy at " + at(other.site);
  }
  fail(thread.site, "the barrier is met by " + std::to_string(gang.barriers[block].arrived) +
                        " of " + std::to_string(gang.launch.threads) + " threads; " + others);
}

}  // namespace

void wait_here(Wait wait, Site site) {
  Thread& thread = gang.thread();
  thread.wait = wait;
  thread.site = site;
  run_another(*thread.fiber, false);
}

void wake(int index) {
  gang.threads[index].wait = Wait::nothing;
  gang.schedule.add(index);
}

void fail_stuck() {
  int first = 0;
  while (gang.threads[first].wait == Wait::nothing) ++first;
  set_running(first);
  const Thread& thread = gang.threads[first];
  if (thread.wait == Wait::barrier) fail_at_barrier(thread);
  if (thread.wait == Wait::cluster)
    fail(thread.site, "the cluster's barrier is met by " + std::to_string(gang.cluster.arrived) +
                          " of " + std::to_string(gang.launch.together()) + " threads");
  if (thread.wait == Wait::copies)
    fail(thread.site, "waits for other bytes than those that a thread has asked for");
  for (const Meeting& meeting : gang.warps[first / kWarp].meetings) {
    const uint32_t missing = meeting.mask & ~meeting.arrived;
    if (!meeting.inside || !(meeting.arrived >> (first % kWarp) & 1u) || !missing) continue;
    const int lane = __builtin_ctz(missing), other = first / kWarp * kWarp + lane;
    const Thread& absent = gang.threads[other];
    fail(thread.site, "the lane waits for lane " + std::to_string(lane) + ", which " +
                          (absent.has_returned ? "has returned" : "waits at " + at(absent.site)));
  }
  fail(thread.site, "no thread can run on");
}

uint32_t lane() { return uint32_t(gang.running % kWarp); }

int barrier(Vote vote, bool predicate, Site site) {
  const int block = gang.block();
  Barrier& b = gang.barriers[block];
  if (b.arrived == 0) {
    b.vote = vote;
    b.site = site;
  } else if (b.vote != vote || b.site != site) {
    fail(site, "another barrier than the one at " + at(b.site) + ", where " +
                   std::to_string(b.arrived) + " threads of the block wait");
  }
  void* address = gang.order(block, b.phase);
  order_release(address);
  b.count += predicate;
  if (++b.arrived == gang.launch.threads) {
    complete(b, block * gang.launch.threads);
    run_another(*gang.thread().fiber, false);
  } else {
    wait_here(Wait::barrier, site);
  }
  order_acquire(address);
  return b.result;
}

void cluster_arrive(Site site) {
  Thread& thread = gang.thread();
  ClusterBarrier& b = gang.cluster;
  if (thread.has_arrived)
    fail(site, "arrives at the cluster's barrier again without having waited");
  thread.has_arrived = true;
  thread.phase = b.phase;
  order_release(cluster_order(b.phase));
  if (++b.arrived < gang.launch.together()) return;
  b.arrived = 0;
  b.phase ^= 1;
  const auto waiting = [](int i) { return gang.threads[i].wait == Wait::cluster ? i : -1; };
  gang.schedule.wake(gang.launch.together(), waiting, wake);
}

void cluster_wait(Site site) {
  Thread& thread = gang.thread();
  if (!thread.has_arrived) fail(site, "waits at the cluster's barrier without having arrived");
  if (gang.cluster.phase == thread.phase) wait_here(Wait::cluster, site);
  thread.has_arrived = false;
  order_acquire(cluster_order(thread.phase));
}

unsigned cluster_rank() { return unsigned(gang.block()); }

const uint64_t* warp_exchange(WarpCall call, uint32_t mask, uint64_t value, Site site) {
  const int own = gang.running % kWarp, first = gang.running - own, index = first / kWarp;
  Warp& warp = gang.warps[index];
  check_mask(warp, mask, site);
  Meeting& meeting = meeting_of(warp, mask);
  if (!meeting.inside) {
    meeting.call = call;
    meeting.site = site;
  } else if (meeting.call != call || meeting.site != site) {
    fail(site, "another call than the one at " + at(meeting.site) +
                   ", where lanes of the same mask wait");
  }
  const int place = int(&meeting - warp.meetings), block = gang.block();
  const int in_block = index - block * gang.launch.threads / kWarp;
  void* address = gang.order(block, Orders::kBarriers + in_block * kWarp + place);
  if (call == WarpCall::sync) order_release(address);
  warp.busy |= 1u << place;
  meeting.values[own] = value;
  meeting.arrived |= 1u << own;
  meeting.inside |= 1u << own;
  if (meeting.arrived == mask) {
    gang.schedule.wake(kWarp, [&](int i) { return mask >> i & 1u ? first + i : -1; }, wake);
    run_another(*gang.thread().fiber, false);
  } else {
    wait_here(Wait::warp, site);
  }
  meeting.inside &= ~(1u << own);
  if (!meeting.inside) warp.busy &= ~(1u << place);
  if (call == WarpCall::sync) order_acquire(address);
  return meeting.values;
}

void* shared_slot(const void* key, size_t bytes, size_t alignment, Site site) {
  void* slot = gang.shared.slot(gang.block(), key, bytes, alignment);
  if (!slot)
    fail(site,
         "the block's variables take more shared memory than the launch may: 48 KiB, dynamic "
         "bytes included, where the kernel is not opted in to more");
  return slot;
}

void* dynamic_shared(Site site) {
  void* slot = gang.shared.dynamic(gang.block());
  if (!slot) fail(site, "the launch asked for no dynamic shared memory");
  return slot;
}

void* shared_of(const void* address, unsigned rank, Site site) {
  if (rank >= unsigned(gang.launch.blocks))
    fail(site, "asks for block " + std::to_string(rank) + " of a cluster of " +
                   std::to_string(gang.launch.blocks));
  if (gang.returned_of[rank] == gang.launch.threads)
    fail(site, "asks for shared memory of block " + std::to_string(rank) +
                   " of the cluster, which has returned");
  void* there = gang.shared.of_other(gang.block(), address, int(rank));
  if (!there) fail(site, "asks for what is not in the block's own shared memory");
  return there;
}

void before_atomic(const void* address) {
  Thread& thread = gang.thread();
  if (gang.schedule.yields()) {
    gang.schedule.add_last(gang.running);
    run_another(*thread.fiber, false);
  }
  if (thread.is_fenced) order_release(const_cast<void*>(address));
  thread.is_fenced = false;
}

void after_atomic(const void* address) {
  Thread& thread = gang.thread();
  thread.atomic[thread.atomics++ % 4] = address;
}

void fence() {
  Thread& thread = gang.thread();
  thread.is_fenced = true;
  for (int i = 0; i < thread.atomics && i < 4; ++i)
    order_acquire(const_cast<void*>(thread.atomic[i]));
}

}  // namespace cudml::simt
