// Gradient of max pooling by 3 x 3 windows that advance by 2: a row of windows after the other.
#pragma once

#include <memory>
#include <optional>

#include "cpu/memory/tuning.h"
#include "cpu/pool_grad/max_windows.h"
#include "cpu/simd/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using RowTypes = Types<float, Float16, BFloat16>;

/// Blocks of whole rows.
struct RowShape {
  static constexpr int64_t kMostColumns = tuning::pool_grad::kMostColumns,
                           kElements = tuning::pool_grad::kBlockRowElements;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  const PoolAxis &y, &x;
  int64_t n, pitch;      // places of a line, in whole vectors; distance of lines
  int64_t height, rows;  // rows of x in a block, blocks
  int64_t skipped;       // columns before the second one of the first window
  bool reads_on;         // the row that follows in memory may be read along with one

  template <class... Ts>
  static bool is_one_of(Dtype dtype, Types<Ts...>) {
    return ((dtype == dtype_of<Ts>) || ...);
  }

  /// Windows begin one column before the row at most: the one at place -1 is nobody's.
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 2 && a.dilation == 1;
    };
    return is_one_of(f.dtype, RowTypes{}) && z.in * z.out * z.window == 1 && z.start == 0 &&
           suits(y) && suits(x) && x.start <= 1 && f.x.space[2] == 1 && f.y.space[2] == 1 &&
           plan.result.space[2] == 1 && x.in >= kRowLanes && x.in <= kMostColumns;
  }

  explicit RowShape(const PoolGradPlan& p) : plan(p), f(p.forward), y(f.axis[1]), x(f.axis[2]) {
    const int64_t lanes = size_of(f.dtype) == 2 ? 2 * kRowLanes : kRowLanes;
    n = ((x.in + 1 + x.start) / 2 + lanes - 1) / lanes * lanes;
    pitch = n + 2 * kRowLanes;
    skipped = 1 - x.start;
    const int64_t most = std::max<int64_t>(16, kElements / x.in);
    rows = (y.in + most - 1) / most;
    height = (y.in + rows - 1) / rows;
    rows = (y.in + height - 1) / height;
    reads_on = f.x.space[1] == x.in && skipped + 2 * n <= 2 * x.in && 2 * x.out - x.start < x.in;
  }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    space.dim[kSpaceDim + 1].size = rows;
    return space;
  }
};

/// What the rows of a block stand in. Lines have a vector in front of them and one behind. Rows of
/// results that are stored are loaded a row of windows later, when the stores have left the
/// processor: loads at other offsets wait for that.
template <class T, class K>
struct RowRoom {
  static constexpr int64_t kLines = 19;  // two for each line of results

  std::unique_ptr<char[]> room;
  K *none_before, *none_behind, *best, *rest[4];  // rest: both keys of pairs of two rows
  IntegerLike<K>* tap;
  int32_t* winner;
  float *no_grad, *grad[4];
  T* dst[2][2];

  [[gnu::noinline]] explicit RowRoom(const RowShape& s)
      : room(new char[size_t(kLines * s.pitch * 4 + 8 * kVectorBytes + 64)]()) {
    char* at = room.get() + bytes_to_line(room.get());
    const auto take = [&]<class A>(A*& line, int64_t lines) {
      line = reinterpret_cast<A*>(at + kVectorBytes);
      at += lines * s.pitch * 4;
    };
    for (K** line : {&none_before, &none_behind, &best}) take(*line, 1);
    take(tap, 1);
    take(winner, 1);
    take(no_grad, 1);
    for (float*& line : grad) take(line, 1);
    for (auto& rows : dst)
      for (T*& line : rows) take(line, 2);
    std::fill_n(none_before, s.n, kNoneBefore<K>);
    std::fill_n(none_behind, s.n, kNoneBehind<K>);
    for (K*& line : rest) {
      line = reinterpret_cast<K*>(at);
      at += 2 * kVectorBytes;
      std::fill_n(line, 2 * kLanes<K>, kNoneBehind<K>);
    }
  }
};

