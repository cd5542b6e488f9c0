// Runs CUDA kernels on the host, thread by thread: what the stand-in headers call. Tests only.
//
// A kernel file by hand, with a program that calls its launchers:
//   flags="-std=c++20 -O1 -g -Icsrc/simt -Icsrc -isystem /usr/local/cuda/include"
//   g++ $flags -fno-ipa-icf -x c++ -c csrc/cuda/pad.cu -o pad.o
//   g++ $flags -fno-tree-loop-distribute-patterns csrc/simt/*.cpp program.cpp pad.o -o program
//   (of csrc/simt all but bindings.cpp; program.cpp also wants csrc/core and csrc/ops)
// With -fsanitize=address,undefined or =thread on the kernels' files the same executor serves those
// tools; its own files must stay without "thread". CUDML_SIMT_SEED chooses the order of threads: 0
// is natural order, odd seeds pick at random, even seeds let the thread woken last run on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cudml::simt {

/// Where in a kernel a thread called; the stand-ins take it from default arguments.
struct Site {
  const char* file = "";
  int line = 0;

  bool operator==(const Site& other) const {
    return line == other.line && std::strcmp(file, other.file) == 0;
  }
};

constexpr int kWarp = 32, kMostThreads = 1024;
constexpr int kMostCluster = 8, kMostGang = kMostThreads * kMostCluster;
constexpr size_t kMostShared = 227 << 10, kMostStaticShared = 48 << 10;  // bytes of one block

enum class Vote { none, count, all, any };

/// Waits for every thread of the block; returns the vote over `predicate` (none: 0).
int barrier(Vote vote, bool predicate, Site site);

/// What the lanes of a mask do together. Shuffles and votes exchange values; sync orders memory.
enum class WarpCall { sync, shuffle, vote };

/// Waits for the lanes of `mask`; returns the 32 lanes' values, which stay until the next call.
const uint64_t* warp_exchange(WarpCall call, uint32_t mask, uint64_t value, Site site);

/// The block's memory for one DEVICE_SHARED declaration, which `key` stands for.
void* shared_slot(const void* key, size_t bytes, size_t alignment, Site site);
void* dynamic_shared(Site site);

/// The cluster's barrier: every thread arrives, which publishes what it wrote, and then waits for
/// all that have not returned.
void cluster_arrive(Site site);
void cluster_wait(Site site);
/// The running thread's block in its cluster.
unsigned cluster_rank();
/// Where what lies at `address` of the own block's shared memory lies in that of block `rank`.
void* shared_of(const void* address, unsigned rank, Site site);

/// Around an atomic operation: other threads may run, and fences pair up through `address`.
void before_atomic(const void* address);
void after_atomic(const void* address);
void fence();

uint32_t lane();
/// Ends the launch with an error: kernel, block, thread, site, `what`.
[[noreturn]] void fail(Site site, const std::string& what);

/// One launch: `invoke(arguments)` runs the kernel for the current thread.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, void (*invoke)(void*),
                   void* arguments);

/// What launches of a kernel may take of shared memory: dynamic bytes, and all together.
struct SharedLimits {
  size_t dynamic = kMostStaticShared, together = kMostStaticShared;
};
SharedLimits shared_limits(const void* kernel);

/// The error that a later call reports.
cudaError_t set_last_error(cudaError_t error);

/// What the last failed launch of this host thread said.
const std::string& failure();

/// Symbols of kernels, demangled: those launched since the process began, and all of the module.
std::vector<std::string> launched_kernels();
std::vector<std::string> all_kernels();
std::string kernel_name(const void* address);

}  // namespace cudml::simt
