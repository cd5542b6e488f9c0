// What the executor knows of the block that runs: its threads, where they wait, whom they meet.
#pragma once

#include <cstdint>

#include "executor.h"
#include "fiber.h"

namespace cudml::simt {

/// Where a thread waits.
enum class Wait { nothing, barrier, warp };

struct Thread {
  Fiber* fiber = nullptr;  // null: not begun, or returned
  bool has_returned = false;
  Wait wait = Wait::nothing;
  Site site;
  // Fences pair up through atomics: the next atomic publishes what came before the fence, and a
  // fence makes visible what the atomics before it read.
  bool is_fenced = false;
  int atomics = 0;
  const void* atomic[4] = {};
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

struct Launch {
  const void* kernel = nullptr;
  void (*invoke)(void*) = nullptr;
  void* arguments = nullptr;
  int threads = 0;     // of a block
  uint64_t gangs = 0;  // blocks begun
};

}  // namespace cudml::simt
