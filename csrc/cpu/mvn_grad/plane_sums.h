// Sums over a slice of a plane in one pass: of x about a pivot, of the gradient, and of products.
#pragma once

#include "cpu/mvn/moments.h"
#include "cpu/mvn_grad/plane_layout.h"
#include "cpu/mvn_grad/plane_passes.h"
#include "cpu/simd/lane_sums.h"
#include "cpu/simd/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The longest stretch whose sums stay in vectors: chains of at most 256 additions of floats, and
/// of 128 of doubles, whose sums of stretches are no wider.
template <class A>
constexpr int64_t kPlaneStretch = sizeof(A) > sizeof(float) ? 512 : 2048;

/// The last n lanes of a vector, of which those before have been counted.
struct Last {
  int64_t n;
};

template <class A, class V>
[[gnu::always_inline]] inline V counted(const V& v, Whole) {
  return v;
}
/// Zeros where lanes have been counted.
template <class A, class V>
[[gnu::always_inline]] inline V counted(const V& v, Last m) {
  return keep_last<A>(v, m.n);
}

/// Adds up elements [i, end) of a slice's plane.
template <class A, class Term, int kSums, class Load, class Add>
[[gnu::always_inline]] inline void add_stretch(int64_t i, int64_t end, Vector<A> (&sums)[kSums],
                                               Vector<A> (&others)[kSums], const Load& load,
                                               const Add& add) {
  constexpr int64_t kStep = kLanes<A>;
  Term one[1], two[2];
  for (; i + 2 * kStep <= end; i += 2 * kStep) {
    load(i, two);
    add(sums, two[0], Whole{});
    add(others, two[1], Whole{});
  }
  if (i + kStep <= end) {
    load(i, one);
    add(sums, one[0], Whole{});
    i += kStep;
  }
  if (i < end) {
    load(end - kStep, one);
    add(others, one[0], Last{end - i});
  }
}

/// Adds up a slice, whose planes have at least a vector of elements: load(i, terms) gives what some
/// vectors from i on add, add(sums, term, lanes) adds it. The order of additions depends on how
/// long and how many its planes are. Goes on from the slice's plane to the next one.
template <class A, class Term, int kSums, class Slice, class Load, class Add>
[[gnu::always_inline]] inline void add_stretches(Slice& slice, double (&total)[kSums],
                                                 const Load& load, const Add& add) {
  const int64_t n = slice.n;
  for (int64_t first = 0; first < n; first += kPlaneStretch<A>) {
    Vector<A> sums[kSums] = {}, others[kSums] = {};
    for (int64_t p = slice.planes;;) {
      add_stretch<A, Term>(first, std::min(n, first + kPlaneStretch<A>), sums, others, load, add);
      if (--p == 0) break;
      slice.advance();
    }
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k) sums[k] += others[k];
    add_lanes_of(sums, total);
  }
}

/// What a slice adds up to: d = x - pivot and its square; h = grad * f'(v), but for the slope of a
/// linear activation, and h * z, which is h * d at first. `scale` is what w = h * scale takes.
struct SliceSums {
  double d, dd, h, hz, scale;
};

/// What is read ahead of a row, or fetched to be written: lines that stand as far from its own, or
/// none.
struct LinesAhead {
  int64_t elements;

  template <bool kIsWritten = false, class T>
  [[gnu::always_inline]] void fetch(const T* p) const {
    constexpr int64_t kStep = kLanes<Acc<T>>;
    if (elements == 0) return;
    for (int64_t i = 0; i < kStep; i += 64 / int64_t(sizeof(T)))
      __builtin_prefetch(p + elements + i, kIsWritten, 2);
  }
};

/// A slice of a plane, and what all of it has in common.
template <class T>
struct PlaneSlice {
  const T *x, *grad;  // x is null where it is not read
  T* dx;              // null where it is not wanted
  Acc<T>* kept;       // where h stays from its sums to dx, or null
  int64_t n, planes;  // elements of each plane, and how many there are of them
  int64_t x_step, grad_step, dx_step, kept_step;  // from each to the next
  LinesAhead x_ahead, grad_ahead, dx_ahead;
  double scale;  // of h, with the slope of a linear activation
  double bias;

  /// To the next plane.
  [[gnu::always_inline]] void advance() {
    if (x) x += x_step;
    grad += grad_step;
    if (dx) dx += dx_step;
    if (kept) kept += kept_step;
  }
};

/// Whether vectors of x and grad stand across lines, and their loads take longer than computing.
template <class Pass, class T, class G>
bool waits_for_lines(const T* x, const G* grad) {
  return !std::is_same_v<Pass, PlaneSwishPass> && are_across_lines(x, grad);
}

