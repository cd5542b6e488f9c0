// Max pooling with indices on the CPU: the first of the largest taps, in visiting order.
#include "cpu/pool_keys.h"
#include "cpu/pool_parts.h"
#include "cpu/pool_pieces.h"
#include "cpu/pool_reduce.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The best tap so far: its key and its number among the real taps of the window.
struct Winner {
  int64_t key, tap;
};

inline Winner first_winner(Winner a, Winner b) { return b.key > a.key ? b : a; }

/// Offers one tap to n windows; those that have none yet have tap number -1.
template <class K>
void offer(const K* __restrict line, int64_t stride, K number, K* __restrict best,
           K* __restrict tap, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const K key = line[i * stride];
    const bool take = (tap[i] < 0) | (key > best[i]);
    best[i] = take ? key : best[i];
    tap[i] = take ? number : tap[i];
  }
}

/// Offers kWindow neighbouring taps, numbered from `number` on, to n windows kStride apart.
template <int kWindow, int kStride, class K>
void offer_fixed(const K* __restrict line, K number, K* __restrict best, K* __restrict tap,
                 int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool none = tap[i] < 0;
    K key = none ? line[i * kStride] : best[i];
    K winner = none ? number : tap[i];
    for (int k = 0; k < kWindow; ++k) {
      const K other = line[i * kStride + k];
      const bool take = other > key;
      key = take ? other : key;
      winner = take ? K(number + k) : winner;
    }
    best[i] = key;
    tap[i] = winner;
  }
}

/// Offers all taps of one row of whole windows.
template <class K>
void offer_row(const K* line, const PoolAxis& w, K number, K* best, K* tap, int64_t n) {
  const int64_t kind = w.dilation == 1 && w.stride <= 2 ? w.window * 10 + w.stride : 0;
  if (kind == 21) return offer_fixed<2, 1>(line, number, best, tap, n);
  if (kind == 22) return offer_fixed<2, 2>(line, number, best, tap, n);
  if (kind == 31) return offer_fixed<3, 1>(line, number, best, tap, n);
  if (kind == 32) return offer_fixed<3, 2>(line, number, best, tap, n);
  for (int64_t k = 0; k < w.window; ++k) {
    const K* shifted = line + k * w.dilation;
    if (w.stride == 1)
      offer(shifted, 1, K(number + k), best, tap, n);
    else
      offer(shifted, w.stride, K(number + k), best, tap, n);
  }
}

template <class T>
struct WinnerPool {
  using K = Key<T>;
  const PoolPlan& plan;
  const T* x;
  T* y;  // null where only indices are wanted
  void* indices;

  void put_index(int64_t at, int64_t index) const {
    if (plan.index_dtype == Dtype::uint32)
      static_cast<uint32_t*>(indices)[at] = uint32_t(index);
    else
      static_cast<int64_t*>(indices)[at] = index;
  }
  /// Writes the tap that won the window at y_at, index_at; x_at and flat_at belong to its plane.
  void put_tap(const Box& box, int64_t tap, const Task& at) const {
    if (box.taps == 0) {  // D-MAX-4
      if (y) y[at.y] = store_as<T>(max_of_none<T>());
      return put_index(at.indices, -1);
    }
    const int64_t c = tap % box.count[2], b = tap / box.count[2] % box.count[1];
    const int64_t a = tap / box.count[2] / box.count[1];
    if (y) y[at.y] = x[at.x + box.x_at(a, b, c)];
    put_index(at.indices, at.flat + box.flat + a * box.flat_step[0] + b * box.flat_step[1] +
                              c * box.flat_step[2]);
  }
};

/// One window at a time; takes any plan. A run of taps is searched for its winner only where its
/// maximum says that there is one.
template <class T>
class WindowWinners : WinnerPool<T> {
  using Base = WinnerPool<T>;
  using Base::plan, Base::put_tap, Base::x;
  using typename Base::K;

  struct Larger {
    static K join(K a, K b) { return max_of(a, b); }
  };

