// Plans of recent calls, so that a call like an earlier one is only looked up.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "bindings/run.h"

namespace cudml::bindings {

/// Everything a plan depends on, as words. Two calls with equal keys have the same plan.
class PlanKey {
 public:
  explicit PlanKey(const Call& call);

  PlanKey& add(uint64_t word) {
    words_.at(count_++) = word;
    return *this;
  }
  PlanKey& add(double number) { return add(std::bit_cast<uint64_t>(number)); }
  PlanKey& add(const Dims& dims);
  PlanKey& add(const TensorDesc& tensor);
  PlanKey& add(const PoolDesc& desc);
  PlanKey& add(const PoolGradDesc& desc);
  PlanKey& add(const PadDesc& desc, int rank);
  PlanKey& add(const PadGradDesc& desc);
  PlanKey& add(const MvnDesc& desc);
  PlanKey& add(const MvnGradDesc& desc);
  PlanKey& add(const StatisticsDesc& desc);
  PlanKey& add(const NormalizeDesc& desc);

  bool operator==(const PlanKey& other) const;
  uint64_t hash() const;

 private:
  // Enough for twelve tensors of rank 8 and what is asked of them; only the first count_ are set.
  std::array<uint64_t, 300> words_;
  size_t count_ = 0;
};

/// What a call needs beside its arrays.
struct PlannedCall {
  Program program;
  TensorDesc outputs[kMostOutputs];  // as the caller's `out` is, or as they are to be allocated
};

/// What the cache holds and how often it helped, in the words of functools.lru_cache.
struct CacheInfo {
  int64_t hits = 0, misses = 0, maxsize = 0, currsize = 0;
};

/// The plan of an equal call, or null. May be called from any number of threads; so may the others.
std::shared_ptr<const PlannedCall> find_plan(const PlanKey& key);

/// Keeps a plan; the one that was not asked for the longest gives way.
void keep_plan(const PlanKey& key, std::shared_ptr<const PlannedCall> plan);

/// Forgets all plans and counts from 0 again.
void clear_plans();
CacheInfo plan_cache_info();

}  // namespace cudml::bindings
