// The shared memory of a block: one slot for each declaration, filled with 0xFF and fenced in.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include "executor.h"
#include "sanitizers.h"

namespace cudml::simt {

/// Memory that ThreadSanitizer has seen no access of: mapped again rather than used again.
class FreshMemory {
 public:
  void map(size_t bytes) {
    if (base_) {
      unpoison(base_, bytes_);
      munmap(base_, bytes_);
    }
    bytes_ = bytes;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(memory);
  }
  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
};

/// Addresses for order_release and order_acquire, used by one block only.
class OrderAddresses {
 public:
  void reserve(uint64_t blocks, size_t per_block) {
    per_block_ = per_block;
    kept_ = std::min<uint64_t>(blocks, kMostKept);
    memory_.map(size_t(kept_) * per_block * 8);
  }
  void* of(uint64_t block, int index) const {
    return memory_.base() +
           (size_t(block % std::max<uint64_t>(kept_, 1)) * per_block_ + size_t(index)) * 8;
  }

 private:
  static constexpr uint64_t kMostKept = 1 << 14;
  FreshMemory memory_;
  size_t per_block_ = 0;
  uint64_t kept_ = 0;
};

/// Of the blocks that run together, each its own.
class SharedMemory {
 public:
  /// `most`: bytes that variables and dynamic memory of a block may take together.
  void begin_launch(size_t dynamic_bytes, size_t most, int blocks) {
    dynamic_bytes_ = dynamic_bytes;
    most_ = most;
    stride_ = kMostStaticShared + kSlots * 4 * kRedZone + (dynamic_bytes + 4095) / 4096 * 4096;
    // Clusters share their arenas, or have their own where accesses of different blocks are
    // compared.
    const size_t arenas = is_tsan() ? kArenas : size_t(blocks);
    if (is_tsan() || memory_.bytes() < stride_ * arenas) memory_.map(stride_ * arenas);
    arenas_ = arenas;
  }

  /// Begins the block of this number, which is `rank` of its cluster.
  void begin_block(uint64_t number, int rank) {
    if (is_tsan() && number > 0 && number % arenas_ == 0) memory_.map(stride_ * arenas_);
    Block& block = blocks_[rank];
    block = {};
    block.arena = memory_.base() + number % arenas_ * stride_;
    poison(block.arena, stride_);
    if (dynamic_bytes_) block.dynamic = allocate(block, dynamic_bytes_, 16);
  }

  /// After which the others of a cluster may not read what the block held.
  void end_block(int rank) {
    Block& block = blocks_[rank];
    for (int i = 0; i < block.slots; ++i) fill(block.slot[i].memory, block.slot[i].bytes);
    if (block.dynamic) fill(block.dynamic, dynamic_bytes_);
    poison(block.arena, stride_);
  }

  void* dynamic(int rank) const { return blocks_[rank].dynamic; }

  /// The slot of `key`, made at the first call in a block; null where the launch may not take
  /// so much.
  void* slot(int rank, const void* key, size_t bytes, size_t alignment) {
    Block& block = blocks_[rank];
    for (int i = 0; i < block.slots; ++i)
      if (block.slot[i].key == key) return block.slot[i].memory;
    block.static_bytes += bytes;
    if (block.static_bytes > kMostStaticShared || block.slots == kSlots) return nullptr;
    if (block.static_bytes + dynamic_bytes_ > most_) return nullptr;
    char* const memory = allocate(block, bytes, alignment);
    block.slot[block.slots++] = {key, memory, bytes, alignment};
    return memory;
  }

  /// Where what lies at `address` of one block lies in another; null where that is nowhere.
  void* of_other(int own, const void* address, int other) {
    const char* const at = static_cast<const char*>(address);
    const Block& block = blocks_[own];
    if (block.dynamic && at >= block.dynamic && at < block.dynamic + dynamic_bytes_)
      return blocks_[other].dynamic + (at - block.dynamic);
    for (int i = 0; i < block.slots; ++i) {
      const Slot& s = block.slot[i];
      if (at < s.memory || at >= s.memory + s.bytes) continue;
      return static_cast<char*>(slot(other, s.key, s.bytes, s.alignment)) + (at - s.memory);
    }
    return nullptr;
  }

 private:
  static constexpr int kSlots = 64;
  static constexpr size_t kRedZone = 64, kArenas = 256;
  static_assert(kArenas % kMostCluster == 0);

  struct Slot {
    const void* key;
    char* memory;
    size_t bytes, alignment;
  };
  struct Block {
    char *arena = nullptr, *dynamic = nullptr;
    size_t used = 0, static_bytes = 0;
    int slots = 0;
    Slot slot[kSlots] = {};
  };

  /// Not memset, which sanitizers replace by their own.
  static void fill(char* memory, size_t bytes) {
    for (volatile char* p = memory; p < memory + bytes; p = p + 1) *p = char(0xff);
  }

  /// Aligned to `alignment` and, from 8 bytes on, to no more: code that counts on more is found.
  static char* allocate(Block& block, size_t bytes, size_t alignment) {
    alignment = std::max<size_t>(alignment, 8);
    size_t offset = (block.used + kRedZone + alignment - 1) / alignment * alignment;
    if (offset / alignment % 2 == 0) offset += alignment;
    block.used = offset + bytes;
    char* memory = block.arena + offset;
    unpoison(memory, bytes);
    fill(memory, bytes);
    return memory;
  }

  FreshMemory memory_;
  size_t stride_ = 0, arenas_ = 1, dynamic_bytes_ = 0, most_ = 0;
  Block blocks_[kMostCluster];
};

}  // namespace cudml::simt
