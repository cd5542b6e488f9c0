// Where a thread's rooms are.
#include "cpu/threads/arena.h"

#include <cstdint>

namespace cudml::cpu {
namespace {

constexpr auto kAlignment = std::align_val_t(64);

struct Arena {
  std::byte* memory = nullptr;
  size_t used = 0;

  bool reserve() {
    if (!memory)
      memory = static_cast<std::byte*>(::operator new(kArenaBytes, kAlignment, std::nothrow));
    return memory != nullptr;
  }
  ~Arena() {
    ::operator delete(memory, kAlignment);
    memory = nullptr;
  }
};

thread_local Arena arena;

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

bool reserve_arena() noexcept { return arena.reserve(); }

void* take_room(size_t bytes) {
  const size_t size = rounded(bytes);
  if (!arena.reserve() || size > kArenaBytes - arena.used) return ::operator new(size, kAlignment);
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
