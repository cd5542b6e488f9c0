// The floating-point state that results are defined for.
#pragma once

#if defined(__x86_64__) || defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

#include <cstdint>

namespace cudml {

/// While it lives, this thread rounds to nearest, keeps subnormals and traps nothing, whatever the
/// caller has chosen; then the caller's state is back. Some nanoseconds.
class FloatState {
 public:
  FloatState() : saved_(read()) {
    if (!is_plain(saved_)) write(plain());
  }
  ~FloatState() {
    if (!is_plain(saved_)) write(saved_);
  }
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;

 private:
#if defined(__x86_64__) || defined(__SSE2__)
  using State = uint32_t;                                 // MXCSR
  static constexpr State kFlags = 0x3f, kPlain = 0x1f80;  // what was raised; all traps masked
  static State plain() { return kPlain; }
  static bool is_plain(State s) { return (s & ~kFlags) == kPlain; }
  static State read() { return _mm_getcsr(); }
  static void write(State s) { _mm_setcsr(s); }
#elif defined(__aarch64__)
  using State = uint64_t;  // FPCR
  static State plain() { return 0; }
  static bool is_plain(State s) { return s == 0; }
  static State read() {
    State s;
    asm volatile("mrs %0, fpcr" : "=r"(s));
    return s;
  }
  static void write(State s) { asm volatile("msr fpcr, %0" : : "r"(s) : "memory"); }
#else
  using State = std::fenv_t;
  static State plain() { return *FE_DFL_ENV; }
  static bool is_plain(const State&) { return false; }
  static State read() {
    State s;
    std::fegetenv(&s);
    return s;
  }
  static void write(const State& s) { std::fesetenv(&s); }
#endif

  const State saved_;
};

}  // namespace cudml
