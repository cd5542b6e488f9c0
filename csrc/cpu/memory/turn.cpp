// Planes put side by side and taken back, a square of elements at a time.
#include "cpu/memory/turn.h"

#include "cpu/simd/lanes.h"
#include "cpu/simd/square.h"

namespace cudml::cpu::CUDML_ISA {

template <class E>
void turn_in(const Planes<const E>& planes, int64_t lanes, E* to) {
  constexpr int64_t k = kSide<E>;
  const int64_t ahead = planes.count * planes.pitch;  // to the next group of them
  for (int64_t lane = 0; lane < lanes; lane += k) {
    const E* from[k];
    for (int64_t r = 0; r < k; ++r) from[r] = planes.plane(lane + r);
    for (int64_t i = 0; i < planes.n && planes.n < k; ++i)
      for (int64_t r = 0; r < k; ++r) to[i * lanes + lane + r] = from[r][i];
    for (int64_t i = 0; i < planes.n && planes.n >= k; i += k) {
      i = std::min(i, planes.n - k);
      SquareRow<E> rows[k];
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) {
        __builtin_prefetch(from[r] + i + ahead, 0, 2);
        rows[r] = load_vector<SquareRow<E>>(from[r] + i);
      }
      turn<E>(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r) store_vector(to + (i + r) * lanes + lane, rows[r]);
    }
  }
}

template <class E>
void turn_out(const Planes<E>& planes, int64_t lanes, const E* from) {
  constexpr int64_t k = kSide<E>;
  for (int64_t lane = 0; lane < planes.count; lane += k) {
    E* to[k];
    for (int64_t r = 0; r < k; ++r) to[r] = planes.plane(lane + r);
    const int64_t count = std::min(k, planes.count - lane);
    for (int64_t i = 0; i < planes.n && planes.n < k; ++i)
      for (int64_t r = 0; r < count; ++r) to[r][i] = from[i * lanes + lane + r];
    for (int64_t i = 0; i < planes.n && planes.n >= k; i += k) {
      i = std::min(i, planes.n - k);
      SquareRow<E> rows[k];
#pragma GCC unroll 16
      for (int64_t r = 0; r < k; ++r)
        rows[r] = load_vector<SquareRow<E>>(from + (i + r) * lanes + lane);
      turn<E>(rows);
      // The last plane is the last to be written where lanes behind it stand for it, too.
#pragma GCC unroll 16
      for (int64_t r = k - 1; r >= 0; --r) store_vector(to[r] + i, rows[r]);
    }
  }
}

#define CUDML_TURNED(E)                                                   \
  template void turn_in<E>(const Planes<const E>&, int64_t lanes, E* to); \
  template void turn_out<E>(const Planes<E>&, int64_t lanes, const E* from);
CUDML_TURNED(uint8_t)
CUDML_TURNED(uint16_t)
CUDML_TURNED(uint32_t)
CUDML_TURNED(uint64_t)
#undef CUDML_TURNED

}  // namespace cudml::cpu::CUDML_ISA
