// Gradient of max pooling by 3 x 3 windows that advance by 2: a row of windows after the other.
#pragma once

#include <memory>

#include "cpu/pool_grad_windows.h"
#include "cpu/stream.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

// 16-bit floats that are converted by the element would take most of the time.
#if defined(__F16C__)
using RowTypes = Types<float, Float16, BFloat16>;
#else
using RowTypes = Types<float, BFloat16>;
#endif

/// Blocks of whole rows.
struct RowShape {
  static constexpr int64_t kMostColumns = 8192, kElements = 1 << 16;

  const PoolGradPlan& plan;
  const PoolPlan& f;
  const PoolAxis &y, &x;
  int64_t n, pitch;      // places of a line, in whole vectors; distance of lines
  int64_t height, rows;  // rows of x in a block, blocks
  bool reads_on;         // the row that follows in memory may be read along with one

  template <class... Ts>
  static bool is_one_of(Dtype dtype, Types<Ts...>) {
    return ((dtype == dtype_of<Ts>) || ...);
  }

  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &z = f.axis[0], &y = f.axis[1], &x = f.axis[2];
    const auto suits = [](const PoolAxis& a) {
      return a.window == 3 && a.stride == 2 && a.dilation == 1;
    };
    return is_one_of(f.dtype, RowTypes{}) && z.in * z.out * z.window == 1 && z.start == 0 &&
           suits(y) && suits(x) && f.x.space[2] == 1 && f.y.space[2] == 1 &&
           plan.result.space[2] == 1 && x.in >= kRowLanes && x.in <= kMostColumns;
  }

  explicit RowShape(const PoolGradPlan& p) : plan(p), f(p.forward), y(f.axis[1]), x(f.axis[2]) {
    const int64_t lanes = size_of(f.dtype) == 2 ? 2 * kRowLanes : kRowLanes;
    n = ((x.in + 1) / 2 + lanes) / lanes * lanes;
    pitch = n + 2 * kRowLanes;
    const int64_t most = std::max<int64_t>(16, kElements / x.in);
    rows = (y.in + most - 1) / most;
    height = (y.in + rows - 1) / rows;
    rows = (y.in + height - 1) / height;
    reads_on = f.x.space[1] == x.in && n <= x.in && 2 * x.out - x.start < x.in;
  }

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    space.dim[kSpaceDim + 1].size = rows;
    return space;
  }
};

template <class T>
class MaxRows {
  using K = RowKey<T>;
  static constexpr int64_t kStep = kKeyLanes<T>;
  static constexpr int64_t kShortest = 160;  // bytes of a row that goes past the caches

 public:
  MaxRows(const RowShape& shape, const void* x, const void* grad, void* result)
      : s_(shape),
        x_(static_cast<const T*>(x)),
        grad_(static_cast<const T*>(grad)),
        result_(static_cast<T*>(result)),
        is_streamed_(shape.x.in * int64_t(sizeof(T)) >= kShortest &&
                     is_streamed(int64_t(sizeof(T)) * shape.f.batch[0] * shape.f.batch[1] *
                                 shape.y.in * shape.x.in)) {}

