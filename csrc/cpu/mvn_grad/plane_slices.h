// Slices of planes by the loops that suit them.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/walk.h"
#include "cpu/mvn_grad/plane_results.h"
#include "cpu/mvn_grad/plane_rows.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class PlaneSlices {
 public:
  using A = Acc<T>;
  using State = CellState<A>;
  using Slice = PlaneSlice<T>;

  PlaneSlices(const MvnGradPlan& plan, const Operands& o)
      : plan_(plan),
        x_(plan.reads_x() ? static_cast<const T*>(o.inputs[0]) : nullptr),
        grad_(static_cast<const T*>(o.inputs[1])),
        dx_(plan.wants_dx ? static_cast<T*>(o.outputs[0]) : nullptr),
        scale_(o.inputs[2], plan.scale_dtype, &kOne),
        bias_(plan.has_bias ? o.inputs[3] : nullptr, plan.bias_dtype, &kZero),
        inner_(plan.reduced_rank > 1 ? plan.reduced[plan.reduced_rank - 2] : MvnGradAxis{}),
        slope_(plan.activation.kind == ActivationKind::linear ? double(A(plan.activation.a)) : 1),
        has_scale_(plan.has_scale),
        has_bias_(plan.has_bias),
        reads_v_(reads_input(plan.activation.kind)),
        has_gate_(Gate<A>::suits(plan.activation)),
        is_swish_(std::is_same_v<A, float> && SwishPass::suits(plan.activation)),
        keeps_h_(plan.wants_dx && plan.has_own_sums() && keeps_slopes()),
        has_product_(takes_product(plan)),
        is_streamed_(is_norm_streamed(plan.compulsory_bytes() / 2)) {}

  /// That of a linear activation, or 1.
  double slope() const { return slope_; }

  /// Whether cells need a place of their own for what is kept of them.
  bool keeps_apart() const { return keeps_h_ && !kIsWide; }

  /// `kept` is that place, if they do.
  Slice operator()(const SliceOffsets& at, A* kept = nullptr) const {
    T* const dx = dx_ ? dx_ + at.dx : nullptr;
    if constexpr (kIsWide) kept = keeps_h_ ? dx : nullptr;
    return {x_ ? x_ + at.x : nullptr,
            grad_ + at.grad,
            dx,
            kept,
            at.n,
            at.planes,
            inner_.x,
            inner_.grad,
            inner_.dx,
            kIsWide ? inner_.dx : at.n,
            {at.x_ahead},
            {at.grad_ahead},
            {at.dx_ahead},
            double(scale_.at(has_scale_ ? at.scale : 0)) * slope_,
            double(bias_.at(has_bias_ ? at.bias : 0))};
  }

  /// h and h * z.
  void add_products(const Slice& s, const State& state, PlaneBuffers<A>& rows,
                    SliceSums& result) const {
    result.scale = s.scale;
    result.hz = 0;
    if (!s.x) {
      result.h = sum_of_gradient(s);
      return;
    }
    const Normalizer<A>& normal = state.normal;
    if (is_joinable(normal.factor) && with_pass(s, state, [&](const auto& pass) {
          cpu::CUDML_ISA::add_products(s, normal.pivot, pass, result);
        })) {
      result.hz = double(normal.factor) * fused(-double(normal.delta), result.h, result.hz);
      if (is_finite(result.hz)) return;
    }
    add_by_rows(s, state, rows, result);
  }

  /// Writes dx; `formula` is the cell's.
  void write(const Slice& s, const State& state, JoinedDx<A>& formula,
             PlaneBuffers<A>& rows) const {
    const bool is_sound = formula.take(s.scale);
    if (is_sound && keeps_h_) return write_kept(s, formula);
    if (is_sound && with_pass(s, state, [&](const auto& pass) {
          write_as(s, &Slice::grad, is_streamed_, formula, pass);
        }))
      return;
    for_planes(s, [&](const Slice& plane) {
      PlaneRows<T>(plan_.activation, plane, state).write(rows, has_product_);
    });
  }

 private:
  /// Calls fn(plane) for each of a slice.
  template <class Fn>
  [[gnu::always_inline]] static void for_planes(const Slice& slice, const Fn& fn) {
    Slice plane = slice;
    plane.planes = 1;
    for (int64_t left = slice.planes;;) {
      fn(std::as_const(plane));
      if (--left == 0) return;
      plane.advance();
    }
  }

  void add_by_rows(const Slice& s, const State& state, PlaneBuffers<A>& rows,
                   SliceSums& result) const {
    result.h = result.hz = 0;
    for_planes(s, [&](const Slice& plane) {
      SliceSums one;
      PlaneRows<T>(plan_.activation, plane, state).add_products(rows, one, plane.kept);
      result.h += one.h;
      result.hz += one.hz;
    });
  }

  static constexpr A kOne = 1, kZero = 0;

  static constexpr bool kIsWide = std::is_same_v<T, A>;
  /// Slopes cost more than the caches that hold what is kept; those of halves take memory of their
  /// own. Memory costs less than slopes by narrow vectors, or of which none is quick.
  bool keeps_slopes() const {
    if (!reads_v_ || has_gate_) return false;
    if (plan_.cell_size <= tuning::mvn_grad::kMostKept) return true;
    return kIsWide && (kVectorBytes < 64 || !is_swish_);
  }

  /// `grad` is the member that has what is passed.
  template <class G, class Pass>
  [[gnu::always_inline]] void write_as(const Slice& s, G Slice::* grad, bool is_streamed,
                                       const JoinedDx<A>& formula, const Pass& pass) const {
    for_planes(s, [&](const Slice& plane) {
      if (has_product_)
        write_plane<true>(plane, plane.*grad, is_streamed, formula, pass);
      else
        write_plane<false>(plane, plane.*grad, is_streamed, formula, pass);
    });
  }

  /// What is kept in the place of results has been fetched already.
  [[gnu::noinline]] void write_kept(const Slice& s, const JoinedDx<A>& formula) const {
    write_as(s, &Slice::kept, !kIsWide && is_streamed_, formula, Through{});
  }

  /// Calls fn(how the gradient passes), and returns whether there is such a way.
  template <class Fn>
  [[gnu::always_inline]] bool with_pass(const Slice& s, const State& state, const Fn& fn) const {
    if (!reads_v_) {
      fn(Through{});
      return true;
    }
    const PassFactors<A> factors(state.normal, s.scale, s.bias, is_swish_ ? plan_.activation.a : 1);
    if (!(has_gate_ || is_swish_) || !factors.are_kept) return false;
    if constexpr (std::is_same_v<A, float>)
      if (is_swish_) {
        fn(PlaneSwishPass(factors.of_d, factors.rest));
        return true;
      }
    fn(Gate<A>(plan_.activation, factors.of_d, factors.rest));
    return true;
  }

  const MvnGradPlan& plan_;
  const T *x_, *grad_;
  T* dx_;
  Parameter<T> scale_, bias_;
  MvnGradAxis inner_;  // from plane to plane of a slice
  double slope_;
  bool has_scale_, has_bias_, reads_v_, has_gate_, is_swish_;
  bool keeps_h_;  // from sums to results: floats in dx
  bool has_product_, is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
