// Named ranges for profilers, where the toolkit has NVTX; free when no profiler listens.
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace cudml::cuda {

class Range {
 public:
#if __has_include(<nvtx3/nvToolsExt.h>)
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
#else
  explicit Range(const char*) {}
#endif
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace cudml::cuda