  void run() const {
    const TaskSpace space = s_.tasks();
    parallel_for(space.count(), s_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Scratch scratch(s_);
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { block(task, scratch); });
    });
  }

 private:
  /// Lines have a vector in front of them and one behind. What a row of windows stores is loaded a
  /// row later, when the stores have left the processor: loads at other offsets wait for that.
  struct Scratch {
    static constexpr int64_t kLines = 19;  // two for each line of results

    std::unique_ptr<char[]> room;
    K *none, *best, *tap, *rest[4];  // rest: even and odd keys of two rows
    int32_t* winner[3];
    float *no_grad, *grad[4];
    T* dst[2][2];

    explicit Scratch(const RowShape& s)
        : room(new char[size_t(kLines * s.pitch * 4 + 8 * kVectorBytes + 64)]()) {
      char* at = room.get() + bytes_to_line(room.get());
      const auto take = [&]<class A>(A*& line, int64_t lines) {
        line = reinterpret_cast<A*>(at + kVectorBytes);
        at += lines * s.pitch * 4;
      };
      for (K** line : {&none, &best, &tap}) take(*line, 1);
      for (int32_t*& line : winner) take(line, 1);
      take(no_grad, 1);
      for (float*& line : grad) take(line, 1);
      for (auto& rows : dst)
        for (T*& line : rows) take(line, 2);
      std::fill_n(none, s.n, kNoKey<T>);
      for (K*& line : rest) {
        line = reinterpret_cast<K*>(at);
        at += 2 * kVectorBytes;
        std::fill_n(line, 2 * kStep, kNoKey<T>);
      }
    }
  };

  struct Plane {
    const T *x, *grad;
    T* result;
  };

  /// Two rows of windows before the block find the winners above it, where there are such rows.
  void block(const Task& task, const Scratch& scratch) const {
    const Plane plane{x_ + task.flat, grad_ + task.y, result_ + task.x};
    const int64_t start = s_.y.start, top = task.space(1) * s_.height;
    const int64_t bottom = std::min(top + s_.height, s_.y.in);
    const int64_t begin = std::max<int64_t>((top + start) / 2 - 2, start > 0 ? 0 : -1);
    const int64_t last = (bottom - 1 + start) / 2;
    std::fill_n(scratch.best, s_.n, kNoKey<T>);
    const float *above = scratch.no_grad, *grad = above;
    for (int64_t o = begin; o <= last + 2; ++o) {
      const float* const next = load_grads(plane, o, scratch);
      if (o <= last + 1) step(plane, o, grad, above, scratch);
      above = grad;
      grad = next;
      for (int64_t k = 0, y = 2 * (o - 2) - start; k < 2; ++k, ++y)
        if (y >= top && y < bottom) put(scratch.dst[~o & 1][k] + 2 - s_.x.start % 2, plane, y);
    }
  }

  /// Searches row o of the windows, and hands out the gradients of the row before.
  void step(const Plane& plane, int64_t o, const float* grad, const float* above,
            const Scratch& scratch) const {
    const int64_t y = 2 * o - s_.y.start;
    int32_t* const* winner = scratch.winner;
    T* const* dst = scratch.dst[o & 1];
    const WindowRows<T> rows{row_at(plane, y + 1, scratch.none, scratch.rest),
                             row_at(plane, y + 2, scratch.none, scratch.rest + 2),
                             scratch.best,
                             scratch.tap,
                             winner[(o + 3) % 3],
                             winner[(o + 2) % 3],
                             winner[(o + 1) % 3],
                             grad,
                             above,
                             {dst[0], dst[1]}};
    s_.x.start % 2 != 0 ? search_and_collect<1>(rows, s_.n) : search_and_collect<0>(rows, s_.n);
  }

  KeyRow<T> row_at(const Plane& plane, int64_t y, const K* none, K* const* rest) const {
    if (y < 0 || y >= s_.y.in) return {nullptr, 0, none, none};
    const T* const x = plane.x + y * s_.f.x.space[1];
    if (s_.reads_on && y + 1 < s_.y.in) return {x, s_.n, none, none};
    const int64_t full = s_.x.in / (2 * kStep) * kStep, left = s_.x.in - 2 * full;
    if (left > 0) load_rest(x + 2 * full, full > 0, left, rest[0], rest[1]);
    return {x, full, rest[0], rest[1]};
  }

  /// Keys of the last n elements of a row, from x on; is_long: there is a whole vector before.
  static void load_rest(const T* x, bool is_long, int64_t n, K* even, K* odd) {
    RowKeys<T> at;
    for (int i = 0; i < kStep; ++i) at[i] = K(i);
    KeyPairs<T> pairs;
    if (is_long) {  // the row's last vectors, moved to the front
      pairs = KeyPairs<T>(x + n / 2 * 2 - 2 * kStep);
      const RowKeys<T> from = at + all_lanes(K(kStep - n / 2));
      pairs = {__builtin_shuffle(pairs.even, from), __builtin_shuffle(pairs.odd, from)};
      const RowKeys<T> last = keys_of<T>(RowKeys<T>{} + same_bits<K>(x[n - 1]));
      if (n % 2 != 0) pairs.even = at == all_lanes(K(n / 2)) ? last : pairs.even;
    } else {
      T room[2 * kStep] = {};
      std::copy_n(x, n, room);
      pairs = KeyPairs<T>(room);
    }
    const KeyPairs<T> none;
    store_vector(even, at < all_lanes(K((n + 1) / 2)) ? pairs.even : none.even);
    store_vector(odd, at < all_lanes(K(n / 2)) ? pairs.odd : none.odd);
  }

  /// Gradients of row o of the windows; the lines are zero where there are no windows.
  const float* load_grads(const Plane& plane, int64_t o, const Scratch& scratch) const {
    if (o < 0 || o >= s_.y.out) return scratch.no_grad;
    const int64_t shift = (s_.x.start + 1) / 2 - 1;  // place i is that of window i + shift
    const int64_t from = std::max<int64_t>(0, shift), n = std::min(s_.x.out, s_.n + shift) - from;
    const T* const src = plane.grad + o * s_.f.y.space[1] + from;
    float* const line = scratch.grad[o % 4];
    float* const dst = line + from - shift;
    int64_t i = 0;
    for (; i + kRowLanes <= n; i += kRowLanes) store_vector(dst + i, load_floats(src + i));
    if (i > 0 && i < n)
      store_vector(dst + n - kRowLanes, load_floats(src + n - kRowLanes));
    else
      for (; i < n; ++i) dst[i] = load_as_acc(src[i]);
    return line;
  }

  /// Lines of memory that two rows share go through the caches: gathered first they take longer.
  void put(const T* row, const Plane& plane, int64_t y) const {
    T* const dst = plane.result + y * s_.plan.result.space[1];
    const int64_t bytes = s_.x.in * int64_t(sizeof(T));
    is_streamed_ ? stream_bytes(dst, row, bytes) : copy_bytes(dst, row, bytes);
  }

  const RowShape& s_;
  const T* x_;
  const T* grad_;
  T* result_;
  bool is_streamed_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
