// Loops over short planes, several of which are taken in turn: the sums of each are vectors, whose
// lanes are added up for many planes at once.
#pragma once

#include <type_traits>

#include "cpu/mvn_grad/plane_sums.h"
#include "cpu/mvn_grad/row_states.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Elements whose sums stay in one vector: chains of at most 256 additions.
constexpr int64_t kLaneStretch = 1024;

/// Plans and tensors of short planes.
template <class T>
struct ShortPlanes {
  const MvnGradPlan& plan;
  const Operands& operands;
  const T *x, *grad;  // x is null where the second total alone is wanted
  T* dx;              // or null
  int64_t n;          // elements of a plane
  bool is_large;      // asked for ahead

  ShortPlanes(const MvnGradPlan& p, const Operands& o)
      : plan(p),
        operands(o),
        x(p.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad(static_cast<const T*>(o.inputs[1])),
        dx(p.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        n(p.reduced[p.reduced_rank - 1].size),
        is_large(is_streamed(p.cells * p.cell_size * int64_t(sizeof(T)))) {
    for (int64_t k = 0; k < kPlaces; ++k) place_[k] = k * (n - 1) / (kPlaces - 1);
  }

  /// An element of x, or null.
  const T* x_at(int64_t place) const { return x ? x + place : nullptr; }

  /// From one cell to the next, of most.
  MvnGradAxis cell_step() const {
    return plan.kept_rank > 0 ? plan.kept[plan.kept_rank - 1] : MvnGradAxis{};
  }

  /// The mean of eight elements of a plane, of equal ones exactly what they are.
  float guess(int64_t plane) const {
    float sum[2] = {};
    for (int64_t k = 0; k < kPlaces; ++k) sum[k % 2] += load_as_acc(x[plane + place_[k]]);
    return guess_of(double(sum[0] + sum[1]), 1.0 / kPlaces);
  }

 private:
  static constexpr int64_t kPlaces = 8;
  int64_t place_[kPlaces];
};

/// Asks for the lines of a plane.
template <bool kIsWritten = false, class T>
[[gnu::always_inline]] inline void fetch_plane(const T* plane, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / int64_t(sizeof(T)))
    __builtin_prefetch(plane + i, kIsWritten, 2);
}

/// What of a plane is added up: h; h * d, too; d and d * d, too.
enum class PlaneTerms { gradient, products, all };

/// Calls fn(what of planes is added up, as a constant).
template <class Fn>
[[gnu::always_inline]] inline void with_terms(const MvnGradPlan& plan, const Fn& fn) {
  using enum PlaneTerms;
  if (!plan.reads_x())
    fn(std::integral_constant<PlaneTerms, gradient>{});
  else if (plan.are_given)
    fn(std::integral_constant<PlaneTerms, products>{});
  else
    fn(std::integral_constant<PlaneTerms, all>{});
}

/// Adds up a plane of n elements, at least a vector of them: d = x - pivot and d * d as number
/// `all`, h and h * d as number `own`, which begin with it if kBegins.
template <PlaneTerms kTerms, bool kBegins, class T>
[[gnu::always_inline]] inline void add_plane(const T* x, const T* grad, int64_t n, float pivot,
                                             Floats (&sums)[4][kMostBatched], int64_t all,
                                             int64_t own) {
  constexpr int kFirst = kTerms == PlaneTerms::all ? 0 : 2,
                kEnd = kTerms == PlaneTerms::gradient ? 3 : 4;
  const Floats guess = all_lanes<float>(pivot);
  Floats sum[4] = {};
  for (int k = kFirst; k < kEnd; ++k)
    if (k < 2 || !kBegins) sum[k] = sums[k][k < 2 ? all : own];
  const auto add = [&](int64_t i, auto m) __attribute__((always_inline)) {
    const Floats h = counted<float>(load_wide(grad + i, Whole{}), m);
    sum[2] += h;
    if constexpr (kTerms == PlaneTerms::gradient) return;
    const Floats d = counted<float>(load_wide(x + i, Whole{}) - guess, m);
    sum[3] = fused(h, d, sum[3]);
    if constexpr (kTerms == PlaneTerms::products) return;
    sum[0] += d;
    sum[1] = fused(d, d, sum[1]);
  };
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) add(i, Whole{});
  if (i < n) add(n - kFloats, Last{n - i});
  for (int k = kFirst; k < kEnd; ++k) sums[k][k < 2 ? all : own] = sum[k];
}

/// dx = grad * factor + ((x - pivot) * slope + shift) of a plane. Elements of its last vector are
/// written twice, with the same bits.
template <class T>
[[gnu::always_inline]] inline void write_dx(const T* x, const T* grad, T* dx, int64_t n,
                                            const Floats& pivot, const Floats& slope,
                                            const Floats& shift, const Floats& factor) {
  const auto put = [&](int64_t i) __attribute__((always_inline)) {
    const Floats d = load_wide(x + i, Whole{}) - pivot, rest = fused(d, slope, shift);
    store_narrow(dx + i, fused(load_wide(grad + i, Whole{}), factor, rest), Whole{});
  };
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) put(i);
  if (i < n) put(n - kFloats);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
