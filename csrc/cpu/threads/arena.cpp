// Where a thread's rooms are.
#include "cpu/threads/arena.h"

#include <cstdint>

#include "core/thread_end.h"

namespace cudml::cpu {
namespace {

constexpr auto kAlignment = std::align_val_t(64);

struct Arena {
  std::byte* memory;
  size_t used;
};

thread_local constinit Arena arena{nullptr, 0};  // looked at without any initialization

/// What a thread does as it ends.
void end_arena(void* memory) {
  ::operator delete(memory, kAlignment);
  arena.memory = nullptr;
}

const ThreadEnd at_end(end_arena);

[[gnu::noinline]] bool make_arena() {
  void* const memory = ::operator new(kArenaBytes, kAlignment, std::nothrow);
  if (memory && !at_end.remember(memory)) {
    ::operator delete(memory, kAlignment);
    return false;
  }
  arena.memory = static_cast<std::byte*>(memory);
  return memory != nullptr;
}

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

bool reserve_arena() noexcept { return arena.memory || make_arena(); }

void* take_room(size_t bytes) {
  const size_t size = rounded(bytes);
  if (!reserve_arena() || size > kArenaBytes - arena.used) return ::operator new(size, kAlignment);
  void* const room = arena.memory + arena.used;
  arena.used += size;
  return room;
}

void give_room(void* room, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(arena.memory),
             at = reinterpret_cast<uintptr_t>(room);
  if (at >= begin && at < begin + kArenaBytes)
    arena.used -= rounded(bytes);
  else
    ::operator delete(room, kAlignment);
}

}  // namespace cudml::cpu