 public:
  using Total = Winner;
  static constexpr Lane kLane = Lane::none;
  static constexpr int64_t kChunk = 1;
  explicit WindowWinners(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return first_winner(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total total{};
    if (box.taps > 0) piece(task, box, 0, box.taps, &total);
    store(task, box, &total);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* total) const {
    K keys[kLine];
    TapCursor at(box, f);
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kLine, end - f, at.left_in_row()});
      key_row(keys, x + task.x + at.offset(), box.x_step[2], n);
      const K best = join_run<Larger>(keys, n);
      if (first || best > total->key) {
        int64_t i = 0;
        while (keys[i] != best) ++i;
        *total = {best, f + i};
      }
      at.advance(n);
      f += n;
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    put_tap(box, total->tap, task);
  }
};

/// One row of outputs: every tap of the windows is offered to the whole row, in visiting order.
template <class T>
class RowWinners : WinnerPool<T> {
  using Base = WinnerPool<T>;
  using Base::plan, Base::x, Base::y;
  using typename Base::K;

 public:
  explicit RowWinners(const Base& base) : Base(base) {}

  static bool suits(const PoolPlan& p) { return fits_rows(p) && most_taps(p, 2) <= kChain; }

  void operator()(const Task& task) const {
    const Interior in = interior_of(plan.axis[2], task);
    const int64_t end = task.first + task.n;
    const Box rows = box_of(plan, task, 2);
    for (int64_t o = task.first; o < in.from; ++o) single(task, o);
    if (in.from < in.to && rows.taps > 0) inner(task, rows, in);
    for (int64_t o = rows.taps > 0 ? in.to : in.from; o < end; ++o) single(task, o);
  }

 private:
  /// A window of which some taps may not be real.
  void single(const Task& task, int64_t o) const {
    Task at = task;
    at.at[kSpaceDim + 2] = o;
    at.y += (o - task.first) * plan.y.space[2];
    at.indices += (o - task.first) * plan.indices.space[2];
    WindowWinners<T>(*this).whole(at);
  }

  void inner(const Task& task, const Box& rows, Interior in) const {
    const PoolAxis& w = plan.axis[2];
    const int64_t n = in.to - in.from, low = in.from * w.stride - w.start;
    const int64_t reach = (n - 1) * w.stride + (w.window - 1) * w.dilation + 1;
    K best[kLine], tap[kLine], keys[kLine];
    for (int64_t i = 0; i < n; ++i) best[i] = 0;
    for (int64_t i = 0; i < n; ++i) tap[i] = -1;
    TapCursor at(rows, 0);
    for (int64_t r = 0; r < rows.taps; ++r, at.advance(1)) {
      key_row(keys, x + task.x + at.offset() + low * plan.x.space[2], plan.x.space[2], reach);
      offer_row(keys, w, K(r * w.window), best, tap, n);
    }
    write(task, rows, in, tap);
  }

  void write(const Task& task, const Box& rows, Interior in, const K* tap) const {
    if (plan.index_dtype == Dtype::uint32)
      write_as<uint32_t>(task, rows, in, tap);
    else
      write_as<int64_t>(task, rows, in, tap);
  }

  /// Offsets of the first taps are looked up, of others computed.
  template <class Index>
  void write_as(const Task& task, const Box& rows, Interior in, const K* tap) const {
    const PoolAxis& w = plan.axis[2];
    const int64_t n = in.to - in.from, done = in.from - task.first;
    const int64_t column = in.from * w.stride - w.start;
    const int64_t x_step = w.stride * plan.x.space[2], flat_step = w.stride * plan.flat.space[2];
    const int64_t flat = task.flat + column * plan.flat.space[2];
    const T* src = x + task.x + column * plan.x.space[2];
    T* dst = y ? y + task.y + done * plan.y.space[2] : nullptr;
    Index* index = static_cast<Index*>(this->indices) + task.indices + done * plan.indices.space[2];
    constexpr int64_t kTable = 64;
    const int64_t taps = rows.taps * w.window;
    int64_t x_of[kTable], flat_of[kTable];
    for (int64_t t = 0; t < std::min(taps, kTable); ++t) offsets(rows, t, x_of[t], flat_of[t]);
    for (int64_t i = 0; i < n; ++i) {
      int64_t x_at, flat_at;
      if (taps <= kTable) {
        x_at = x_of[tap[i]];
        flat_at = flat_of[tap[i]];
      } else {
        offsets(rows, tap[i], x_at, flat_at);
      }
      if (dst) dst[i * plan.y.space[2]] = src[i * x_step + x_at];
      index[i * plan.indices.space[2]] = Index(flat + i * flat_step + flat_at);
    }
  }

