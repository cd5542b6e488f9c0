// Zeros of targets, put down in order and no sooner than needed.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/memory/tuning.h"
#include "cpu/simd/native.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What is written over these zeros a moment later is still in the cache. memset would leave them
/// to memory where there are many.
template <class T>
class Zeros {
 public:
  /// `size` targets, `step` elements apart, of `lanes` elements each.
  Zeros(T* y, int64_t step, int64_t lanes, int64_t size)
      : y_(y), step_(step), lanes_(lanes), size_(uint64_t(size)) {}

  /// Before target `at` is written.
  void reach(uint64_t at) {
    if (at >= end_) [[unlikely]]
      extend(std::min(size_, at + ahead_));
  }
  void finish() { extend(size_); }

  /// Asks for some of the memory that is cleared next, if nothing of others stands between.
  void fetch() {
    if (step_ != lanes_) return;
    constexpr int64_t kFar = tuning::unpool::kFetchedBytes, kLines = tuning::unpool::kFetchedLines;
    const char* const end = place(end_);
    const char* const last = std::min(end + kFar, static_cast<const char*>(place(size_)));
    const char* at = std::max(fetched_, end);
    for (int64_t i = 0; i < kLines && at < last; ++i, at += 64) __builtin_prefetch(at, 1);
    fetched_ = at;
  }

 private:
  char* place(uint64_t target) const {
    return reinterpret_cast<char*>(y_ + int64_t(target) * step_);
  }
  uint64_t targets_of(int64_t bytes) const {
    return uint64_t(std::max<int64_t>(1, bytes / int64_t(sizeof(T)) / lanes_));
  }

  [[gnu::noinline]] void extend(uint64_t end) {
    for (; end - end_ > watched_; checkpoint()) clear(end_ + watched_);
    clear(end);
  }

  void clear(uint64_t end) {
    if (step_ == lanes_) {
      clear(place(end_), place(end));
    } else {
      const int64_t bytes = lanes_ * int64_t(sizeof(T));
      for (uint64_t t = end_; t < end; ++t) clear(place(t), place(t) + bytes);
    }
    end_ = end;
  }

  static void clear(char* at, char* end) {
    for (; end - at >= kVectorBytes; at += kVectorBytes) store_vector(at, Vector<char>{});
    std::memset(at, 0, size_t(end - at));
  }

  T* const y_;
  const int64_t step_, lanes_;
  const uint64_t size_, ahead_ = targets_of(tuning::unpool::kClearedBytes),
                        watched_ = targets_of(tuning::unpool::kWatchedBytes);
  uint64_t end_ = 0;
  const char* fetched_ = nullptr;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
