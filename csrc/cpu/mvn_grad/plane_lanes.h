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
  bool keeps_h;       // from its sums to dx: in dx itself, or, of halves, apart
  bool is_large;      // asked for ahead

  ShortPlanes(const MvnGradPlan& p, const Operands& o)
      : plan(p),
        operands(o),
        x(p.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad(static_cast<const T*>(o.inputs[1])),
        dx(p.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        n(p.reduced[p.reduced_rank - 1].size),
        keeps_h(dx && SwishPass::suits(p.activation)),
        is_large(is_streamed(p.cells * p.cell_size * int64_t(sizeof(T)))) {
    for (int64_t k = 0; k < kPlaces; ++k) place_[k] = k * (n - 1) / (kPlaces - 1);
  }

  /// How the gradient of a plane passes; `is_sound` becomes false where factors must not be joined.
  template <class Pass>
  Pass pass_of(const Normalizer<float>& normal, double scale, double bias, bool& is_sound) const {
    if constexpr (std::is_same_v<Pass, Through>) {
      return {};
    } else {
      constexpr bool kIsSwish = std::is_same_v<Pass, PlaneSwishPass>;
      const PassFactors<float> f(normal, scale, bias, kIsSwish ? plan.activation.a : 1);
      is_sound &= f.are_kept;
      if constexpr (kIsSwish)
        return Pass(f.of_d, f.rest);
      else
        return Pass(plan.activation, f.of_d, f.rest);
    }
  }

  /// An element of x, or null.
  const T* x_at(int64_t place) const { return x ? x + place : nullptr; }

  /// Whether the gradient passes an activation that reads its argument.
  bool has_pass() const { return reads_input(plan.activation.kind); }

  /// Whether what is added to a total depends on no factors.
  bool keeps_total(int t) const { return t == 1 && !has_pass(); }

  /// From one cell to the next, of most.
  MvnGradAxis cell_step() const {
    return plan.kept_rank > 0 ? plan.kept[plan.kept_rank - 1] : MvnGradAxis{};
  }

  /// The mean of eight elements of a plane, of equal ones exactly what they are.
  float guess(int64_t plane) const {
    float sum[kPlaces];
    for (int64_t k = 0; k < kPlaces; ++k) sum[k] = load_as_acc(x[plane + place_[k]]);
    for (int64_t half = kPlaces / 2; half > 0; half /= 2)  // of equal numbers nothing is rounded
      for (int64_t k = 0; k < half; ++k) sum[k] += sum[k + half];
    return guess_of(double(sum[0]), 1.0 / kPlaces);
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

/// What of a plane is added up: d and d * d; h; h and h * d; all of them.
enum class PlaneTerms { deviations, gradient, products, all };

template <PlaneTerms kTerms>
using PlaneTermsAre = std::integral_constant<PlaneTerms, kTerms>;

/// Calls fn(type) for how the gradient passes: SiLU, activations of two straight pieces, or none.
template <class Fn>
[[gnu::always_inline]] inline void with_pass_of(const MvnGradPlan& plan, const Fn& fn) {
  if (!reads_input(plan.activation.kind))
    fn.template operator()<Through>();
  else if (SwishPass::suits(plan.activation))
    fn.template operator()<PlaneSwishPass>();
  else
    fn.template operator()<Gate<float>>();
}

/// Adds up a plane of n elements, at least a vector of them: d = x - pivot and d * d as number
/// `shared`, h and h * d as number `own`, which begin with it if kBegins. Where h has passed SiLU
/// it stays in `kept`, if there is such a place.
template <PlaneTerms kTerms, bool kBegins, class Pass, class T>
[[gnu::always_inline]] inline void add_plane(const T* x, const T* grad, int64_t n, float pivot,
                                             const Pass& pass, float* kept,
                                             Floats (&sums)[4][kMostBatched], int64_t shared,
                                             int64_t own) {
  using enum PlaneTerms;
  constexpr bool kHasSquares = kTerms == all || kTerms == deviations,
                 kHasGrad = kTerms != deviations, kHasX = kTerms != gradient,
                 kIsSwish = std::is_same_v<Pass, PlaneSwishPass>;
  constexpr int kFirst = kHasSquares ? 0 : 2, kEnd = !kHasGrad ? 2 : kHasX ? 4 : 3;
  const Floats guess = all_lanes<float>(pivot);
  Floats sum[4] = {};
  for (int k = kFirst; k < kEnd; ++k)
    if (k < 2 || !kBegins) sum[k] = sums[k][k < 2 ? shared : own];
  const auto add = [&]<int kCount>(int64_t i, auto m, std::integral_constant<int, kCount>)
                       __attribute__((always_inline)) {
                         PlaneTerm<float> terms[kCount];
#pragma GCC unroll 2
                         for (int k = 0; k < kCount; ++k) {
                           if constexpr (kHasX)
                             terms[k].d = load_wide(x + i + k * kFloats, Whole{}) - guess;
                           if constexpr (kHasGrad)
                             terms[k].h = load_wide(grad + i + k * kFloats, Whole{});
                         }
                         if constexpr (!std::is_same_v<Pass, Through>) pass_terms(pass, terms);
                         if constexpr (kIsSwish) keep_terms(kept, i, terms);
#pragma GCC unroll 2
                         for (int k = 0; k < kCount; ++k) {
                           Floats d, h;
                           if constexpr (kHasX) d = counted<float>(terms[k].d, m);
                           if constexpr (kHasGrad) h = counted<float>(terms[k].h, m);
                           if constexpr (kHasSquares) {
                             sum[0] += d;
                             sum[1] = fused(d, d, sum[1]);
                           }
                           if constexpr (kHasGrad) sum[2] += h;
                           if constexpr (kHasGrad && kHasX) sum[3] = fused(h, d, sum[3]);
                         }
                       };
  constexpr std::integral_constant<int, 1> kOne;
  int64_t i = 0;
  if constexpr (kIsSwish)
    for (; i + 2 * kFloats <= n; i += 2 * kFloats)
      add(i, Whole{}, std::integral_constant<int, 2>{});
  for (; i + kFloats <= n; i += kFloats) add(i, Whole{}, kOne);
  if (i < n) add(n - kFloats, Last{n - i}, kOne);
  for (int k = kFirst; k < kEnd; ++k) sums[k][k < 2 ? shared : own] = sum[k];
}

/// What all vectors of a plane of dx are made with.
struct DxLanes {
  Floats pivot, slope, shift, factor;
};

/// dx = h * factor + ((x - pivot) * slope + shift) of a plane; what h is made of may be what was
/// kept in the place of dx. Elements of its last vector are written twice, with the same bits.
template <class Pass, class T, class G>
[[gnu::always_inline]] inline void write_dx(const T* x, const G* grad, T* dx, int64_t n,
                                            const DxLanes& f, const Pass& pass) {
  const auto result = [&](int64_t i) __attribute__((always_inline)) {
    PlaneTerm<float> term[1] = {
        {load_wide(x + i, Whole{}) - f.pivot, load_wide(grad + i, Whole{})}};
    pass_terms(pass, term);
    return fused(term[0].h, f.factor, fused(term[0].d, f.slope, f.shift));
  };
  const Floats last = result(n - kFloats);
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) store_narrow(dx + i, result(i), Whole{});
  if (i < n) store_narrow(dx + n - kFloats, last, Whole{});
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
