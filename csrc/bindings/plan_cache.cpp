// A least-recently-used cache in front of make_plan.
#include "bindings/plan_cache.h"

#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cpu/threads/parallel.h"

namespace cudml::bindings {

PlanKey::PlanKey(const Call& call) {
  add(uint64_t(reinterpret_cast<uintptr_t>(call.op))).add(uint64_t(int64_t(call.place.device)));
  if (!call.place.is_cuda()) add(uint64_t(cpu::num_threads()));
  add(call.forced_kernel);
}

PlanKey& PlanKey::add(const Dims& dims) {
  add(uint64_t(dims.rank));
  for (const int64_t n : dims) add(uint64_t(n));
  return *this;
}

PlanKey& PlanKey::add(const TensorDesc& tensor) {
  return add(uint64_t(tensor.dtype)).add(tensor.sizes).add(tensor.strides);
}

PlanKey& PlanKey::add(const PoolDesc& desc) {
  add(uint64_t(desc.output_rule) << 1 | uint64_t(desc.include_padding)).add(uint64_t(desc.p));
  for (const Dims* dims : {&desc.axes, &desc.window_size, &desc.strides, &desc.start_padding,
                           &desc.end_padding, &desc.dilations, &desc.output_sizes})
    add(*dims);
  return *this;
}

PlanKey& PlanKey::add(const PoolGradDesc& desc) { return add(desc.forward).add(desc.input_sizes); }

PlanKey& PlanKey::add(const PadDesc& desc, int rank) {
  uint64_t modes = 0, value = 0;
  for (int d = 0; d < rank; ++d) modes = modes << 8 | uint64_t(desc.mode[d]);
  std::memcpy(&value, desc.value.bytes, sizeof value);
  return add(desc.start_padding).add(desc.end_padding).add(modes).add(value);
}

PlanKey& PlanKey::add(const PadGradDesc& desc) {
  return add(desc.input_sizes)
      .add(desc.start_padding)
      .add(desc.end_padding)
      .add(uint64_t(desc.mode));
}

PlanKey& PlanKey::add(const MvnDesc& desc) {
  add(uint64_t(desc.activation.kind) << 2 | uint64_t(desc.use_mean) << 1 |
      uint64_t(desc.use_variance));
  return add(desc.axes).add(desc.epsilon).add(desc.activation.a).add(desc.activation.b);
}

PlanKey& PlanKey::add(const MvnGradDesc& desc) {
  add(uint64_t(desc.activation.kind) << 8 | uint64_t(desc.sum_dtype) << 2 |
      uint64_t(desc.use_mean) << 1 | uint64_t(desc.use_variance));
  return add(desc.axes).add(desc.epsilon).add(desc.activation.a).add(desc.activation.b);
}

PlanKey& PlanKey::add(const StatisticsDesc& desc) {
  return add(uint64_t(desc.dtype) << 1 | uint64_t(desc.use_mean)).add(desc.axes);
}

PlanKey& PlanKey::add(const NormalizeDesc& desc) {
  add(uint64_t(desc.activation.kind)).add(desc.epsilon);
  return add(desc.activation.a).add(desc.activation.b);
}

bool PlanKey::operator==(const PlanKey& other) const {
  return count_ == other.count_ &&
         std::memcmp(words_.data(), other.words_.data(), count_ * sizeof words_[0]) == 0;
}

uint64_t PlanKey::hash() const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t lanes[4] = {count_, 1, 2, 3};  // that do not wait for each other's products
  for (size_t i = 0; i < count_; ++i)
    lanes[i % 4] = std::rotl((lanes[i % 4] ^ words_[i]) * kOdd, 29);
  return ((lanes[0] * kOdd ^ lanes[1]) * kOdd ^ lanes[2]) * kOdd ^ lanes[3];
}

namespace {

constexpr int64_t kMostPlans = 256;  // of some three kilobytes each

class Cache {
 public:
  std::shared_ptr<const PlannedCall> find(const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    if (!entries_.empty() && entries_.front().key == key) {  // the same call again
      ++hits_;
      return entries_.front().plan;
    }
    const auto found = index_.find(&key);
    if (found == index_.end()) {
      ++misses_;
      return nullptr;
    }
    ++hits_;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->plan;
  }

  void keep(const PlanKey& key, std::shared_ptr<const PlannedCall> plan) {
    const std::lock_guard lock(mutex_);
    if (index_.contains(&key)) return;  // another thread was here first
    entries_.push_front({key, std::move(plan)});
    index_.emplace(&entries_.front().key, entries_.begin());
    if (int64_t(entries_.size()) <= kMostPlans) return;
    index_.erase(&entries_.back().key);
    entries_.pop_back();
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    index_.clear();
    entries_.clear();
    hits_ = misses_ = 0;
  }

  CacheInfo info() {
    const std::lock_guard lock(mutex_);
    return {hits_, misses_, kMostPlans, int64_t(entries_.size())};
  }

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const PlannedCall> plan;
  };
  struct Hash {
    size_t operator()(const PlanKey* key) const { return size_t(key->hash()); }
  };
  struct Equal {
    bool operator()(const PlanKey* a, const PlanKey* b) const { return *a == *b; }
  };

  std::mutex mutex_;          // nothing of Python's happens while it is held
  std::list<Entry> entries_;  // the last one asked for first
  std::unordered_map<const PlanKey*, std::list<Entry>::iterator, Hash, Equal> index_;
  int64_t hits_ = 0, misses_ = 0;
};

// Never destroyed: threads may still call while the process ends.
Cache& cache() {
  static Cache& instance = *new Cache;
  return instance;
}

}  // namespace

std::shared_ptr<const PlannedCall> find_plan(const PlanKey& key) { return cache().find(key); }

void keep_plan(const PlanKey& key, std::shared_ptr<const PlannedCall> plan) {
  cache().keep(key, std::move(plan));
}

void clear_plans() { cache().clear(); }
CacheInfo plan_cache_info() { return cache().info(); }

}  // namespace cudml::bindings