  /// Where tap t of a window stands, counted from column 0 of its first tap.
  void offsets(const Box& rows, int64_t t, int64_t& x_at, int64_t& flat_at) const {
    const PoolAxis& w = plan.axis[2];
    const uint32_t row = uint32_t(t) / uint32_t(w.window);
    const int64_t k = uint32_t(t) - row * uint32_t(w.window);
    const int64_t a = row / uint32_t(rows.count[1]), b = row % uint32_t(rows.count[1]);
    x_at = rows.x_at(a, b, 0) + k * w.dilation * plan.x.space[2];
    flat_at = rows.flat + a * rows.flat_step[0] + b * rows.flat_step[1] +
              k * w.dilation * plan.flat.space[2];
  }
};

/// One window for each of many neighbouring planes.
template <class T>
class LaneWinners : WinnerPool<T> {
  using Base = WinnerPool<T>;
  using Base::plan, Base::put_tap, Base::x;
  using typename Base::K;

 public:
  using Total = Winner;
  static constexpr Lane kLane = Lane::batch;
  static constexpr int64_t kChunk = 512, kRun = 1 << 20;
  explicit LaneWinners(const Base& base) : Base(base) {}
  static Total combine(Total a, Total b) { return first_winner(a, b); }

  void whole(const Task& task) const {
    const Box box = box_of(plan, task, 3);
    Total totals[kChunk];
    if (box.taps > 0) piece(task, box, 0, box.taps, totals);
    store(task, box, totals);
  }

  void piece(const Task& task, const Box& box, int64_t f, int64_t end, Total* totals) const {
    K best[kChunk], tap[kChunk], keys[kChunk];
    TapCursor at(box, f);
    for (bool first = true; f < end; first = false) {
      const int64_t taps = std::min(kRun, end - f);
      for (int64_t i = 0; i < task.n; ++i) tap[i] = -1;
      for (int64_t i = 0; i < task.n; ++i) best[i] = 0;
      for (int64_t t = 0; t < taps; ++t, at.advance(1)) {
        key_row(keys, x + task.x + at.offset(), 1, task.n);
        offer(keys, 1, K(t), best, tap, task.n);
      }
      for (int64_t i = 0; i < task.n; ++i) {
        const Total run{best[i], f + tap[i]};
        totals[i] = first ? run : combine(totals[i], run);
      }
      f += taps;
    }
  }

  void store(const Task& task, const Box& box, const Total* totals) const {
    Task at = task;
    for (int64_t i = 0; i < task.n; ++i) {
      put_tap(box, box.taps ? totals[i].tap : 0, at);
      at.x += plan.x.batch[1];
      at.y += plan.y.batch[1];
      at.indices += plan.indices.batch[1];
      at.flat += plan.flat.batch[1];
    }
  }
};

template <class T>
void winners(const PoolPlan& plan, const void* x, void* y, void* indices) {
  const WinnerPool<T> base{plan, static_cast<const T*>(x), static_cast<T*>(y), indices};
  if (fits_lanes(plan)) return run_windows(LaneWinners<T>(base), plan);
  if (!RowWinners<T>::suits(plan)) return run_windows(WindowWinners<T>(base), plan);
  run_rows(RowWinners<T>(base), plan);
}

}  // namespace

void max_winners(const PoolPlan& plan, const void* x, void* y, void* indices) {
  visit(plan.dtype, AllTypes{}, [&]<class T>() { winners<T>(plan, x, y, indices); });
}

}  // namespace cudml::cpu::CUDML_ISA
