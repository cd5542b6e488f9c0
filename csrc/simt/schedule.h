// The order in which threads that run together do so, drawn from a seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "executor.h"

namespace cudml::simt {

/// Seed 0: natural order, first ready first. Odd seeds: any ready thread. Even seeds: the thread
/// woken last, so that one warp runs far ahead of the others. Blocks come in natural or in shuffled
/// order. The draws depend on the seed and the launch's shape alone.
class Schedule {
 public:
  void begin_launch(uint64_t blocks, int threads) {
    const char* text = std::getenv("CUDML_SIMT_SEED");
    seed_ = text ? std::strtoull(text, nullptr, 10) : 0;
    state_ = (seed_ * 0x9e3779b97f4a7c15u + blocks) * 0xbf58476d1ce4e5b9u + uint64_t(threads);
    draws_next_ = false;
    order_.clear();
    blocks_ = blocks;
    if (blocks > kMostRun) return sample(blocks);
    if (seed_ == 0 || blocks > kMostShuffled) return;
    order_.resize(blocks);
    std::iota(order_.begin(), order_.end(), 0u);
    for (uint64_t i = blocks; i > 1; --i) std::swap(order_[i - 1], order_[draw(i)]);
  }
  /// How many blocks are run.
  uint64_t blocks() const { return order_.empty() ? blocks_ : order_.size(); }
  /// The i-th block to run.
  uint64_t block(uint64_t i) const { return order_.empty() ? i : order_[i]; }

  void begin_block(int threads) {
    head_ = tail_ = 0;
    wake(threads, [](int i) { return i; }, [this](int i) { add(i); });
  }

  bool is_empty() const { return head_ == tail_; }
  void add(int thread) { ring_[tail_++ % kMostGang] = uint16_t(thread); }
  /// Adds a thread that the order "woken last" takes after all others.
  void add_last(int thread) { ring_[--head_ % kMostGang] = uint16_t(thread); }
  /// Whether others run before an atomic operation.
  bool yields() { return seed_ != 0 && draw(2) == 0; }

  /// The thread that take() returns next.
  int peek() {
    if (seed_ % 2 == 1 && !draws_next_) {
      std::swap(ring_[(head_ + draw(tail_ - head_)) % kMostGang], ring_[(tail_ - 1) % kMostGang]);
      draws_next_ = true;
    }
    return ring_[(seed_ == 0 ? head_ : tail_ - 1) % kMostGang];
  }
  int take() {
    const int thread = peek();
    draws_next_ = false;
    seed_ == 0 ? ++head_ : --tail_;
    return thread;
  }

  /// Calls wake_one(thread_of(i)) for each i below count, in natural or in a drawn order; threads
  /// below 0 are left out.
  template <class ThreadOf, class WakeOne>
  void wake(int count, const ThreadOf& thread_of, const WakeOne& wake_one) {
    // A step that shares no factor with the count visits every i once.
    uint64_t step = 1, at = 0;
    if (seed_ != 0 && count > 1) {
      at = draw(uint64_t(count));
      do step = 1 + draw(uint64_t(count) - 1);
      while (std::gcd(step, uint64_t(count)) != 1);
    }
    for (int i = 0; i < count; ++i, at = (at + step) % uint64_t(count))
      if (const int thread = thread_of(int(at)); thread >= 0) wake_one(thread);
  }

 private:
  static constexpr uint64_t kMostShuffled = 1 << 20, kMostRun = 1 << 22;

  /// Of a grid that would take too long: its ends, and both sides of each power of two, at which
  /// numbers that are too narrow begin again.
  void sample(uint64_t blocks) {
    order_ = {0, 1, uint32_t(blocks - 2), uint32_t(blocks - 1)};
    for (uint64_t at = 1 << 10; at + 3 < blocks; at *= 2)
      for (uint64_t block : {at - 1, at, at + 1}) order_.push_back(uint32_t(block));
  }

  uint64_t draw(uint64_t below) {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
  }

  uint64_t seed_ = 0, state_ = 0, blocks_ = 0;
  std::vector<uint32_t> order_;
  uint16_t ring_[kMostGang] = {};
  uint32_t head_ = 0, tail_ = 0;
  bool draws_next_ = false;
};

}  // namespace cudml::simt
