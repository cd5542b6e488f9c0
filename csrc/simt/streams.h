// Streams, events and captures of the stand-in runtime, by CUDA's rules of what may be asked when.
// Work itself is done at once, or kept where a stream captures.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "calls.h"

namespace cudml::simt {

/// The capture mode of this host thread.
cudaStreamCaptureMode& capture_mode();

/// begin() for a call that waits for the device or may do so: it breaks any capture unless the
/// thread's mode is relaxed.
cudaError_t begin_unsafe(const char* call, uint64_t object = 0);

/// The same for work on a stream, which must exist on the current device. Where the stream captures
/// `work` is kept for the graph's launches, else it is run.
using Work = std::function<cudaError_t()>;
cudaError_t enqueue(const char* call, cudaStream_t stream, uint64_t object, const Work& work);

/// A kernel's launch; `arguments` are its own copy. The first one of a kernel on a device loads it.
cudaError_t enqueue_launch(const cudaLaunchConfig_t& config, const void* kernel,
                           void (*invoke)(void*), const std::shared_ptr<void>& arguments);
/// Loads a kernel that the device does not have yet, which waits for the device.
cudaError_t load(const void* kernel, cudaStream_t stream = nullptr);
/// Kernels that were loaded, by device. What forgets them, which no driver does, has them
/// remembered again: the library loads a kernel once.
using Loaded = std::set<std::pair<const void*, int>>;
Loaded forget_loaded();
void remember_loaded(const Loaded& kernels);

/// Whether the stream captures now. What is allocated meanwhile lives as long as its graph.
bool is_capturing(cudaStream_t stream);
void keep_for_graph(cudaStream_t stream, void* memory);

cudaError_t begin_capture(cudaStream_t stream);
/// The graph's number, or 0 and the error.
cudaError_t end_capture(cudaStream_t stream, uint64_t* graph);
cudaError_t launch_graph(uint64_t graph, cudaStream_t stream);
void destroy_graph(uint64_t graph);

/// A new stream, of the handle that was last given back, as a driver may choose it.
cudaStream_t make_stream();
size_t live_events();

/// Frees memory that was allocated by the runtime.
cudaError_t release(void* memory);

/// Whether devices have memory pools from now on; device and release threshold of those made.
void support_pools(bool are_there);
std::vector<std::pair<int, uint64_t>> memory_pools();

/// Says where memory is that the runtime did not allocate: a device, or -1 for the host.
void place_memory(uintptr_t address, size_t bytes, int device);
void unplace_memory(uintptr_t address);

}  // namespace cudml::simt
