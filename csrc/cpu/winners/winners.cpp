// Max pooling with indices on the CPU: the first of the largest taps, in visiting order.
#include "cpu/pool/parts.h"
#include "cpu/pool/pieces.h"
#include "cpu/pool/reduce.h"
#include "cpu/winners/keys.h"
#include "cpu/winners/strips.h"

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
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t n = std::min({kLine, end - f, at.left_in_row()});
      key_row(keys, x + task.x + at.offset(), box.x_step[2], n);
      const K best = join_span(MaxOfIntegers<K>{}, keys, n);
      if (first || best > total->key) {
        int64_t i = 0;
        while (keys[i] != best) ++i;
        *total = {best, f + i};
      }
      at.advance(n);
      f += n;
      pace.add(n);
    }
  }

  void store(const Task& task, const Box& box, const Total* total) const {
    put_tap(box, total->tap, task);
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
    Pace pace;
    for (bool first = true; f < end; first = false) {
      const int64_t taps = std::min(kRun, end - f);
      for (int64_t i = 0; i < task.n; ++i) tap[i] = -1;
      for (int64_t i = 0; i < task.n; ++i) best[i] = 0;
      for (int64_t t = 0; t < taps; ++t, at.advance(1)) {
        key_row(keys, x + task.x + at.offset(), 1, task.n);
        offer(keys, 1, K(t), best, tap, task.n);
        pace.add(task.n);
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
  run_windows(WindowWinners<T>(base), plan);
}

/// The lanes that hold elements T. Types of one size share their code.
template <class T>
auto lanes_of() {
  if constexpr (kIsFloat<T>) {
    return WinnerLanes<T>{};
  } else {
    WinnerIntegers<std::make_signed_t<T>> op;
    using U = std::make_unsigned_t<T>;
    if constexpr (std::is_unsigned_v<T>) op.flip = U(1) << (sizeof(T) * 8 - 1);
    return op;
  }
}

}  // namespace

void max_winners(const PoolPlan& plan, const void* x, void* y, void* indices) {
  visit(plan.dtype, AllTypes{}, [&]<class T>() {
    const auto lanes = lanes_of<T>();
    const StripShape shape = winner_shape<decltype(lanes)>(plan);
    if (shape.fits()) return winners_of_strips(plan, lanes, shape, x, y, indices);
    winners<T>(plan, x, y, indices);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
