// A profiler's range around all that one call of an operator enqueues. The kernels have ranges of
// their own inside it.
#pragma once

namespace cudml::cuda {

class OperatorRange {
 public:
  explicit OperatorRange(const char* op);
  ~OperatorRange();
  OperatorRange(const OperatorRange&) = delete;
  OperatorRange& operator=(const OperatorRange&) = delete;
};

}  // namespace cudml::cuda
