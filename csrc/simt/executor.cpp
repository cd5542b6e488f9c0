// The executor: schedules the threads of one block after the other on fibers, and checks that they
// meet at barriers and in warps as CUDA asks.
#include "executor.h"

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "block.h"
#include "fiber.h"
#include "sanitizers.h"
#include "schedule.h"
#include "shared_memory.h"
#include "simt/host_part.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cudml::simt {
namespace {

// Nothing below allocates, copies or fills memory through the C library while threads run:
// ThreadSanitizer would see accesses by the fiber that happens to be current.

Launch current;
std::atomic<bool> is_skipping{false};
Thread threads[kMostThreads];
Warp warps[kMostThreads / kWarp];
Barrier block_barrier;
Schedule schedule;
int running, returned;  // the thread that runs; how many have returned
Fiber host;
FiberPool pool;
SharedMemory shared;
bool has_failed;
thread_local std::string last_failure;
std::set<const void*> launched;
std::mutex one_launch;

// Addresses by which ThreadSanitizer learns of an order. Those of a block are used by no other.
char begin_of_launch, end_of_launch;
OrderAddresses addresses;
void* barrier_address(int phase) { return addresses.of(current.gangs, phase); }
void* meeting_address(int warp, int slot) {
  return addresses.of(current.gangs, 2 + warp * kWarp + slot);
}

std::string at(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }

void set_running(int index) {
  running = index;
  const unsigned i = unsigned(index);
  if (blockDim.y == 1 && blockDim.z == 1) {
    threadIdx = {i, 0, 0};
  } else {
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
  }
}

/// What is wrong where no thread can run on; the site is that of the thread it is about.
[[noreturn]] void fail_stuck() {
  int first = 0;
  while (threads[first].wait == Wait::nothing) ++first;
  set_running(first);
  const Thread& thread = threads[first];
  if (thread.wait == Wait::barrier) {
    std::string others;
    for (int i = 0; i < current.threads && others.empty(); ++i) {
      if (threads[i].has_returned) others = "thread " + std::to_string(i) + " has returned";
      if (threads[i].wait == Wait::warp)
        others = "thread " + std::to_string(i) + " waits for its warp at " + at(threads[i].site);
    }
    fail(thread.site, "the barrier is met by " + std::to_string(block_barrier.arrived) + " of " +
                          std::to_string(current.threads) + " threads; " + others);
  }
  for (const Meeting& meeting : warps[first / kWarp].meetings) {
    const uint32_t missing = meeting.mask & ~meeting.arrived;
    if (!meeting.inside || !(meeting.arrived >> (first % kWarp) & 1u) || !missing) continue;
    const int lane = __builtin_ctz(missing), other = first / kWarp * kWarp + lane;
    const Thread& absent = threads[other];
    fail(thread.site, "the lane waits for lane " + std::to_string(lane) + ", which " +
                          (absent.has_returned ? "has returned" : "waits at " + at(absent.site)));
  }
  fail(thread.site, "no thread can run on");
}

void enter();

/// Runs another thread: the ready one that the schedule picks. Returns when the calling thread is
/// picked again; at once if it is picked itself. `is_last`: the calling thread has returned.
void run_another(Fiber& from, bool is_last) {
  if (schedule.is_empty()) {
    if (returned < current.threads) fail_stuck();
    return switch_fiber(from, host, is_last);
  }
  const int next = schedule.take();
  set_running(next);
  Thread& thread = threads[next];
  if (!thread.fiber) {
    thread.fiber = pool.take();
    prepare(*thread.fiber, enter);
  }
  if (thread.fiber != &from) switch_fiber(from, *thread.fiber, is_last);
}

void run_thread() {
  order_acquire(&begin_of_launch);
  current.invoke(current.arguments);
  order_release(&end_of_launch);
}

/// A fiber's life: it runs its thread, then every next one that has not begun, so that threads that
/// never wait need one fiber and no switch.
void enter() {
  enter_fiber();
  Fiber* own = threads[running].fiber;
  for (;;) {
    run_thread();
    threads[running].has_returned = true;
    threads[running].fiber = nullptr;
    warps[running / kWarp].present &= ~(1u << running % kWarp);
    ++returned;
    if (!is_tsan() && !schedule.is_empty() && !threads[schedule.peek()].fiber) {
      set_running(schedule.take());
      threads[running].fiber = own;
      continue;
    }
    pool.give(own);
    run_another(*own, true);
  }
}

/// Lets others run until something makes the calling thread ready.
void wait_here(Wait wait, Site site) {
  Thread& thread = threads[running];
  thread.wait = wait;
  thread.site = site;
  run_another(*thread.fiber, false);
}

void wake(int index) {
  threads[index].wait = Wait::nothing;
  schedule.add(index);
}

void complete(Barrier& b) {
  b.result = b.vote == Vote::count ? b.count
             : b.vote == Vote::all ? b.count == current.threads
             : b.vote == Vote::any ? b.count > 0
                                   : 0;
  b.arrived = b.count = 0;
  b.phase ^= 1;
  schedule.wake(current.threads, [](int i) { return i; }, wake);
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
  const int own = running % kWarp, first = running - own;
  if (!(mask >> own & 1u)) fail(site, "the mask leaves out the calling lane");
  const uint32_t absent = mask & ~warp.present;
  if (!absent) return;
  const int lane = __builtin_ctz(absent);
  const bool exists = first + lane < current.threads;
  fail(site, "the mask names lane " + std::to_string(lane) + ", which " +
                 (exists ? "has returned" : "the block does not have"));
}

/// Runs one block. False where a check failed.
bool run_block(uint64_t block) {
  const unsigned x = gridDim.x, y = gridDim.y;
  blockIdx = {unsigned(block % x), unsigned(block / x % y), unsigned(block / x / y)};
  for (int i = 0; i < current.threads; ++i) threads[i] = {};
  for (int i = 0; i < current.threads; ++i) {
    Warp& warp = warps[i / kWarp];
    if (i % kWarp == 0) warp.busy = warp.present = 0;
    warp.present |= 1u << i % kWarp;
  }
  block_barrier = {};
  returned = 0;
  shared.begin_block(current.gangs);
  schedule.begin_block(current.threads);
  order_release(&begin_of_launch);
  set_running(schedule.take());
  threads[running].fiber = pool.take();
  prepare(*threads[running].fiber, enter);
  switch_fiber(host, *threads[running].fiber, false);
  ++current.gangs;
  return !has_failed;
}

cudaError_t check_limits(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64 || !grid.x || !grid.y || !grid.z ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension ||
        config.attrs[i].id == cudaLaunchAttributeCooperative)
      return cudaErrorNotSupported;
  return cudaSuccess;
}

