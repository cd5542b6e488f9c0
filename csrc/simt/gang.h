// What the executor knows of the blocks that run together, a cluster or one alone: their threads,
// where they wait, whom they meet.
#pragma once

#include <cstdint>

#include "executor.h"
#include "fiber.h"
#include "schedule.h"
#include "shared_memory.h"

namespace cudml::simt {

/// Where a thread waits.
enum class Wait { nothing, barrier, cluster, warp, copies };

struct Thread {
  Fiber* fiber = nullptr;  // null: not begun, or returned
  bool has_returned = false;
  Wait wait = Wait::nothing;
  Site site;
  bool has_arrived = false;  // at the cluster's barrier, in `phase`, and has not waited yet
  int phase = 0;
  // Fences pair up through atomics: the next atomic publishes what came before the fence, and a
  // fence makes visible what the atomics before it read.
  bool is_fenced = false;
  int atomics = 0;
  const void* atomic[4] = {};
  int copies_asked = 0, copies_done = 0, batches = 0;  // asynchronous ones
};

/// Lanes of one mask that meet in one call; `values` stay until the last of them has gone on.
struct Meeting {
  uint32_t mask = 0, arrived = 0, inside = 0;
  WarpCall call = WarpCall::sync;
  Site site;
  uint64_t values[kWarp] = {};
};

struct Warp {
  uint32_t present = 0;  // lanes that have not returned
  uint32_t busy = 0;     // meetings with lanes inside
  Meeting meetings[kWarp];
};

struct Barrier {
  int arrived = 0, count = 0, phase = 0, result = 0;
  Vote vote = Vote::none;
  Site site;
};

/// Of a cluster: threads arrive, and wait later.
struct ClusterBarrier {
  int arrived = 0, phase = 0;
};

struct Launch {
  const void* kernel = nullptr;
  void (*invoke)(void*) = nullptr;
  void* arguments = nullptr;
  int threads = 0;     // of a block
  int blocks = 1;      // of a cluster
  uint64_t begun = 0;  // blocks, without those that run

  int together() const { return threads * blocks; }
};

/// Addresses by which ThreadSanitizer learns of an order, used by no other block.
struct Orders {
  char begin_of_launch, end_of_launch;
  OrderAddresses of_blocks;

  static constexpr int kBarriers = 4;  // two phases of the block's, two of the cluster's

  void reserve(const Launch& launch, uint64_t blocks) {
    of_blocks.reserve(blocks, size_t(kBarriers + (launch.threads + kWarp - 1) / kWarp * kWarp));
  }
};

/// All that runs. Threads and warps are numbered through the cluster's blocks.
struct Gang {
  Launch launch;
  Thread threads[kMostGang];
  Warp warps[kMostGang / kWarp];
  Barrier barriers[kMostCluster];
  ClusterBarrier cluster;
  Schedule schedule;
  SharedMemory shared;
  Orders orders;
  int running = 0, returned = 0;       // the thread that runs; how many have returned
  int returned_of[kMostCluster] = {};  // how many of each block

  Thread& thread() { return threads[running]; }
  /// The running thread's block in the cluster.
  int block() const { return launch.blocks == 1 ? 0 : running / launch.threads; }
  void* order(int block, int index) const {
    return orders.of_blocks.of(launch.begun + uint64_t(block), index);
  }
};
extern Gang gang;

/// Makes it the running thread, whose place the kernel reads.
void set_running(int index);

/// Runs another thread: the ready one that the schedule picks. Returns when the calling thread is
/// picked again; at once if it is picked itself. `is_last`: the calling thread has returned.
void run_another(Fiber& from, bool is_last);

/// Lets others run until something wakes the calling thread.
void wait_here(Wait wait, Site site);
void wake(int index);

/// "FILE:LINE".
std::string at(Site site);

/// What is wrong where no thread can run on; the site is that of the thread it is about.
[[noreturn]] void fail_stuck();

}  // namespace cudml::simt
