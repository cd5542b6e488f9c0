// Vectors of a row in the type it is computed in, float or double, whole ones and its last.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/simd/convert.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// What cpu/simd/convert.h has for floats. Lanes beyond a partial vector are 0.
inline Doubles load_wide(const double* p, Whole) { return load_vector<Doubles>(p); }
inline Doubles load_wide(const double* p, Partial m) {
  Doubles v = {};
  for (int64_t l = 0; l < kDoubles; ++l)
    if (l < m.n) v[l] = p[l];
  return v;
}
inline void store_narrow(double* p, Doubles v, Whole) { store_vector(p, v); }
inline void store_narrow(double* p, Doubles v, Partial m) {
  for (int64_t l = 0; l < kDoubles; ++l)
    if (l < m.n) p[l] = v[l];
}
inline void stream_narrow(double* p, Doubles v) { stream_vector(p, v); }
inline Doubles select(Whole, Doubles v, Doubles) { return v; }
inline Doubles select(Partial m, Doubles v, Doubles other) {
  return kDoubleIndices < Vector<int64_t>{} + m.n ? v : other;
}

/// Calls fn(i, lanes) for the vectors of [begin, end).
template <class A, class Fn>
[[gnu::always_inline]] inline void for_lanes(int64_t begin, int64_t end, const Fn& fn) {
  int64_t i = begin;
  for (; i + kLanes<A> <= end; i += kLanes<A>) fn(i, Whole{});
  if (i < end) fn(i, Partial{end - i});
}

/// The sum of all lanes.
template <class A>
inline double lane_total(const Vector<A>& v) {
  constexpr int kCount = int(kLanes<A>);
  using Wide = Vector<double, kCount* int(sizeof(double))>;
  return add_lanes<kCount>(__builtin_convertvector(v, Wide));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