/// Lines of memory that two rows share go through the caches: gathered first they take longer.
[[gnu::noinline]] inline void write_row(void* dst, const void* row, int64_t bytes, bool streamed) {
  streamed ? stream_bytes(dst, row, bytes) : copy_bytes(dst, row, bytes);
}

/// n values of a row, which stand side by side.
template <class T>
[[gnu::noinline]] void load_line(float* dst, const T* src, int64_t n) {
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) {
    __builtin_prefetch(reinterpret_cast<const char*>(src + i) + kKeysAheadBytes, 0, 3);
    store_vector(dst + i, load_floats(src + i));
  }
  if (i > 0 && i < n)
    store_vector(dst + n - kRowLanes, load_floats(src + n - kRowLanes));
  else
    for (; i < n; ++i) dst[i] = load_as_acc(src[i]);
}

template <class T, class K>
class MaxRows {
  static constexpr int64_t kStep = kLanes<K>;
  static constexpr int64_t kShortest = tuning::pool_grad::kShortestPastBytes;

 public:
  using Room = RowRoom<T, K>;

  MaxRows(const RowShape& shape, const void* x, const void* grad, void* result)
      : s_(shape),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        is_streamed_(shape.x.in * int64_t(sizeof(T)) >= kShortest &&
                     is_streamed(int64_t(sizeof(T)) * shape.f.batch[0] * shape.f.batch[1] *
                                 shape.y.in * shape.x.in)) {}

  /// Two rows of windows before the block find the winners above it, where there are such rows.
  /// False where the block has to be done by other keys.
  [[gnu::noinline]] bool block(const Task& task, const Room& room) const {
    const Plane plane{x_ + task.flat, grad_ + task.y, result_ + task.x};
    const int64_t start = s_.y.start, top = task.space(1) * s_.height;
    const int64_t bottom = std::min(top + s_.height, s_.y.in);
    const int64_t begin = std::max<int64_t>((top + start) / 2 - 2, start > 0 ? 0 : -1);
    const int64_t last = (bottom - 1 + start) / 2;
    std::fill_n(room.best, s_.n, kNoneBefore<K>);
    const RowNumbers<K> numbers;
    const float *above = room.no_grad, *grad = load_grads(plane, begin, room);
    for (int64_t o = begin; o <= last + 1; ++o) {
      const float* const next = load_grads(plane, o + 1, room);
      if (o <= last && !step(plane, o, grad, above, room, numbers)) return false;
      above = grad;
      grad = next;
      for (int64_t k = 0, y = 2 * (o - 1) - start; k < 2; ++k, ++y)
        if (y >= top && y < bottom)
          write_row(plane.result + y * s_.plan.result.space[1], room.dst[~o & 1][k] + s_.x.start,
                    s_.x.in * int64_t(sizeof(T)), is_streamed_);
    }
    return true;
  }

 private:
  struct Plane {
    const T *x, *grad;
    T* result;
  };

  /// Searches row o of the windows, and hands out what the rows of elements it begins with get.
  [[gnu::always_inline]] bool step(const Plane& plane, int64_t o, const float* grad,
                                   const float* above, const Room& room,
                                   const RowNumbers<K>& numbers) const {
    const int64_t y = 2 * o - s_.y.start;
    T* const* dst = room.dst[o & 1];
    WindowRows<T, K> rows;  // field by field: what is loaded as it was stored is there at once
    row_at(plane, y + 1, room, room.rest, rows.second);
    row_at(plane, y + 2, room, room.rest + 2, rows.third);
    rows.best = room.best;
    rows.tap = room.tap;
    rows.winner = room.winner;
    rows.grad = grad;
    rows.grad_above = above;
    rows.dst[0] = dst[0];
    rows.dst[1] = dst[1];
    return search_and_collect<T, K>(rows, s_.n, numbers);
  }

