// The end of a thread's stores past the caches.
#pragma once

namespace cudml::cpu {

/// Orders a thread's stores past the caches before whatever says that its part is done.
inline void fence_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace cudml::cpu
