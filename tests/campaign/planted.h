// Faults that sleep until one is woken: mutate.py puts these words into a copy of the source, and
// the build includes this file before every other. Which fault is awake, and which ones a test
// came by, stands in a file that all processes of a test map. What is constant has no faults.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>

#define CUDML_ALWAYS __attribute__((always_inline)) inline constexpr

namespace planted {

constexpr int kBytes = 1 << 16;  // the number that is awake, then a byte for each fault
alignas(64) inline unsigned char nowhere[kBytes];
inline unsigned char* memory = nowhere;

inline bool mapped() {
  const char* name = std::getenv("CUDML_PLANTED");
  const int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return false;
  void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (p != MAP_FAILED) memory = static_cast<unsigned char*>(p);
  return true;
}

inline const bool is_mapped = mapped();

__attribute__((always_inline)) inline bool is_awake(int n) {
  // Relaxed: it orders nothing, and ThreadSanitizer sees no race of its own.
  __atomic_store_n(memory + 4 + n, 1, __ATOMIC_RELAXED);
  return __atomic_load_n(reinterpret_cast<const int32_t*>(memory), __ATOMIC_RELAXED) == n;
}

CUDML_ALWAYS bool on(int n) { return !std::is_constant_evaluated() && is_awake(n); }
CUDML_ALWAYS int zero(int n) { return on(n) ? 1 : 0; }
CUDML_ALWAYS bool flag(int n, bool value) { return on(n) ? !value : value; }
CUDML_ALWAYS int index(int n, int value, int other) { return on(n) ? other : value; }

template <int N, class T>
CUDML_ALWAYS T least(const T& a, const T& b) {
  return on(N) ? std::max<T>(a, b) : std::min<T>(a, b);
}

template <int N, class T>
CUDML_ALWAYS T least(std::initializer_list<T> of) {
  return on(N) ? std::max<T>(of) : std::min<T>(of);
}

template <int N, class T>
CUDML_ALWAYS T most(const T& a, const T& b) {
  return on(N) ? std::min<T>(a, b) : std::max<T>(a, b);
}

template <int N, class T>
CUDML_ALWAYS T most(std::initializer_list<T> of) {
  return on(N) ? std::min<T>(of) : std::max<T>(of);
}

/// `a && Right<N>{} | b`, `a || Right<N>{} & b`: the right side is left out.
template <int N>
struct Right {
  template <class T>
  friend CUDML_ALWAYS bool operator|(Right, const T& b) {
    return on(N) || static_cast<bool>(b);
  }
  template <class T>
  friend CUDML_ALWAYS bool operator&(Right, const T& b) {
    return !on(N) && static_cast<bool>(b);
  }
};

/// `a < Swapped<N>{} < b` is another operator of a and b, `a + Dropped<N>{} + b` is a.
template <int N>
struct Swapped {};
template <int N>
struct Dropped {};

#define CUDML_SWAPPED(NAME, OP, OTHER)                                                      \
  template <int N, class T>                                                                 \
  struct NAME {                                                                             \
    const T& a;                                                                             \
  };                                                                                        \
  template <class T, int N>                                                                 \
  CUDML_ALWAYS NAME<N, T> operator OP(const T& a, Swapped<N>) {                             \
    return {a};                                                                             \
  }                                                                                         \
  template <int N, class T, class U>                                                        \
  CUDML_ALWAYS auto operator OP(NAME<N, T> left, const U& b) {                              \
    using Result = std::remove_cvref_t<decltype(left.a OP b)>;                              \
    if constexpr (requires {                                                                \
                    requires std::is_same_v<Result,                                         \
                                            std::remove_cvref_t<decltype(left.a OTHER b)>>; \
                  }) {                                                                      \
      if (on(N)) return Result(left.a OTHER b);                                             \
    }                                                                                       \
    return Result(left.a OP b);                                                             \
  }

#define CUDML_DROPPED(NAME, OP)                                 \
  template <int N, class T>                                     \
  struct NAME {                                                 \
    const T& a;                                                 \
  };                                                            \
  template <class T, int N>                                     \
  CUDML_ALWAYS NAME<N, T> operator OP(const T& a, Dropped<N>) { \
    return {a};                                                 \
  }                                                             \
  template <int N, class T, class U>                            \
  CUDML_ALWAYS auto operator OP(NAME<N, T> left, const U& b) {  \
    using Result = std::remove_cvref_t<decltype(left.a OP b)>;  \
    if constexpr (std::is_convertible_v<T, Result>) {           \
      if (on(N)) return Result(left.a);                         \
    }                                                           \
    return Result(left.a OP b);                                 \
  }

CUDML_SWAPPED(Less, <, <=)
CUDML_SWAPPED(Greater, >, >=)
CUDML_SWAPPED(LessOrEqual, <=, <)
CUDML_SWAPPED(GreaterOrEqual, >=, >)
CUDML_SWAPPED(Equal, ==, !=)
CUDML_SWAPPED(Unequal, !=, ==)
CUDML_SWAPPED(Plus, +, -)
CUDML_SWAPPED(Minus, -, +)
CUDML_SWAPPED(Times, *, +)
CUDML_SWAPPED(Divided, /, *)
CUDML_SWAPPED(Rest, %, /)
CUDML_DROPPED(PlusOne, +)
CUDML_DROPPED(MinusOne, -)

/// `a += Negative<N>{} += b` takes b away, `a *= Negative<N>{} *= b` leaves a as it is.
template <int N>
struct Negative {
  template <class T>
  CUDML_ALWAYS T operator+=(const T& b) const {
    if constexpr (requires { T(-b); }) {
      if (on(N)) return T(-b);
    }
    return b;
  }
  template <class T>
  CUDML_ALWAYS T operator*=(const T& b) const {
    if constexpr (requires { T(1); }) {
      if (on(N)) return T(1);
    }
    return b;
  }
};

}  // namespace planted
