// Whether a stream's work goes into a graph.
#pragma once

namespace cudml::cuda {

/// The stream is a cudaStream_t. Throws Error where the runtime refuses to say.
bool is_capturing(void* stream);

}  // namespace cudml::cuda
