// What AddressSanitizer and ThreadSanitizer want to know of fibers; absent in other builds.
#pragma once

#include <cstddef>

extern "C" {
#define CUDML_WEAK __attribute__((weak))
CUDML_WEAK void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
CUDML_WEAK void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                size_t* size);
CUDML_WEAK void __asan_poison_memory_region(const volatile void* p, size_t bytes);
CUDML_WEAK void __asan_unpoison_memory_region(const volatile void* p, size_t bytes);
CUDML_WEAK void* __tsan_get_current_fiber();
CUDML_WEAK void* __tsan_create_fiber(unsigned flags);
CUDML_WEAK void __tsan_destroy_fiber(void* fiber);
CUDML_WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
CUDML_WEAK void __tsan_acquire(void* address);
CUDML_WEAK void __tsan_release(void* address);
#undef CUDML_WEAK
}

namespace cudml::simt {

inline bool is_asan() { return __asan_poison_memory_region != nullptr; }
inline bool is_tsan() { return __tsan_create_fiber != nullptr; }

inline void poison(const void* p, size_t bytes) {
  if (is_asan()) __asan_poison_memory_region(p, bytes);
}
inline void unpoison(const void* p, size_t bytes) {
  if (is_asan()) __asan_unpoison_memory_region(p, bytes);
}

// ThreadSanitizer sees an order of memory accesses only where these two say so: everything before
// a release of an address comes before everything after a later acquire of it.
inline void order_release(void* address) {
  if (is_tsan()) __tsan_release(address);
}
inline void order_acquire(void* address) {
  if (is_tsan()) __tsan_acquire(address);
}

}  // namespace cudml::simt
