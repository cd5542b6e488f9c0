// Streams, events and captures of the stand-in runtime: see streams.h.
#include "streams.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "executor.h"

namespace cudml::simt {
namespace {

struct Capture {
  cudaStream_t origin = nullptr;
  std::set<cudaStream_t> joined;  // other streams whose work is not waited for yet
  std::vector<Work> nodes;
  std::vector<void*> memory;
  bool is_broken = false;
};

struct Stream {
  uint64_t id = 0;  // which no other stream ever has
  int device = 0;
  uint64_t capture = 0;  // a number, or 0
};

struct Event {
  cudaStream_t stream = nullptr;
  uint64_t capture = 0;  // that it was recorded in
  bool is_recorded = false;
};

std::recursive_mutex lock;
using Guard = std::lock_guard<std::recursive_mutex>;
std::map<cudaStream_t, Stream> streams;
std::map<cudaEvent_t, Event> events;
std::map<uint64_t, Capture> captures, graphs;
uint64_t last_capture = 0;
Loaded loaded;
uint64_t last_id = 0;
std::vector<cudaStream_t> free_handles;  // of streams that were destroyed

bool is_legacy(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy; }

cudaError_t break_capture(uint64_t capture, cudaError_t error) {
  captures[capture].is_broken = true;
  return set_last_error(error);
}

cudaError_t break_all(cudaError_t error) {
  for (auto& [number, capture] : captures) capture.is_broken = true;
  return set_last_error(error);
}

/// The stream behind a handle: behind the per-thread one each host thread has its own.
cudaStream_t resolved(cudaStream_t stream) {
  if (stream != cudaStreamPerThread) return stream;
  thread_local const char own = 0;
  return reinterpret_cast<cudaStream_t>(const_cast<char*>(&own));
}

/// The stream, the per-thread one included, or null where there is none of this handle.
Stream* find(cudaStream_t handle) {
  const cudaStream_t stream = resolved(handle);
  if (handle == cudaStreamPerThread) {
    Stream& own = streams[stream];
    if (!own.id) own.id = ++last_id;
    own.device = current_device();
    return &own;
  }
  const auto found = streams.find(stream);
  return found == streams.end() ? nullptr : &found->second;
}

/// Whether work may go to the stream; the capture that takes it, or 0.
cudaError_t check_stream(cudaStream_t stream, uint64_t* capture) {
  *capture = 0;
  if (is_legacy(stream))  // it would wait for every other stream
    return captures.empty() ? cudaSuccess : break_all(cudaErrorStreamCaptureImplicit);
  const Stream* found = find(stream);
  if (!found || found->device != current_device())
    return set_last_error(cudaErrorInvalidResourceHandle);
  *capture = found->capture;
  if (*capture && captures[*capture].is_broken)
    return set_last_error(cudaErrorStreamCaptureInvalidated);
  return cudaSuccess;
}

}  // namespace

cudaStreamCaptureMode& capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t begin_unsafe(const char* call, uint64_t object) {
  const Guard guard(lock);
  if (const cudaError_t error = begin(call, nullptr, object)) return error;
  const bool is_exempt = captures.empty() || capture_mode() == cudaStreamCaptureModeRelaxed;
  return is_exempt ? cudaSuccess : break_all(cudaErrorStreamCaptureUnsupported);
}

cudaError_t enqueue(const char* call, cudaStream_t stream, uint64_t object, const Work& work) {
  {
    const Guard guard(lock);
    if (const cudaError_t error = begin(call, stream, object)) return error;
    uint64_t capture = 0;
    if (const cudaError_t error = check_stream(stream, &capture)) return error;
    if (capture) {
      captures[capture].nodes.push_back(work);
      return cudaSuccess;
    }
  }
  return work();
}

cudaError_t enqueue_launch(const cudaLaunchConfig_t& config, const void* kernel,
                           void (*invoke)(void*), const std::shared_ptr<void>& arguments) {
  {
    const Guard guard(lock);
    if (const cudaError_t error = load(kernel, config.stream)) return error;
  }
  // Kept with the launch, which may take place long after the caller's are gone.
  const std::vector<cudaLaunchAttribute> attributes(config.attrs, config.attrs + config.numAttrs);
  return enqueue("cudaLaunchKernelExC", config.stream, reinterpret_cast<uintptr_t>(kernel), [=] {
    cudaLaunchConfig_t own = config;
    std::vector<cudaLaunchAttribute> of_own = attributes;
    own.attrs = of_own.data();
    return launch(own, kernel, invoke, arguments.get());
  });
}

cudaError_t load(const void* kernel, cudaStream_t stream) {
  const Guard guard(lock);
  if (loaded.count({kernel, current_device()})) return cudaSuccess;
  if (const cudaError_t error = begin("load", stream, reinterpret_cast<uintptr_t>(kernel)))
    return error;
  if (!captures.empty() && capture_mode() != cudaStreamCaptureModeRelaxed)
    return break_all(cudaErrorStreamCaptureUnsupported);
  loaded.insert({kernel, current_device()});
  return cudaSuccess;
}

Loaded forget_loaded() {
  const Guard guard(lock);
  return std::exchange(loaded, {});
}

void remember_loaded(const Loaded& kernels) {
  const Guard guard(lock);
  loaded.insert(kernels.begin(), kernels.end());
}

bool is_capturing(cudaStream_t stream) {
  const Guard guard(lock);
  const Stream* found = is_legacy(stream) ? nullptr : find(stream);
  return found && found->capture;
}

void keep_for_graph(cudaStream_t stream, void* memory) {
  const Guard guard(lock);
  captures[find(stream)->capture].memory.push_back(memory);
}

cudaError_t begin_capture(cudaStream_t stream) {
  const Guard guard(lock);
  Stream* found = find(stream);
  if (is_legacy(stream) || !found) return set_last_error(cudaErrorStreamCaptureUnsupported);
  if (found->capture) return set_last_error(cudaErrorIllegalState);
  found->capture = ++last_capture;
  captures[last_capture].origin = resolved(stream);
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, uint64_t* graph) {
  const Guard guard(lock);
  *graph = 0;
  const Stream* found = find(stream);
  const uint64_t number = found ? found->capture : 0;
  if (!number || captures[number].origin != resolved(stream))
    return set_last_error(cudaErrorStreamCaptureUnmatched);
  Capture ended = std::move(captures[number]);
  captures.erase(number);
  for (auto& [handle, other] : streams)
    if (other.capture == number) other.capture = 0;
  if (ended.is_broken) return set_last_error(cudaErrorStreamCaptureInvalidated);
  if (!ended.joined.empty()) return set_last_error(cudaErrorStreamCaptureUnjoined);
  graphs[*graph = number] = std::move(ended);
  return cudaSuccess;
}

cudaError_t launch_graph(uint64_t graph, cudaStream_t stream) {
  std::vector<Work> nodes;
  {
    const Guard guard(lock);
    if (const cudaError_t error = begin("cudaGraphLaunch", stream, graph)) return error;
    const auto found = graphs.find(graph);
    if (found == graphs.end()) return set_last_error(cudaErrorInvalidValue);
    nodes = found->second.nodes;
  }
  for (const Work& work : nodes)
    if (const cudaError_t error = work()) return error;
  return cudaSuccess;
}

void destroy_graph(uint64_t graph) {
  const Guard guard(lock);
  for (void* memory : graphs[graph].memory) release(memory);
  graphs.erase(graph);
}

cudaStream_t make_stream() {
  const Guard guard(lock);
  if (free_handles.empty()) free_handles.push_back(reinterpret_cast<cudaStream_t>(new char));
  const cudaStream_t stream = free_handles.back();
  free_handles.pop_back();
  streams[stream] = {++last_id, current_device(), 0};
  return stream;
}

size_t live_events() {
  const Guard guard(lock);
  return events.size();
}

}  // namespace cudml::simt

