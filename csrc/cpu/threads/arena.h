// A thread's own memory for what would take too much of its stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace cudml::cpu {

/// Bytes of an arena. What all rooms of a call take together stays far below.
constexpr size_t kArenaBytes = 1 << 19;

/// Makes this thread's arena ready; false where there is no memory for it. It is kept until the
/// thread ends, and parallel_for has it ready before any task runs.
bool reserve_arena() noexcept;

/// The latest to come is the first to go. Beyond the arena it is new memory, or std::bad_alloc.
void* take_room(size_t bytes);
void give_room(void* room, size_t bytes) noexcept;

/// An object in the thread's arena. Its members without an initializer are not initialized.
template <class T>
class Room {
 public:
  template <class... Arguments>
  explicit Room(const Arguments&... arguments) : memory_(take_room(sizeof(T))) {
    static_assert(sizeof(T) <= kArenaBytes / 2 && alignof(T) <= 64);
    try {
      if constexpr (sizeof...(Arguments) == 0)
        object_ = new (memory_) T;
      else
        object_ = new (memory_) T(arguments...);
    } catch (...) {
      give_room(memory_, sizeof(T));
      throw;
    }
  }
  ~Room() {
    object_->~T();
    give_room(memory_, sizeof(T));
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  void* memory_;
  T* object_;
};

/// Bytes in the arena, or beyond it, from a line of memory on. They are not initialized.
struct RoomOfBytes {
  const size_t bytes;
  char* const at;

  explicit RoomOfBytes(int64_t n) : bytes(size_t(n)), at(static_cast<char*>(take_room(bytes))) {}
  ~RoomOfBytes() { give_room(at, bytes); }
  RoomOfBytes(const RoomOfBytes&) = delete;
  RoomOfBytes& operator=(const RoomOfBytes&) = delete;
};

/// An array of kCount elements, which are not initialized.
template <class T, size_t kCount>
struct Elements {
  alignas(64) T at[kCount];
};

}  // namespace cudml::cpu
