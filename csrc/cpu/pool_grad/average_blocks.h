// Gradient of average pooling by blocks of windows.
#pragma once

#include "cpu/pool_grad/blocks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// dst[i] = the sum of line[k][i] over kLines lines, and of dst[i] itself unless they are the
/// first.
template <int kLines, bool kFirst, class Sum>
void add_lines(const Sum* const* lines, Sum* __restrict dst, int64_t n) {
  const Sum* line[kLines];
  for (int k = 0; k < kLines; ++k) line[k] = lines[k];
  for (int64_t i = 0; i < n; ++i) {
    Sum sum = kFirst ? line[0][i] : dst[i] + line[0][i];
    for (int k = 1; k < kLines; ++k) sum += line[k][i];
    dst[i] = sum;
  }
}

template <bool kFirst, class Sum>
int add_some(const Sum* const* lines, int count, Sum* dst, int64_t n) {
  if (count >= 9) return add_lines<9, kFirst>(lines, dst, n), 9;
  if (count >= 4) return add_lines<4, kFirst>(lines, dst, n), 4;
  if (count >= 2) return add_lines<2, kFirst>(lines, dst, n), 2;
  return add_lines<1, kFirst>(lines, dst, n), 1;
}

/// Blocks of cells: gradients are divided once, line by line, then summed phase by phase.
template <class T>
class AverageBlocks : BlockIo<T, Acc<T>> {
  using Sum = Acc<T>;
  using Base = BlockIo<T, Sum>;
  using Base::f_, Base::shape_;
  using typename Base::Cells;

 public:
  AverageBlocks(const BlockShape& shape, const void* grad, void* result)
      : Base(shape, static_cast<const T*>(grad), static_cast<T*>(result)) {}

  void run() const {
    const TaskSpace space = shape_.tasks();
    parallel_for(space.count(), shape_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Scratch scratch(shape_);
      LineStream out;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { block(task, scratch, out); });
    });
  }

 private:
  struct Scratch {
    std::unique_ptr<Sum[]> room;
    Sum *counts, *factors, *shares, *sums;

    explicit Scratch(const BlockShape& s)
        : room(new Sum[size_t(2 * s.axis[2].size() + (1 + s.phases) * s.phase_size)]()),
          counts(room.get()),
          factors(counts + s.axis[2].size()),
          shares(factors + s.axis[2].size()),
          sums(shares + s.phase_size) {}
  };

  void block(const Task& task, const Scratch& scratch, LineStream& out) const {
    const Cells cells(shape_, task);
    const Span columns = cells.axis[2].windows();
    for (int64_t i = columns.from; i < columns.to; ++i)
      scratch.counts[i] = Sum(counted_at(f_, 2, cells.axis[2].window(i)));
    Sum last = 0;
    this->fill_windows(cells, scratch.shares, [&](Sum* line, Span span, int64_t a, int64_t b) {
      const Sum count = Sum(counted_at(f_, 0, a) * counted_at(f_, 1, b));
      if (count != last) set_factors(span, last = count, scratch);
      share(scratch, line, this->grads_of(task, cells, span, a, b), span);
    });
    const Sum* phase[BlockShape::kMostPhases];
    for (int p = 0; p < shape_.phases; ++p)
      phase[p] = sum_phase(p, cells, scratch.shares, scratch.sums + p * shape_.phase_size);
    this->emit(task, cells, phase, out);
  }

  /// A gradient that goes to one window's elements alone is divided. Where windows overlap it is
  /// multiplied by the reciprocal, which is as good once there is a sum to round. A divisor is 0
  /// where a window has no counted tap, and nothing reads its share.
  void set_factors(Span span, Sum count, const Scratch& scratch) const {
    for (int64_t i = span.from; i < span.to; ++i) {
      const Sum divisor = count * scratch.counts[i];
      scratch.factors[i] = shape_.covers == 1 ? divisor : 1 / divisor;
    }
  }

  void share(const Scratch& scratch, Sum* line, const T* src, Span span) const {
    const int64_t n = span.to - span.from;
    const Sum* const factors = scratch.factors + span.from;
    line += span.from;
    this->load_sums(line, src, f_.y.space[2], n);
    if (shape_.covers == 1) {
      for (int64_t i = 0; i < n; ++i) line[i] /= factors[i];
    } else {
      for (int64_t i = 0; i < n; ++i) line[i] *= factors[i];
    }
  }

  /// The sums of one phase; where an element has one window at most, they stand there already.
  const Sum* sum_phase(int p, const Cells& cells, const Sum* shares, Sum* sums) const {
    const Sum* lines[BlockShape::kMostCovers];
    int count = 0;
    for (int64_t t = 0; t < shape_.taps; ++t)
      if (shape_.tap[t].phase == p) lines[count++] = shares + this->origin() - shape_.tap[t].offset;
    if (count == 1) return lines[0];
    const int64_t n = shape_.extent(cells.axis, false);
    if (count == 0) std::fill_n(sums, n, Sum{0});
    for (int k = 0; k < count;)
      k += k == 0 ? add_some<true>(lines, count, sums, n)
                  : add_some<false>(lines + k, count - k, sums, n);
    return sums;
  }
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
