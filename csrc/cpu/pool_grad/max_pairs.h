// Gradient of max pooling by windows of two columns that cover rows without overlap: all rows of
// such windows at once.
#pragma once

#include <memory>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/pool_grad/max_windows.h"
#include "cpu/winners/lanes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What values of T are compared as, and stand in: 16 bits of 16-bit floats, for more lanes.
template <class T>
using PairLane = std::conditional_t<sizeof(T) == 2, int16_t, T>;

/// A row of windows: its rows of x, its gradients, and where the rows of results go.
template <class T>
struct PairWindows {
  static constexpr int64_t kMostRows = 8;
  const T* x[kMostRows];
  T* dst[kMostRows];
  int64_t rows;
  const T* grad;
  bool is_streamed;  // past the caches, whole lines of each row
};

/// Gradients as they are after a sum that begins with 0: no negative zero, and quiet NaNs.
template <class T>
Vector<PairLane<T>> summed(const Vector<PairLane<T>>& grad) {
  if constexpr (sizeof(T) == 2) {
    constexpr bool kIsFloat16 = std::is_same_v<T, Float16>;
    constexpr int16_t kInfinity = kIsFloat16 ? 0x7c00 : 0x7f80, kQuiet = kIsFloat16 ? 0x200 : 0x40;
    const auto magnitude = grad & std::numeric_limits<int16_t>::max();
    const auto number = magnitude == 0 ? magnitude : grad;
    return magnitude > kInfinity ? grad | kQuiet : number;
  } else {
    return grad + T{0};
  }
}

template <class T>
Vector<PairLane<T>> pair_keys(const Vector<PairLane<T>>& v) {
  if constexpr (sizeof(T) == 2)
    return keys_of<T>(v);
  else
    return v;
}

/// Two vectors of a row, as windows of two columns: the left values, and the right ones.
template <class T>
struct PairColumns {
  Vector<PairLane<T>> left, right;

  [[gnu::always_inline]] explicit PairColumns(const T* x) {
    using G = PairLane<T>;
    constexpr auto kAll = kLanesOf<Vector<G>>;
    constexpr int64_t kStep = kLanes<G>;
    __builtin_prefetch(reinterpret_cast<const char*>(x) + kKeysAheadBytes, 0, 3);
    __builtin_prefetch(reinterpret_cast<const char*>(x + kStep) + kKeysAheadBytes, 0, 3);
    const auto a = load_vector<Vector<G>>(x), b = load_vector<Vector<G>>(x + kStep);
    left = pair_keys<T>(pick<0, 2>(a, b, kAll));
    right = pair_keys<T>(pick<1, 2>(a, b, kAll));
  }
};

/// The gradients of a row's two columns, one after the other.
template <class T>
[[gnu::always_inline]] inline void put_columns(T* dst, const Vector<PairLane<T>>& left,
                                               const Vector<PairLane<T>>& right, bool is_streamed) {
  constexpr auto kAll = kLanesOf<Vector<PairLane<T>>>;
  const auto low = interleaved<0>(left, right, kAll), high = interleaved<1>(left, right, kAll);
  T* const next = dst + kLanes<PairLane<T>>;
  is_streamed ? stream_vector(dst, low) : store_vector(dst, low);
  is_streamed ? stream_vector(next, high) : store_vector(next, high);
}

/// A vector of windows of kRows rows, a power of two: of two columns, then of two rows and so on
/// the later one wins or not, and the gradient goes the same way back.
template <int kRows, class T>
[[gnu::always_inline]] inline void share_halves(const PairWindows<T>& w, int64_t i) {
  using V = Vector<PairLane<T>>;
  using Mask = Vector<Position<PairLane<T>>>;
  Mask is_right[kRows], is_lower[kRows];
  V best[kRows], grad[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const PairColumns<T> of(w.x[r] + 2 * i);
    is_right[r] = wins_of<PairLane<T>>(of.left, of.right);
    best[r] = is_right[r] ? of.right : of.left;
  }
#pragma GCC unroll 4
  for (int half = 1; half < kRows; half *= 2)
#pragma GCC unroll 4
    for (int r = half; r < kRows; r += 2 * half) {
      is_lower[r] = wins_of<PairLane<T>>(best[r - half], best[r]);
      best[r - half] = is_lower[r] ? best[r] : best[r - half];
    }
  grad[0] = summed<T>(load_vector<V>(w.grad + i));
#pragma GCC unroll 4
  for (int half = kRows / 2; half > 0; half /= 2)
#pragma GCC unroll 4
    for (int r = half; r < kRows; r += 2 * half) {
      grad[r] = is_lower[r] ? grad[r - half] : V{};
      grad[r - half] = is_lower[r] ? V{} : grad[r - half];
    }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
    put_columns<T>(w.dst[r] + 2 * i, is_right[r] ? V{} : grad[r], is_right[r] ? grad[r] : V{},
                   w.is_streamed);
}