using namespace cudml::simt;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = begin("cudaStreamCreateWithFlags")) return error;
  *stream = make_stream();
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard(lock);
  const Stream* found = find(stream);
  if (is_legacy(stream) || stream == cudaStreamPerThread || !found)
    return set_last_error(cudaErrorInvalidResourceHandle);
  if (captures.count(found->capture) && captures[found->capture].origin == stream) {
    uint64_t graph = 0;
    if (end_capture(stream, &graph) == cudaSuccess) destroy_graph(graph);
  }
  streams.erase(stream);
  free_handles.push_back(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(lock);
  if (const cudaError_t error = begin("cudaStreamSynchronize", stream)) return error;
  uint64_t capture = 0;
  if (const cudaError_t error = check_stream(stream, &capture)) return error;
  return capture ? break_capture(capture, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Guard guard(lock);
  const auto number = reinterpret_cast<uintptr_t>(event);
  if (const cudaError_t error = begin("cudaStreamWaitEvent", stream, number)) return error;
  uint64_t capture = 0;
  if (const cudaError_t error = check_stream(stream, &capture)) return error;
  const auto found = events.find(event);
  if (found == events.end()) return set_last_error(cudaErrorInvalidResourceHandle);
  const Event& waited = found->second;
  if (!waited.is_recorded || waited.capture == capture) {
    if (capture && resolved(stream) == captures[capture].origin)
      captures[capture].joined.erase(waited.stream);
    return cudaSuccess;
  }
  if (!capture && captures.count(waited.capture)) {  // the stream joins that capture
    find(stream)->capture = waited.capture;
    captures[waited.capture].joined.insert(resolved(stream));
    return cudaSuccess;
  }
  if (capture) return break_capture(capture, cudaErrorStreamCaptureIsolation);
  return set_last_error(cudaErrorStreamCaptureIsolation);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  const Guard guard(lock);
  if (const cudaError_t error = begin("cudaStreamGetId", stream)) return error;
  const Stream* found = find(stream);
  if (!found && !is_legacy(stream)) return set_last_error(cudaErrorInvalidResourceHandle);
  constexpr unsigned long long kLegacy = ~0ull;
  *id = found ? found->id : kLegacy;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const Guard guard(lock);
  const Stream* found = find(stream);
  *device = found ? found->device : current_device();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard(lock);
  *status = cudaStreamCaptureStatusNone;
  if (is_legacy(stream))
    return captures.empty() ? cudaSuccess : set_last_error(cudaErrorStreamCaptureImplicit);
  const Stream* found = find(stream);
  if (!found || !found->capture) return cudaSuccess;
  *status = captures[found->capture].is_broken ? cudaStreamCaptureStatusInvalidated
                                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode());
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Guard guard(lock);
  if (const cudaError_t error = begin("cudaEventCreateWithFlags")) return error;
  *event = reinterpret_cast<cudaEvent_t>(new char);
  events[*event] = {};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(lock);
  if (!events.erase(event)) return set_last_error(cudaErrorInvalidResourceHandle);
  delete reinterpret_cast<char*>(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard(lock);
  const auto number = reinterpret_cast<uintptr_t>(event);
  if (const cudaError_t error = begin("cudaEventRecord", stream, number)) return error;
  uint64_t capture = 0;
  if (const cudaError_t error = check_stream(stream, &capture)) return error;
  const auto found = events.find(event);
  if (found == events.end()) return set_last_error(cudaErrorInvalidResourceHandle);
  found->second = {resolved(stream), capture, true};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(lock);
  const auto number = reinterpret_cast<uintptr_t>(event);
  if (const cudaError_t error = begin("cudaEventSynchronize", nullptr, number)) return error;
  const auto found = events.find(event);
  if (found == events.end()) return set_last_error(cudaErrorInvalidResourceHandle);
  if (!found->second.capture) return cudaSuccess;
  if (captures.count(found->second.capture))
    return break_capture(found->second.capture, cudaErrorCapturedEvent);
  return set_last_error(cudaErrorCapturedEvent);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}
}