/// Loads terms from element i on, with the gradient as it is.
template <class Pass = Through, class T, int kCount>
[[gnu::always_inline]] inline void load_terms(const PlaneSlice<T>& s, int64_t i,
                                              const Vector<Acc<T>>& pivot,
                                              PlaneTerm<Acc<T>> (&terms)[kCount]) {
  const bool across = waits_for_lines<Pass>(s.x, s.grad);
#pragma GCC unroll 2
  for (int k = 0; k < kCount; ++k) {
    const int64_t at = i + k * kLanes<Acc<T>>;
    s.x_ahead.fetch(s.x + at);
    s.grad_ahead.fetch(s.grad + at);
    terms[k] = {load_across(s.x + at, Whole{}, across) - pivot,
                load_across(s.grad + at, Whole{}, across)};
  }
}

template <class A, int kCount>
[[gnu::always_inline]] inline void keep_terms(A* kept, int64_t i,
                                              const PlaneTerm<A> (&terms)[kCount]) {
  if (!kept) return;
#pragma GCC unroll 2
  for (int k = 0; k < kCount; ++k) store_vector(kept + i + k * kLanes<A>, terms[k].h);
}

/// The sum of h alone, where the gradient passes as it is.
template <class T>
[[gnu::noinline]] double sum_of_gradient(PlaneSlice<T> s) {
  using A = Acc<T>;
  using V = Vector<A>;
  double total[1] = {};
  add_stretches<A, V>(
      s, total,
      [&](int64_t i, auto& terms) __attribute__((always_inline)) {
#pragma GCC unroll 2
        for (V& h : terms) {
          s.grad_ahead.fetch(s.grad + i);
          h = load_wide(s.grad + i, Whole{});
          i += kLanes<A>;
        }
      },
      [&](auto& sums, const V& h, auto m)
          __attribute__((always_inline)) { sums[0] += counted<A>(h, m); });
  return total[0];
}

/// d and d * d about a pivot.
template <class T>
[[gnu::noinline]] void add_deviations(PlaneSlice<T> s, Acc<T> pivot, SliceSums& result) {
  using A = Acc<T>;
  using V = Vector<A>;
  double total[2] = {};
  add_stretches<A, V>(
      s, total,
      [&](int64_t i, auto& terms) __attribute__((always_inline)) {
#pragma GCC unroll 2
        for (V& d : terms) {
          s.x_ahead.fetch(s.x + i);
          d = load_wide(s.x + i, Whole{}) - pivot;
          i += kLanes<A>;
        }
      },
      [&](auto& sums, const V& all, auto m) __attribute__((always_inline)) {
        const auto d = counted<A>(all, m);
        sums[0] += d;
        sums[1] = fused(d, d, sums[1]);
      });
  result.d = total[0];
  result.dd = total[1];
}

/// The same, and h and h * d of a gradient that passes as it is.
template <class T>
[[gnu::always_inline]] inline void add_all(const PlaneSlice<T>& slice, Acc<T> pivot,
                                           SliceSums& result) {
  using A = Acc<T>;
  PlaneSlice<T> s = slice;  // in registers
  const Vector<A> guess = all_lanes<A>(pivot);
  double total[4] = {};
  add_stretches<A, PlaneTerm<A>>(
      s, total,
      [&](int64_t i, auto& terms)
          __attribute__((always_inline)) { load_terms(s, i, guess, terms); },
      [&](auto& sums, const PlaneTerm<A>& term, auto m) __attribute__((always_inline)) {
        const auto d = counted<A>(term.d, m), h = counted<A>(term.h, m);
        sums[0] += d;
        sums[1] = fused(d, d, sums[1]);
        sums[2] += h;
        sums[3] = fused(h, d, sums[3]);
      });
  result.d = total[0];
  result.dd = total[1];
  result.h = total[2];
  result.hz = total[3];
}

/// h and h * d; h is kept where there is a place for it.
template <class T, class Pass>
[[gnu::noinline]] void add_products(const PlaneSlice<T>& slice, Acc<T> pivot, const Pass& passing,
                                    SliceSums& result) {
  using A = Acc<T>;
  const Pass pass = passing;  // in registers
  PlaneSlice<T> s = slice;
  const Vector<A> guess = all_lanes<A>(pivot);
  double total[2] = {};
  add_stretches<A, PlaneTerm<A>>(
      s, total,
      [&](int64_t i, auto& terms) __attribute__((always_inline)) {
        load_terms<Pass>(s, i, guess, terms);
        pass_terms(pass, terms);
        if constexpr (std::is_same_v<Pass, PlaneSwishPass>) keep_terms(s.kept, i, terms);
      },
      [&](auto& sums, const PlaneTerm<A>& term, auto m) __attribute__((always_inline)) {
        const auto h = counted<A>(term.h, m);
        sums[0] += h;
        sums[1] = fused(h, counted<A>(term.d, m), sums[1]);
      });
  result.h = total[0];
  result.hz = total[1];
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