/// The same of any rows, one after the other.
template <class T>
[[gnu::always_inline]] inline void share_rows(const PairWindows<T>& w, int64_t i) {
  using G = PairLane<T>;
  using P = Position<G>;
  Vector<G> best = {};
  Vector<P> tap = {};
  for (int64_t r = 0; r < w.rows; ++r) {
    const PairColumns<T> of(w.x[r] + 2 * i);
    auto largest = of.left;
    auto at = all_lanes(P(2 * r));
    offer<G>(largest, at, of.right, all_lanes(P(2 * r + 1)));
    if (r > 0) {
      offer<G>(best, tap, largest, at);
    } else {
      best = largest;
      tap = at;
    }
  }
  const auto grad = summed<T>(load_vector<Vector<G>>(w.grad + i));
  for (int64_t r = 0; r < w.rows; ++r)
    put_columns<T>(w.dst[r] + 2 * i, tap == P(2 * r) ? grad : Vector<G>{},
                   tap == P(2 * r + 1) ? grad : Vector<G>{}, w.is_streamed);
}

/// n windows, a vector of them at least; the last vector may overlap the one before. kRows is the
/// number of rows, or 0 for any.
template <int kRows, class T>
[[gnu::noinline]] void share_pairs(const PairWindows<T>& windows, int64_t n) {
  constexpr int64_t kStep = kLanes<PairLane<T>>;
  const PairWindows<T> w = windows;
  for (int64_t i = 0; i < n; i += kStep) {
    i = std::min(i, n - kStep);
    if constexpr (kRows > 0)
      share_halves<kRows>(w, i);
    else
      share_rows(w, i);
  }
}

template <class T>
class MaxPairs {
  using Windows = PairWindows<T>;
  static constexpr int64_t kStep = kLanes<PairLane<T>>, kFewest = 4,
                           kMostColumns = tuning::pool_grad::kMostColumns;
  static constexpr int64_t kElements = tuning::pool_grad::kPairElements;
  static constexpr int64_t kStaged =  // elements of a slice, or a row
      tuning::pool_grad::kStagedBytes / int64_t(sizeof(T));

