// Gradient of max pooling on the CPU: by rows or blocks of windows that find their winners, or by a
// scatter from winners that the forward search has written.
#include "cpu/isa/families.h"
#include "cpu/pool/parts.h"
#include "cpu/pool_grad/blocks.h"
#include "cpu/pool_grad/max_rows.h"
#include "cpu/threads/arena.h"
#include "cpu/winners/keys.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Sums of the elements that a task owns; they stay in the first caches.
constexpr int64_t kSums = 8192;
constexpr int64_t kScatterLanes = 16;
constexpr int64_t kWindows = 1 << 16;  // of a row that are gone through at a time

/// How a plane of x is cut into ranges of neighbouring elements: a unit of the plane (all of it,
/// one slice, one row) holds `per_unit` ranges of `length` elements, the last one shorter.
struct Ranges {
  int64_t unit, length, per_unit, count;
};

Ranges cut_plane(const PoolPlan& f, int64_t room) {
  const int64_t row = f.axis[2].in, slice = row * f.axis[1].in, plane = slice * f.axis[0].in;
  Ranges r{plane, plane, 1, 1};
  if (plane > room) {
    r.unit = slice <= room ? plane : row <= room ? slice : row;
    r.length = slice <= room ? room / slice * slice : row <= room ? room / row * row : room;
  }
  r.per_unit = (r.unit + r.length - 1) / r.length;
  r.count = plane / r.unit * r.per_unit;
  return r;
}

template <class T, class Sum, class Index>
class MaxScatter {
 public:
  MaxScatter(const PoolGradPlan& plan, const void* grad, void* result, const void* winners)
      : plan_(plan),
        f_(plan.forward),
        lanes_(has_lanes(plan)),
        space_(plane_tasks(plan, lanes_, kScatterLanes)),
        ranges_(cut_plane(plan.forward, lanes_ ? kSums / kScatterLanes : kSums)),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        winners_(static_cast<const Index*>(winners)) {
    space_.dim[kSpaceDim].size = ranges_.count;
  }

