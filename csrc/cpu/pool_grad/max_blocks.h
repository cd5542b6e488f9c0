// Gradient of max pooling by blocks of windows, which find their winners as they go.
#pragma once

#include "cpu/isa/paths.h"
#include "cpu/pool_grad/blocks.h"
#include "cpu/winners/keys.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Offers kTaps taps, numbered from `number` on, to n windows; the first of the largest wins.
template <int kTaps, class K>
void offer_taps(const K* const* lines, K number, K* __restrict best, K* __restrict tap, int64_t n) {
  const K* line[kTaps];
  for (int k = 0; k < kTaps; ++k) line[k] = lines[k];
  for (int64_t i = 0; i < n; ++i) {
    K key = best[i], winner = tap[i];
    for (int k = 0; k < kTaps; ++k) {
      const K other = line[k][i];
      const bool take = other > key;
      key = take ? other : key;
      winner = take ? K(number + k) : winner;
    }
    best[i] = key;
    tap[i] = winner;
  }
}

template <class K>
int offer_some(const K* const* lines, int64_t count, K number, K* best, K* tap, int64_t n) {
  if (count >= 9) return offer_taps<9>(lines, number, best, tap, n), 9;
  if (count >= 4) return offer_taps<4>(lines, number, best, tap, n), 4;
  return offer_taps<1>(lines, number, best, tap, n), 1;
}

/// What kTaps windows that cover an element hand to it: the gradients of those whose winner it is.
template <int kTaps, bool kFirst, class K, class Sum>
void collect_taps(const K* taps, const Sum* grads, const int64_t* offsets, const K* numbers,
                  Sum* __restrict dst, int64_t n) {
  const K* tap[kTaps];
  const Sum* grad[kTaps];
  K number[kTaps];
  for (int k = 0; k < kTaps; ++k) {
    tap[k] = taps - offsets[k];
    grad[k] = grads - offsets[k];
    number[k] = numbers[k];
  }
  for (int64_t i = 0; i < n; ++i) {
    Sum sum = kFirst ? Sum{0} : dst[i];
    for (int k = 0; k < kTaps; ++k) {
      const Sum value = grad[k][i];
      sum += tap[k][i] == number[k] ? value : Sum{0};
    }
    dst[i] = sum;
  }
}

template <bool kFirst, class K, class Sum>
int collect_some(const K* taps, const Sum* grads, const int64_t* offsets, const K* numbers,
                 int count, Sum* dst, int64_t n) {
  if (count >= 4) return collect_taps<4, kFirst>(taps, grads, offsets, numbers, dst, n), 4;
  if (count >= 2) return collect_taps<2, kFirst>(taps, grads, offsets, numbers, dst, n), 2;
  return collect_taps<1, kFirst>(taps, grads, offsets, numbers, dst, n), 1;
}

/// Blocks of cells: the winner of every window that reaches into the block, then for every element
/// the windows that it won.
template <class T>
class MaxBlocks : BlockIo<T, Acc<T>> {
  using Sum = Acc<T>;
  using K = Key<T>;
  using Base = BlockIo<T, Sum>;
  using Base::f_, Base::shape_;
  using typename Base::Cells;
  static constexpr K kNone = std::numeric_limits<K>::min();  // below every key

 public:
  MaxBlocks(const BlockShape& shape, const void* x, const void* grad, void* result)
      : Base(shape, static_cast<const T*>(grad), static_cast<T*>(result)),
        x_(static_cast<const T*>(x)) {}