 public:
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const auto suits = [](const PoolAxis& a) {
      return a.start == 0 && a.window == a.stride && a.stride * a.out <= a.in &&
             (a.dilation == 1 || a.window == 1);
    };
    return suits(z) && suits(y) && suits(x) && x.window == 2 && z.window <= Windows::kMostRows &&
           y.window <= Windows::kMostRows / z.window && x.out >= kFewest && x.in <= kMostColumns &&
           f.x.space[2] == 1 && f.y.space[2] == 1 && plan.result.space[2] == 1;
  }

  MaxPairs(const PoolGradPlan& plan, const void* x, const void* grad, void* result)
      : plan_(plan),
        f_(plan.forward),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        columns_(f_.axis[2].in),
        height_(f_.axis[1].window * columns_),
        band_(even_part(f_.axis[1].out, std::max<int64_t>(1, kElements / height_))),
        staged_(std::max<int64_t>(1, kStaged / height_)),
        is_streamed_(is_streamed(f_.batch[0] * f_.batch[1] * f_.axis[0].in * f_.axis[1].in *
                                 columns_ * int64_t(sizeof(T)))),
        is_direct_(f_.axis[2].out >= kStep && (!is_streamed_ || are_rows_lines())) {}

  void run() const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1];
    TaskSpace space = plane_tasks(plan_, false, 1);
    space.dim[kSpaceDim].size = z.out;
    space.dim[kSpaceDim + 1].size = (y.out + band_ - 1) / band_;
    parallel_for(space.count(), plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Room room(is_direct_ ? 0 : z.window * slice());
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { band(task, room); });
    });
  }

 private:
  /// Results of some rows of windows, slice by slice, and rows shorter than a vector.
  struct Room {
    std::unique_ptr<T[]> lines;
    alignas(64) T x[Windows::kMostRows][2 * kStep] = {}, grad[kStep] = {};
    LineStream out;

    explicit Room(int64_t elements) : lines(new T[size_t(elements)]()) {}
  };
  /// Whether a row of windows' results are whole lines, each of which two vectors fill.
  bool are_rows_lines() const {
    const auto is_even = [](int64_t n) { return n * int64_t(sizeof(T)) % 64 == 0; };
    const PoolStrides& to = plan_.result;
    return 2 * kStep * int64_t(sizeof(T)) >= 64 && 2 * f_.axis[2].out == columns_ &&
           is_even(columns_ | to.batch[0] | to.batch[1] | to.space[0] | to.space[1]) &&
           bytes_to_line(result_) == 0;
  }
  /// Elements from one slice of a room to the next.
  int64_t slice() const { return staged_ * height_ + 2 * kStep; }

  void band(const Task& task, Room& room) const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1];
    const int64_t o = task.space(0), first = task.space(1) * band_;
    const int64_t last = std::min(first + band_, y.out);
    for (int64_t p = first, n; p < last; p += n) {
      n = std::min(staged_, last - p);
      for (int64_t i = 0; i < n; ++i) windows(task, o, p + i, i, room);
      for (int64_t i = 0; i < z.window && !is_direct_; ++i)
        put(task, o * z.window + i, p * y.window, n * y.window, room.lines.get() + i * slice(),
            room);
    }
    const int64_t bottom = last == y.out ? y.in : last * y.window;
    const int64_t end = o + 1 == z.out ? z.in : (o + 1) * z.window;
    for (int64_t i = o * z.window; i < end; ++i) {
      const int64_t from = i < (o + 1) * z.window ? last : first;
      for (int64_t r = from * y.window; r < bottom; ++r) put_nothing(task, i, r);
    }
  }

  /// Row (o, p) of the windows; its results, where they are not written at once, are number `place`
  /// in the room.
  void windows(const Task& task, int64_t o, int64_t p, int64_t place, Room& room) const {
    const PoolAxis &z = f_.axis[0], &y = f_.axis[1], &x = f_.axis[2];
    Windows w;
    w.rows = 0;
    w.is_streamed = is_direct_ && is_streamed_;
    w.grad = grad_ + task.y + o * f_.y.space[0] + p * f_.y.space[1];
    for (int64_t i = 0; i < z.window; ++i)
      for (int64_t j = 0; j < y.window; ++j) {
        w.x[w.rows] = x_ + task.flat + (o * z.window + i) * f_.x.space[0] +
                      (p * y.window + j) * f_.x.space[1];
        w.dst[w.rows++] = is_direct_
                              ? row_of(task, o * z.window + i, p * y.window + j)
                              : room.lines.get() + i * slice() + place * height_ + j * columns_;
      }
    if (x.out < kStep) {
      for (int64_t r = 0; r < w.rows; ++r) {
        std::copy_n(w.x[r], 2 * x.out, room.x[r]);
        w.x[r] = room.x[r];
      }
      std::copy_n(w.grad, x.out, room.grad);
      w.grad = room.grad;
    }
    share(w, std::max(kStep, x.out));
    for (int64_t r = 0; r < w.rows; ++r)  // what short rows wrote too much is the next one's
      std::fill_n(w.dst[r] + 2 * x.out, columns_ - 2 * x.out, T{});
  }

  static void share(const Windows& w, int64_t n) {
    if (w.rows == 2) return share_pairs<2>(w, n);
    if (w.rows == 4) return share_pairs<4>(w, n);
    share_pairs<0>(w, n);
  }

  T* row_of(const Task& task, int64_t z, int64_t y) const {
    return result_ + task.x + z * plan_.result.space[0] + y * plan_.result.space[1];
  }

  void put(const Task& task, int64_t z, int64_t y, int64_t rows, const T* lines, Room& room) const {
    T* dst = row_of(task, z, y);
    int64_t n = columns_;
    if (plan_.result.space[1] == columns_) {
      n *= rows;
      rows = 1;
    }
    for (; rows > 0; --rows, dst += plan_.result.space[1], lines += columns_) {
      if (!is_streamed_) {
        copy_bytes(dst, lines, n * int64_t(sizeof(T)));
        continue;
      }
      room.out.seek(dst);
      room.out.copy(lines, n * int64_t(sizeof(T)));
    }
  }

  /// Rows and slices that no window reaches; the stream writes none of their bytes.
  void put_nothing(const Task& task, int64_t z, int64_t y) const {
    std::fill_n(row_of(task, z, y), columns_, T{});
  }

  const PoolGradPlan& plan_;
  const PoolPlan& f_;
  const T* x_;
  const T* grad_;
  T* result_;
  const int64_t columns_, height_;  // of a row; elements of the rows of a window in one slice
  const int64_t band_, staged_;     // rows of windows of a task, and of a room
  const bool is_streamed_, is_direct_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