  void run() const {
    parallel_for(space_.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      for_tasks(space_, begin, end, [&](const Task& task, int64_t) { scatter(task); });
    });
  }

 private:
  void scatter(const Task& task) const {
    const int64_t range = task.space(0), unit = range / ranges_.per_unit * ranges_.unit;
    const int64_t first = unit + range % ranges_.per_unit * ranges_.length;
    const int64_t length = std::min(ranges_.length, unit + ranges_.unit - first);
    const Room<Elements<Sum, kSums>> room;
    Sum* const sums = room->at;
    const int64_t n = lanes_ ? task.n : 1;
    for (int64_t i = 0; i < length * n; ++i) sums[i] = 0;
    Pace pace;
    Reach reach[3];
    reaches(first, first + length - 1, reach);
    for (int64_t a = reach[0].first; a <= reach[0].last; ++a)
      for (int64_t b = reach[1].first; b <= reach[1].last; ++b) {
        const T* grad = grad_ + task.y + a * f_.y.space[0] + b * f_.y.space[1];
        const Index* winners =
            winners_ + task.indices + a * f_.indices.space[0] + b * f_.indices.space[1];
        for (int64_t c = reach[2].first; c <= reach[2].last; c += kWindows) {
          const Reach some{c, std::min(reach[2].last, c + kWindows - 1)};
          pace.add((some.last - c + 1) * n);
          if (lanes_)
            add_lanes(grad, winners, some, uint64_t(first), uint64_t(length), n, sums);
          else
            add_row(grad, winners, some, uint64_t(first), uint64_t(length), sums);
        }
      }
    store(task, first, length, sums);
  }

  /// The windows that can have winners among elements [first, last] of the plane.
  void reaches(int64_t first, int64_t last, Reach* reach) const {
    const int64_t row = f_.axis[2].in, slice = row * f_.axis[1].in;
    const int64_t low[3] = {first / slice, first / row, first};
    const int64_t high[3] = {last / slice, last / row, last};
    for (int i = 0; i < 3; ++i) {
      const PoolAxis& a = f_.axis[i];
      const bool all = i > 0 && low[i - 1] != high[i - 1];
      reach[i] = all ? reach_of(a, 0, a.in - 1) : reach_of(a, low[i] % a.in, high[i] % a.in);
    }
  }

  void add_row(const T* grad, const Index* winners, Reach reach, uint64_t first, uint64_t length,
               Sum* sums) const {
    const int64_t step = f_.y.space[2], index_step = f_.indices.space[2];
    for (int64_t c = reach.first; c <= reach.last; ++c) {
      const uint64_t at = uint64_t(winners[c * index_step]) - first;
      if (at < length) sums[at] += Sum(load_as_acc(grad[c * step]));
    }
  }

  void add_lanes(const T* grad, const Index* winners, Reach reach, uint64_t first, uint64_t length,
                 int64_t n, Sum* sums) const {
    for (int64_t c = reach.first; c <= reach.last; ++c) {
      const T* g = grad + c * f_.y.space[2];
      const Index* w = winners + c * f_.indices.space[2];
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t at = uint64_t(w[i * f_.indices.batch[1]]) - first;
        if (at < length) sums[int64_t(at) * n + i] += Sum(load_as_acc(g[i * f_.y.batch[1]]));
      }
    }
  }

  void store(const Task& task, int64_t first, int64_t length, const Sum* sums) const {
    const int64_t row = f_.axis[2].in, rows = f_.axis[1].in;
    const int64_t n = lanes_ ? task.n : 1;
    const PoolStrides& r = plan_.result;
    for (int64_t p = first; p < first + length;) {
      const int64_t c = p % row, b = p / row % rows, a = p / row / rows;
      const int64_t run = std::min(row - c, first + length - p);
      T* dst = result_ + task.x + a * r.space[0] + b * r.space[1] + c * r.space[2];
      const Sum* src = sums + (p - first) * n;
      if (!lanes_) store_sums<T>(dst, r.space[2], src, run);
      for (int64_t i = 0; lanes_ && i < run; ++i)
        store_sums<T>(dst + i * r.space[2], 1, src + i * n, n);
      p += run;
    }
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  bool lanes_;
  TaskSpace space_;
  Ranges ranges_;
  const T* grad_;
  T* result_;
  const Index* winners_;
};

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
                   c, span, task.n);
          load_keys(x + z * f_.x.space[0] + y * f_.x.space[1] + c * f_.x.space[2], line, span,
                    task.n);
        });
    search(cells, scratch);
    this->fill_windows(cells, scratch.grads, [&](Sum* line, Span span, int64_t a, int64_t b) {
      this->load_windows(task, cells, span, a, b, line,
                         [](Sum* to, const T* src, int64_t step, int64_t n, int64_t) {
                           Base::load_sums(to, src, step, n);
                         });
    });
    const Sum* phase[BlockShape::kMostPhases];
    for (int p = 0; p < shape_.phases; ++p) {
      Sum* const sums = scratch.sums + p * shape_.phase_size;
      collect(p, cells, scratch, sums);
      phase[p] = sums;
    }
    this->emit(task, cells, phase, out);
  }

  /// Rows of the next block, which follow in memory.
  void prefetch(const T* x, int64_t c, Span span, int64_t lanes) const {
    if (c != 0) return;  // once for all phases
    const int64_t n = (span.to - span.from) * f_.axis[2].stride;
    const char* src = reinterpret_cast<const char*>(x);
    if (!shape_.side_by_side) {
      if (f_.x.space[2] != 1) return;
      for (int64_t i = 0; i < n * int64_t(sizeof(T)); i += 64) __builtin_prefetch(src + i, 0, 2);
      return;
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < lanes * int64_t(sizeof(T)); j += 64)
        __builtin_prefetch(src + i * f_.x.space[2] * int64_t(sizeof(T)) + j, 0, 2);
  }

  void load_keys(const T* x, K* line, Span span, int64_t lanes) const {
    const int64_t step = f_.x.space[2] * f_.axis[2].stride, n = span.to - span.from;
    if (!shape_.side_by_side) {
      return load_run(line + span.from, x, step, n);
    }
    for (int64_t i = 0; i < n; ++i)
      load_run(line + (span.from + i) * shape_.lanes, x + i * step, f_.x.batch[1], lanes);
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

template <class T, class Sum>
void scatter_max(const PoolGradPlan& plan, const void* grad, void* result, const void* winners) {
  if (plan.forward.index_dtype == Dtype::uint32)
    MaxScatter<T, Sum, uint32_t>(plan, grad, result, winners).run();
  else
    MaxScatter<T, Sum, uint64_t>(plan, grad, result, winners).run();
}

}  // namespace

void max_pool_grad(const PoolGradPlan& plan, const void* x, const void* grad, void* result,
                   void* workspace) {
  if (plan.forward.outputs() == 0) return;
  if (RowShape::fits(plan))
    return visit(plan.forward.dtype, RowTypes{},
                 [&]<class T>() { run_rows<T>(plan, x, grad, result); });
  if (BlockShape::fits(plan))
    return visit(plan.forward.dtype, FloatTypes{},
                 [&]<class T>() { MaxBlocks<T>(BlockShape(plan), x, grad, result).run(); });
  max_winners(plan.forward, x, nullptr, workspace);
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if (std::is_same_v<T, double> || most_covers(plan.forward) > kLongestChain)
      scatter_max<T, double>(plan, grad, result, workspace);
    else
      scatter_max<T, Acc<T>>(plan, grad, result, workspace);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