void set_up(const cudaLaunchConfig_t& config, const SharedLimits& limits) {
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  current.threads = int(blockDim.x * blockDim.y * blockDim.z);
  current.gangs = 0;
  has_failed = false;
  const uint64_t blocks = uint64_t(gridDim.x) * gridDim.y * gridDim.z;
  schedule.begin_launch(blocks, current.threads);
  pool.reserve(size_t(current.threads));
  shared.begin_launch(config.dynamicSmemBytes, limits.together);
  if (is_tsan()) {
    host.tsan = __tsan_get_current_fiber();
    addresses.reserve(blocks, 2 + (size_t(current.threads) + kWarp - 1) / kWarp * kWarp);
  }
}

}  // namespace

uint32_t lane() { return uint32_t(running % kWarp); }

int barrier(Vote vote, bool predicate, Site site) {
  Barrier& b = block_barrier;
  if (b.arrived == 0) {
    b.vote = vote;
    b.site = site;
  } else if (b.vote != vote || b.site != site) {
    fail(site, "another barrier than the one at " + at(b.site) + ", where " +
                   std::to_string(b.arrived) + " threads of the block wait");
  }
  void* address = barrier_address(b.phase);
  order_release(address);
  b.count += predicate;
  if (++b.arrived == current.threads) {
    complete(b);
    run_another(*threads[running].fiber, false);
  } else {
    wait_here(Wait::barrier, site);
  }
  order_acquire(address);
  return b.result;
}

