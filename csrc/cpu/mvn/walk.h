// Pieces that the normalization kernels share: walking dimensions, scale and bias, one row's
// formula.
#pragma once

#include <algorithm>

#include "cpu/memory/strided_walk.h"
#include "cpu/mvn/activation.h"
#include "cpu/simd/convert.h"
#include "math/moments.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where a position stands in each tensor, in elements.
struct Offsets {
  int64_t x = 0, y = 0, scale = 0, bias = 0;

  void add(const MvnAxis& a, int64_t steps) {
    x += steps * a.x;
    y += steps * a.y;
    scale += steps * a.scale;
    bias += steps * a.bias;
  }
};

using Walk = AxisWalk<MvnAxis, Offsets>;

/// x's own view of a group: its dimensions joined without regard to the other tensors.
inline int join_for_x(const MvnAxis* axes, int rank, MvnAxis* joined) {
  int joined_rank = 0;
  for (int d = 0; d < rank; ++d) {
    MvnAxis axis = axes[d];
    while (joined_rank > 0 && joined[joined_rank - 1].x == axis.x * axis.size)
      axis.size *= joined[--joined_rank].size;
    joined[joined_rank++] = axis;
  }
  return joined_rank;
}

/// Scale or bias: stored as T or as what T is computed in. An absent one is a single broadcast
/// value.
template <class T>
struct Parameter {
  const void* data;
  bool is_wide;

  Parameter(const void* given, Dtype dtype, const Acc<T>* absent)
      : data(given ? given : absent), is_wide(!given || dtype == dtype_of<Acc<T>>) {}

  Acc<T> at(int64_t offset) const {
    return is_wide ? static_cast<const Acc<T>*>(data)[offset]
                   : load_as_acc(static_cast<const T*>(data)[offset]);
  }

  /// n values as a packed row in `buffer`.
  const Acc<T>* copy(int64_t offset, int64_t stride, int64_t n, Acc<T>* buffer) const {
    if (is_wide)
      load_row<Acc<T>>(buffer, static_cast<const Acc<T>*>(data) + offset, stride, n);
    else
      load_row<T>(buffer, static_cast<const T*>(data) + offset, stride, n);
    return buffer;
  }

  /// The same, in place where the values are such a row already.
  const Acc<T>* row(int64_t offset, int64_t stride, int64_t n, Acc<T>* buffer) const {
    if (is_wide && stride == 1) return static_cast<const Acc<T>*>(data) + offset;
    return copy(offset, stride, n, buffer);
  }
};

/// A factor or summand of a row: a row itself, or one value for all of it.
template <class A>
struct Operand {
  const A* row = nullptr;
  A value = 0;
};

/// The operand that begins at `offset`, with what it needs to be packed in `buffer`.
template <class T>
Operand<Acc<T>> operand_of(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t n,
                           Acc<T>* buffer) {
  if (stride == 0) return {nullptr, p.at(offset)};
  return {p.row(offset, stride, n, buffer), 0};
}

/// y = scale * normalized x + bias, before rounding to the stored type. y may be x.
template <class A, class Normalize>
void normalize_row(A* y, const A* x, int64_t n, const Normalize& normalized, Operand<A> scale,
                   Operand<A> bias) {
  const A s = scale.value, b = bias.value;
  if (scale.row && bias.row) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = fused(normalized(x[i], i), scale.row[i], bias.row[i]);
  } else if (scale.row) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = fused(normalized(x[i], i), scale.row[i], b);
  } else if (bias.row) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = fused(normalized(x[i], i), s, bias.row[i]);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = fused(normalized(x[i], i), s, b);
  }
}

/// Writes a row to y: computed there where y holds packed values of the computing type, else in
/// `buffer` first.
template <class T, class Normalize>
void write_row(const Activation& f, T* y, int64_t y_stride, const Acc<T>* x, int64_t n,
               const Normalize& normalized, Operand<Acc<T>> scale, Operand<Acc<T>> bias,
               Acc<T>* buffer) {
  Acc<T>* out = buffer;
  if constexpr (std::is_same_v<T, Acc<T>>)
    if (y_stride == 1) out = y;
  normalize_row(out, x, n, normalized, scale, bias);
  if (f.kind != ActivationKind::identity) activate_row(f, out, n);
  if (out == buffer) store_row<T>(y, y_stride, buffer, n);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
