// Walking the dimensions of a normalization's gradient.
#pragma once

#include <algorithm>

#include "ops/mvn_grad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Where a position stands in each tensor, in elements.
struct GradOffsets {
  int64_t x = 0, grad = 0, dx = 0, scale = 0, bias = 0;
  int64_t mean = 0, variance = 0, count = 0, sums[2] = {}, totals[2] = {};

  void add(const MvnGradAxis& a, int64_t steps) {
    x += steps * a.x;
    grad += steps * a.grad;
    dx += steps * a.dx;
    scale += steps * a.scale;
    bias += steps * a.bias;
    mean += steps * a.mean;
    variance += steps * a.variance;
    count += steps * a.count;
    for (int k = 0; k < 2; ++k) {
      sums[k] += steps * a.sums[k];
      totals[k] += steps * a.totals[k];
    }
  }
  void add(const GradOffsets& o) {
    x += o.x;
    grad += o.grad;
    dx += o.dx;
    scale += o.scale;
    bias += o.bias;
    for (int k = 0; k < 2; ++k) totals[k] += o.totals[k];
  }
};

/// Walks the positions of some dimensions in order, the last one fastest.
class GradWalk {
 public:
  GradWalk(const MvnGradAxis* axes, int rank, int64_t index, const GradOffsets& origin = {})
      : axes_(axes), rank_(rank), offsets_(origin) {
    for (int d = rank - 1; d >= 0; --d) {
      at_[d] = index % axes[d].size;
      index /= axes[d].size;
      offsets_.add(axes[d], at_[d]);
    }
  }

  const GradOffsets& offsets() const { return offsets_; }

  void advance() {
    for (int d = rank_ - 1; d >= 0; --d) {
      offsets_.add(axes_[d], 1);
      if (++at_[d] < axes_[d].size) return;
      offsets_.add(axes_[d], -at_[d]);
      at_[d] = 0;
    }
  }

 private:
  const MvnGradAxis* axes_;
  int rank_;
  int64_t at_[kMaxRank];
  GradOffsets offsets_;
};

/// Calls fn(offsets, position, length) for the stretches along the last dimension that make up
/// positions [first, first + n). `rank` is at least 1.
template <class Fn>
void for_grad_pieces(const MvnGradAxis* axes, int rank, const GradOffsets& origin, int64_t first,
                     int64_t n, const Fn& fn) {
  const MvnGradAxis& inner = axes[rank - 1];
  GradWalk walk(axes, rank - 1, first ? first / inner.size : 0, origin);
  int64_t skip = first ? first % inner.size : 0;
  for (int64_t done = 0; done < n;) {
    const int64_t length = std::min(inner.size - skip, n - done);
    GradOffsets offsets = walk.offsets();
    if (skip) offsets.add(inner, skip);
    fn(offsets, done, length);
    done += length;
    skip = 0;
    walk.advance();
  }
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
