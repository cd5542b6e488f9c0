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

class SharedMemory {
 public:
  /// `most`: bytes that variables and dynamic memory may take together.
  void begin_launch(size_t dynamic_bytes, size_t most) {
    dynamic_bytes_ = dynamic_bytes;
    most_ = most;
    stride_ = kMostStaticShared + kSlots * 4 * kRedZone + (dynamic_bytes + 4095) / 4096 * 4096;
    // Blocks share one arena, or have one each where accesses of different blocks are compared.
    const size_t arenas = is_tsan() ? kArenas : 1;
    if (is_tsan() || memory_.bytes() < stride_) memory_.map(stride_ * arenas);
    arenas_ = arenas;
  }

  void begin_block(uint64_t index) {
    if (is_tsan() && index > 0 && index % arenas_ == 0) memory_.map(stride_ * arenas_);
    arena_ = memory_.base() + index % arenas_ * stride_;
    poison(arena_, stride_);
    used_ = static_bytes_ = 0;
    slots_ = 0;
    dynamic_ = dynamic_bytes_ ? allocate(dynamic_bytes_, 16) : nullptr;
  }

  void* dynamic() const { return dynamic_; }

  /// The slot of `key`, made at the first call in a block; null where the launch may not take
  /// so much.
  void* slot(const void* key, size_t bytes, size_t alignment) {
    for (int i = 0; i < slots_; ++i)
      if (slot_[i].key == key) return slot_[i].memory;
    static_bytes_ += bytes;
    if (static_bytes_ > kMostStaticShared || slots_ == kSlots) return nullptr;
    if (static_bytes_ + dynamic_bytes_ > most_) return nullptr;
    slot_[slots_].key = key;
    slot_[slots_].memory = allocate(bytes, alignment);
    return slot_[slots_++].memory;
  }

 private:
  static constexpr int kSlots = 64;
  static constexpr size_t kRedZone = 64, kArenas = 256;

  struct Slot {
    const void* key;
    char* memory;
  };

  /// Aligned to `alignment` and, from 8 bytes on, to no more: code that counts on more is found.
  char* allocate(size_t bytes, size_t alignment) {
    alignment = std::max<size_t>(alignment, 8);
    size_t offset = (used_ + kRedZone + alignment - 1) / alignment * alignment;
    if (offset / alignment % 2 == 0) offset += alignment;
    used_ = offset + bytes;
    char* memory = arena_ + offset;
    unpoison(memory, bytes);
    // Not memset, which sanitizers replace by their own.
    for (volatile char* p = memory; p < memory + bytes; p = p + 1) *p = char(0xff);
    return memory;
  }

  FreshMemory memory_;
  char *arena_ = nullptr, *dynamic_ = nullptr;
  size_t stride_ = 0, arenas_ = 1, dynamic_bytes_ = 0, most_ = 0, used_ = 0, static_bytes_ = 0;
  int slots_ = 0;
  Slot slot_[kSlots] = {};
};

}  // namespace cudml::simt