  void run() const {
    const TaskSpace space = shape_.tasks();
    parallel_for(space.count(), shape_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Scratch scratch(shape_);
      LineStream out;
      for_tasks(space, begin, end,
                [&](const Task& task, int64_t) { block(task, x_ + task.flat, scratch, out); });
    });
  }

 private:
  struct Scratch {
    std::unique_ptr<Sum[]> sum_room;
    std::unique_ptr<K[]> key_room;
    Sum *grads, *sums;
    K *keys, *best, *tap;

    explicit Scratch(const BlockShape& s)
        : sum_room(new Sum[size_t((1 + s.phases) * s.phase_size)]()),
          key_room(new K[size_t((2 + s.phases) * s.phase_size)]()),
          grads(sum_room.get()),
          sums(grads + s.phase_size),
          keys(key_room.get()),
          best(keys + s.phases * s.phase_size),
          tap(best + s.phase_size) {}
  };

  void block(const Task& task, const T* x, const Scratch& scratch, LineStream& out) const {
    const Cells cells(shape_, task);
    this->fill_elements(
        cells, scratch.keys, kNone, [&](K* line, Span span, int64_t z, int64_t y, int64_t c) {
          prefetch(x + z * f_.x.space[0] +
                       (y + cells.axis[1].count * f_.axis[1].stride) * f_.x.space[1] +
                       c * f_.x.space[2],
                   c, span);
          load_run(line + span.from, x + z * f_.x.space[0] + y * f_.x.space[1] + c * f_.x.space[2],
                   f_.x.space[2] * f_.axis[2].stride, span.to - span.from);
        });
    search(cells, scratch);
    this->fill_windows(cells, scratch.grads, [&](Sum* line, Span span, int64_t a, int64_t b) {
      Base::load_sums(line + span.from, this->grads_of(task, cells, span, a, b), f_.y.space[2],
                      span.to - span.from);
    });
    const Sum* phase[BlockShape::kMostPhases];
    for (int p = 0; p < shape_.phases; ++p) {
      Sum* const sums = scratch.sums + p * shape_.phase_size;
      collect(p, cells, scratch, sums);
      phase[p] = sums;
    }
    this->emit(task, cells, phase, out);
  }

  /// A row of the next block, which follows in memory; once for all phases.
  void prefetch(const T* x, int64_t c, Span span) const {
    if (c != 0 || f_.x.space[2] != 1) return;
    const int64_t n = (span.to - span.from) * f_.axis[2].stride;
    const char* src = reinterpret_cast<const char*>(x);
    for (int64_t i = 0; i < n * int64_t(sizeof(T)); i += 64) __builtin_prefetch(src + i, 0, 2);
  }

  [[gnu::noinline]] static void load_run(K* __restrict keys, const T* __restrict x, int64_t step,
                                         int64_t n) {
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) keys[i] = quick_key(x[i]);
    else if (step == 2)
      for (int64_t i = 0; i < n; ++i) keys[i] = quick_key(x[2 * i]);
    else
      for (int64_t i = 0; i < n; ++i) keys[i] = quick_key(x[i * step]);
  }

  /// key_of() by fewer instructions where a sum turns -0 into +0.
  static K quick_key(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      const T sum = value + T{0};
      const K key = fold(std::bit_cast<K>(sum));
      return sum != sum ? std::numeric_limits<K>::max() : key;
    } else {
      return key_of(value);
    }
  }

  [[gnu::noinline]] void search(const Cells& cells, const Scratch& scratch) const {
    const int64_t n = shape_.extent(cells.axis, true);
    std::fill_n(scratch.best, n, kNone);
    std::fill_n(scratch.tap, n, K{-1});
    const K* lines[BlockShape::kMostTaps];
    for (int64_t t = 0; t < shape_.taps; ++t)
      lines[t] = scratch.keys + shape_.tap[t].phase * shape_.phase_size + shape_.tap[t].offset;
    for (int64_t t = 0; t < shape_.taps;)
      t += offer_some(lines + t, shape_.taps - t, K(t), scratch.best, scratch.tap, n);
  }

  [[gnu::noinline]] void collect(int p, const Cells& cells, const Scratch& scratch,
                                 Sum* sums) const {
    int64_t offsets[BlockShape::kMostCovers];
    K numbers[BlockShape::kMostCovers];
    int count = 0;
    for (int64_t t = 0; t < shape_.taps; ++t)
      if (shape_.tap[t].phase == p) {
        offsets[count] = shape_.tap[t].offset;
        numbers[count++] = K(t);
      }
    const int64_t n = shape_.extent(cells.axis, false);
    if (count == 0) std::fill_n(sums, n, Sum{0});
    const K* taps = scratch.tap + this->origin();
    const Sum* grads = scratch.grads + this->origin();
    for (int k = 0; k < count;)
      k += k == 0 ? collect_some<true>(taps, grads, offsets, numbers, count, sums, n)
                  : collect_some<false>(taps, grads, offsets + k, numbers + k, count - k, sums, n);
  }

  const T* x_;
};

}  // namespace

/// The gradient by blocks, with flags of its own.
void max_blocks(const PoolGradPlan& plan, const Arrays& a);

}  // namespace cudml::cpu::CUDML_ISA
