// The executor: schedules the threads of one cluster after the other, most often a block alone, on
// fibers.
#include "executor.h"

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <set>

#include "bulk_copies.h"
#include "fiber.h"
#include "gang.h"
#include "sanitizers.h"
#include "simt/host_part.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cudml::simt {

// Nothing that threads do allocates, copies or fills memory through the C library:
// ThreadSanitizer would see accesses by the fiber that happens to be current.

Gang gang;

namespace {

std::atomic<bool> is_skipping{false};
Fiber host;
FiberPool pool;
uint64_t first_block;  // of the cluster that runs
bool has_failed;
thread_local std::string last_failure;
std::set<const void*> launched;
std::mutex one_launch;

/// Makes it the running block, whose place the kernel reads.
void set_block(int rank) {
  const uint64_t block = first_block + uint64_t(rank);
  blockIdx = {unsigned(block % gridDim.x), unsigned(block / gridDim.x % gridDim.y),
              unsigned(block / gridDim.x / gridDim.y)};
}

void run_thread() {
  order_acquire(&gang.orders.begin_of_launch);
  gang.launch.invoke(gang.launch.arguments);
  order_release(&gang.orders.end_of_launch);
}

void count_returned() {
  const int block = gang.block();
  const bool is_last = ++gang.returned_of[block] == gang.launch.threads;
  if (is_last) check_bulk_copies(block);
  Thread& thread = gang.thread();
  thread.has_returned = true;
  thread.fiber = nullptr;
  gang.warps[gang.running / kWarp].present &= ~(1u << gang.running % kWarp);
  ++gang.returned;
  if (is_last && gang.launch.blocks > 1) gang.shared.end_block(block);
}

/// A fiber's life: it runs its thread, then every next one that has not begun, so that threads that
/// never wait need one fiber and no switch.
void enter() {
  enter_fiber();
  Fiber* own = gang.thread().fiber;
  for (;;) {
    run_thread();
    count_returned();
    if (!is_tsan() && !gang.schedule.is_empty() && !gang.threads[gang.schedule.peek()].fiber) {
      set_running(gang.schedule.take());
      gang.thread().fiber = own;
      continue;
    }
    pool.give(own);
    run_another(*own, true);
  }
}

void begin_block(int rank) {
  gang.barriers[rank] = {};
  gang.returned_of[rank] = 0;
  begin_bulk_copies(rank);
  gang.shared.begin_block(gang.launch.begun + uint64_t(rank), rank);
}

/// Runs one cluster. False where a check failed.
bool run_cluster(uint64_t number) {
  Launch& launch = gang.launch;
  first_block = number * uint64_t(launch.blocks);
  const int threads = launch.together();
  for (int i = 0; i < threads; ++i) {
    gang.threads[i] = {};
    Warp& warp = gang.warps[i / kWarp];
    if (i % kWarp == 0) warp.busy = warp.present = 0;
    warp.present |= 1u << i % kWarp;
  }
  for (int rank = 0; rank < launch.blocks; ++rank) begin_block(rank);
  gang.cluster = {};
  gang.returned = 0;
  gang.schedule.begin_block(threads);
  order_release(&gang.orders.begin_of_launch);
  set_block(0);
  set_running(gang.schedule.take());
  gang.thread().fiber = pool.take();
  prepare(*gang.thread().fiber, enter);
  switch_fiber(host, *gang.thread().fiber, false);
  launch.begun += uint64_t(launch.blocks);
  return !has_failed;
}

/// The blocks of a cluster, or 0 where they are none that can be launched: a power of two along x,
/// of whole warps.
unsigned cluster_of(const cudaLaunchConfig_t& config) {
  unsigned blocks = 1;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    const auto& dim = config.attrs[i].val.clusterDim;
    if (dim.y != 1 || dim.z != 1 || config.gridDim.y != 1 || config.gridDim.z != 1) return 0;
    blocks = dim.x;
  }
  if (!std::has_single_bit(blocks) || blocks > unsigned(kMostCluster)) return 0;
  if (blocks > 1 && config.blockDim.x * config.blockDim.y * config.blockDim.z % kWarp) return 0;
  return config.gridDim.x % blocks ? 0 : blocks;
}

cudaError_t check_limits(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64 || !grid.x || !grid.y || !grid.z ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeCooperative) return cudaErrorNotSupported;
  return cluster_of(config) ? cudaSuccess : cudaErrorInvalidClusterSize;
}

void set_up(const cudaLaunchConfig_t& config, const SharedLimits& limits) {
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  Launch& launch = gang.launch;
  launch.threads = int(blockDim.x * blockDim.y * blockDim.z);
  launch.blocks = int(cluster_of(config));
  launch.begun = 0;
  has_failed = false;
  const uint64_t blocks = uint64_t(gridDim.x) * gridDim.y * gridDim.z;
  gang.schedule.begin_launch(blocks / uint64_t(launch.blocks), launch.together());
  pool.reserve(size_t(launch.together()));
  gang.shared.begin_launch(config.dynamicSmemBytes, limits.together, launch.blocks);
  if (is_tsan()) {
    host.tsan = __tsan_get_current_fiber();
    gang.orders.reserve(launch, blocks);
  }
}

}  // namespace

std::string at(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }

void set_running(int index) {
  gang.running = index;
  const int rank = gang.block();
  const unsigned i = unsigned(index - rank * gang.launch.threads);
  if (blockDim.y == 1 && blockDim.z == 1) {
    threadIdx = {i, 0, 0};
  } else {
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
  }
  if (gang.launch.blocks > 1) set_block(rank);
}

void run_another(Fiber& from, bool is_last) {
  if (gang.schedule.is_empty()) {
    if (gang.returned < gang.launch.together()) fail_stuck();
    return switch_fiber(from, host, is_last);
  }
  set_running(gang.schedule.take());
  Thread& thread = gang.thread();
  if (!thread.fiber) {
    thread.fiber = pool.take();
    prepare(*thread.fiber, enter);
  }
  if (thread.fiber != &from) switch_fiber(from, *thread.fiber, is_last);
}

void fail(Site site, const std::string& what) {
  Fiber& fiber = *gang.thread().fiber;
  const auto place = [](uint3 i) {
    return i.y || i.z ? std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z)
                      : std::to_string(i.x);
  };
  last_failure =
      "block " + place(blockIdx) + ", thread " + place(threadIdx) + ", " + at(site) + ": " + what;
  has_failed = true;
  order_release(&gang.orders.end_of_launch);
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
  gang.launch.kernel = kernel;
  gang.launch.invoke = invoke;
  gang.launch.arguments = arguments;
  set_up(config, limits);
  const uint64_t clusters = gang.schedule.blocks();
  uint64_t i = 0;
  while (i < clusters && run_cluster(gang.schedule.block(i))) ++i;
  order_acquire(&gang.orders.end_of_launch);
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