const uint64_t* warp_exchange(WarpCall call, uint32_t mask, uint64_t value, Site site) {
  const int own = running % kWarp, first = running - own;
  Warp& warp = warps[running / kWarp];
  check_mask(warp, mask, site);
  Meeting& meeting = meeting_of(warp, mask);
  if (!meeting.inside) {
    meeting.call = call;
    meeting.site = site;
  } else if (meeting.call != call || meeting.site != site) {
    fail(site, "another call than the one at " + at(meeting.site) +
                   ", where lanes of the same mask wait");
  }
  const uint32_t slot = 1u << (&meeting - warp.meetings);
  void* address = meeting_address(running / kWarp, int(&meeting - warp.meetings));
  if (call == WarpCall::sync) order_release(address);
  warp.busy |= slot;
  meeting.values[own] = value;
  meeting.arrived |= 1u << own;
  meeting.inside |= 1u << own;
  if (meeting.arrived == mask) {
    schedule.wake(kWarp, [&](int i) { return mask >> i & 1u ? first + i : -1; }, wake);
    run_another(*threads[running].fiber, false);
  } else {
    wait_here(Wait::warp, site);
  }
  meeting.inside &= ~(1u << own);
  if (!meeting.inside) warp.busy &= ~slot;
  if (call == WarpCall::sync) order_acquire(address);
  return meeting.values;
}

void* shared_slot(const void* key, size_t bytes, size_t alignment, Site site) {
  void* slot = shared.slot(key, bytes, alignment);
  if (!slot)
    fail(site,
         "the block's variables take more shared memory than the launch may: 48 KiB, dynamic "
         "bytes included, where the kernel is not opted in to more");
  return slot;
}

void* dynamic_shared(Site site) {
  void* slot = shared.dynamic();
  if (!slot) fail(site, "the launch asked for no dynamic shared memory");
  return slot;
}

void before_atomic(const void* address) {
  Thread& thread = threads[running];
  if (schedule.yields()) {
    schedule.add_last(running);
    run_another(*thread.fiber, false);
  }
  if (thread.is_fenced) order_release(const_cast<void*>(address));
  thread.is_fenced = false;
}

void after_atomic(const void* address) {
  Thread& thread = threads[running];
  thread.atomic[thread.atomics++ % 4] = address;
}

void fence() {
  Thread& thread = threads[running];
  thread.is_fenced = true;
  for (int i = 0; i < thread.atomics && i < 4; ++i)
    order_acquire(const_cast<void*>(thread.atomic[i]));
}

void fail(Site site, const std::string& what) {
  Fiber& fiber = *threads[running].fiber;
  const auto place = [](uint3 i) {
    return i.y || i.z ? std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z)
                      : std::to_string(i.x);
  };
  last_failure =
      "block " + place(blockIdx) + ", thread " + place(threadIdx) + ", " + at(site) + ": " + what;
  has_failed = true;
  order_release(&end_of_launch);
  switch_fiber(fiber, host, true);
  std::abort();
}

void skip_kernels(bool are_skipped) { is_skipping = are_skipped; }

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, void (*invoke)(void*),
                   void* arguments) {
  if (is_skipping.load(std::memory_order_relaxed)) return cudaSuccess;
  const std::lock_guard<std::mutex> guard(one_launch);
  cudaError_t error = check_limits(config);
  const SharedLimits limits = shared_limits(kernel);
  if (error == cudaSuccess && config.dynamicSmemBytes > limits.dynamic)
    error = cudaErrorInvalidValue;
  if (error != cudaSuccess) return set_last_error(error);
  launched.insert(kernel);
  current.kernel = kernel;
  current.invoke = invoke;
  current.arguments = arguments;
  set_up(config, limits);
  const uint64_t blocks = schedule.blocks();
  uint64_t i = 0;
  while (i < blocks && run_block(schedule.block(i))) ++i;
  order_acquire(&end_of_launch);
  if (!has_failed) return cudaSuccess;
  last_failure = kernel_name(kernel) + ", " + last_failure;
  pool.reset();
  return set_last_error(cudaErrorLaunchFailure);
}

const std::string& failure() { return last_failure; }

std::vector<std::string> launched_kernels() {
  const std::lock_guard<std::mutex> guard(one_launch);
  std::vector<std::string> names;
  for (const void* kernel : launched) names.push_back(kernel_name(kernel));
  return names;
}

}  // namespace cudml::simt