  void row_at(const Plane& plane, int64_t y, const Room& room, K* const* rest,
              KeyRow<T, K>& row) const {
    row.x = nullptr;
    row.full = 0;
    row.nan = {};
    row.first = row.second = y < 0 ? room.none_before : room.none_behind;
    row.before = y < 0 ? kNoneBefore<K> : kNoneBehind<K>;
    if (y < 0 || y >= s_.y.in) return;
    const T* const x = row.x = plane.x + y * s_.f.x.space[1] + s_.skipped;
    row.before = s_.skipped > 0 ? key_at(x[-1], row.nan) : kNoneBefore<K>;
    row.full = s_.n;
    if (s_.reads_on && y + 1 < s_.y.in) return;
    const int64_t in = s_.x.in - s_.skipped, left = in % (2 * kStep);
    row.full = (in - left) / 2;
    row.first = rest[0];
    row.second = rest[1];
    if (left > 0) load_rest(x + in - left, row.full > 0, left, rest[0], rest[1], row.nan);
  }

  static K key_at(T x, NanSeen& nan) {
    if constexpr (std::is_same_v<K, float>) {
      nan.see(all_lanes(x), all_lanes(x));
      return x;
    } else {
      return keys_of<T>(Vector<K>{} + same_bits<K>(x))[0];
    }
  }

  /// Keys of the last n elements of a row, from x on; is_long: there is a whole vector before.
  [[gnu::noinline]] static void load_rest(const T* x, bool is_long, int64_t n, K* first, K* second,
                                          NanSeen& nan) {
    using Integers = Vector<IntegerLike<K>>;
    using Integer = IntegerLike<K>;
    Integers at;
    for (int i = 0; i < kStep; ++i) at[i] = Integer(i);
    KeyPairs<K> pairs;
    if (is_long) {  // the row's last vectors, moved to the front
      pairs = pairs_at<T, K>(x + n / 2 * 2 - 2 * kStep, nan);
      const Integers from = at + all_lanes(Integer(kStep - n / 2));
      pairs = {shuffled(pairs.first, from), shuffled(pairs.second, from)};
      const auto last = all_lanes(key_at(x[n - 1], nan));
      if (n % 2 != 0) pairs.first = at == all_lanes(Integer(n / 2)) ? last : pairs.first;
    } else {
      T room[2 * kStep] = {};
      std::copy_n(x, n, room);
      pairs = pairs_at<T, K>(room, nan);
    }
    const auto none = all_lanes(kNoneBehind<K>);
    store_vector(first, at < all_lanes(Integer((n + 1) / 2)) ? pairs.first : none);
    store_vector(second, at < all_lanes(Integer(n / 2)) ? pairs.second : none);
  }

  /// Gradients of row o of the windows; the lines are zero where there are no windows.
  const float* load_grads(const Plane& plane, int64_t o, const Room& room) const {
    if (o < 0 || o >= s_.y.out) return room.no_grad;
    float* const dst = room.grad[o % 4];
    load_line(dst, plane.grad + o * s_.f.y.space[1], std::min(s_.x.out, s_.n));
    return dst;
  }

  const RowShape& s_;
  const T* x_;
  const T* grad_;
  T* result_;
  bool is_streamed_;
};

/// Runs Blocks<T, K> of a shape. Floats are compared as such, and as integers in blocks that have a
/// NaN; behind one of these some are not tried as floats.
template <template <class, class> class Blocks, class T, class Shape>
void run_by_keys(const Shape& shape, const void* x, const void* grad, void* result) {
  using K = std::conditional_t<sizeof(T) == 4, float, RowKey<T>>;
  using Exact = Blocks<T, RowKey<T>>;
  const Blocks<T, K> quick(shape, x, grad, result);
  const Exact exact(shape, x, grad, result);
  const TaskSpace space = shape.tasks();
  parallel_for(space.count(), shape.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    typename Blocks<T, K>::Room room(shape);
    std::optional<typename Exact::Room> exact_room;
    int64_t untried = 0;
    for_tasks(space, begin, end, [&](const Task& task, int64_t) {
      if (--untried < 0 && quick.block(task, room)) return;
      if constexpr (std::is_same_v<K, float>) {
        if (untried < 0) untried = 16;
        if (!exact_room) exact_room.emplace(shape);
        exact.block(task, *exact_room);
      }
    });
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
