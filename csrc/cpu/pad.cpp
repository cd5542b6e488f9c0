// Padding on the CPU: lines of elements copied, repeated, turned round or filled.
#include <algorithm>
#include <cstring>

#include "cpu/copy.h"
#include "cpu/families.h"
#include "cpu/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kNarrow = 8;               // borders whose sources are looked up
constexpr int64_t kChunkBytes = 256 * 1024;  // longer lines are cut, so that threads can share them

/// The dimension that is written in one go, and how many elements stand packed at each position.
struct Line {
  PadAxis axis;
  int64_t run = 1;
  int outer_rank = 0;  // dimensions around it
};

Line line_of(const PadPlan& plan) {
  const PadAxis& last = plan.axis[plan.rank - 1];
  const bool is_run = !last.is_padded() && last.x_stride == 1 && last.y_stride == 1 &&
                      last.out * plan.item_size <= kChunkBytes;
  if (plan.rank > 1 && is_run) return {plan.axis[plan.rank - 2], last.out, plan.rank - 2};
  return {last, 1, plan.rank - 1};
}

/// Walks the lines in order, keeping where each comes from (null: constant) and goes to.
template <class T>
class Walk {
 public:
  Walk(const PadPlan& plan, int rank, const T* x, T* y, int64_t line) : plan_(plan), rank_(rank) {
    x_[0] = x;
    y_[0] = y;
    for (int d = rank - 1; d >= 0; --d) {
      at_[d] = line % plan.axis[d].out;
      line /= plan.axis[d].out;
    }
    place_from(0);
  }

  const T* x() const { return x_[rank_]; }
  T* y() const { return y_[rank_]; }

  void advance() {
    int d = rank_ - 1;
    while (d >= 0 && ++at_[d] == plan_.axis[d].out) at_[d--] = 0;
    if (d >= 0) place_from(d);
  }

 private:
  void place_from(int d) {
    for (; d < rank_; ++d) {
      const PadAxis& a = plan_.axis[d];
      const int64_t i = border_index(a.mode, at_[d] - a.start, a.in);
      x_[d + 1] = x_[d] && i >= 0 ? x_[d] + i * a.x_stride : nullptr;
      y_[d + 1] = y_[d] + at_[d] * a.y_stride;
    }
  }

  const PadPlan& plan_;
  int rank_;
  int64_t at_[kMaxRank];
  const T* x_[kMaxRank + 1];
  T* y_[kMaxRank + 1];
};

/// Writes positions [from, to) of a line whose first element is y and whose source begins at x.
template <class T>
struct LineWriter {
  const PadAxis& a;
  int64_t run;
  T value;
  bool is_simple;  // packed on both sides, its borders constant or narrow
  int64_t left_source[kNarrow], right_source[kNarrow];

  LineWriter(const Line& line, T constant) : a(line.axis), run(line.run), value(constant) {
    const int64_t right = a.out - a.in - a.start;
    is_simple = run == 1 && a.x_stride == 1 && a.y_stride == 1 &&
                (a.mode == Border::constant || std::max(a.start, right) <= kNarrow);
    if (!is_simple || a.mode == Border::constant) return;
    for (int64_t p = 0; p < a.start; ++p) left_source[p] = border_index(a.mode, p - a.start, a.in);
    for (int64_t p = 0; p < right; ++p) right_source[p] = border_index(a.mode, a.in + p, a.in);
  }

  void write(const T* x, T* y, int64_t from, int64_t to) const {
    if (!x) return fill(y, from, to);
    if (is_simple && to - from == a.out) return write_simple(x, y);
    const int64_t left = std::clamp(a.start, from, to),
                  right = std::clamp(a.start + a.in, from, to);
    if (from < left) border(x, y, from, left);
    if (left < right) copy(x + (left - a.start) * a.x_stride, a.x_stride, y, left, right);
    if (right < to) border(x, y, right, to);
  }

 private:
  void write_simple(const T* x, T* y) const {
    const int64_t end = a.start + a.in, right = a.out - end;
    copy_bytes(y + a.start, x, a.in * int64_t(sizeof(T)));
    if (a.mode == Border::constant) {
      fill_packed(value, y, a.start);
      fill_packed(value, y + end, right);
      return;
    }
    for (int64_t i = 0; i < a.start; ++i) y[i] = x[left_source[i]];
    for (int64_t i = 0; i < right; ++i) y[end + i] = x[right_source[i]];
  }

  void fill(T* y, int64_t from, int64_t to) const { fill_with(value, y, from, to); }

  void fill_with(T element, T* y, int64_t from, int64_t to) const {
    if (a.y_stride == run) return fill_packed(element, y + from * run, (to - from) * run);
    for (int64_t p = from; p < to; ++p)
      for (int64_t i = 0; i < run; ++i) y[p * a.y_stride + i] = element;
  }

  static void fill_packed(T element, T* y, int64_t n) {
    if (n < 4) {  // most borders: not worth the set-up of the vector loop
      if (n > 0) y[0] = element;
      if (n > 1) y[1] = element;
      if (n > 2) y[2] = element;
      return;
    }
    for (int64_t i = 0; i < n; ++i) y[i] = element;
  }

  /// Positions [from, to) from x, x + step, ...
  void copy(const T* x, int64_t step, T* y, int64_t from, int64_t to) const {
    T* const dst = y + from * a.y_stride;
    const int64_t n = to - from;
    if (step == run && a.y_stride == run) {
      copy_bytes(dst, x, n * run * int64_t(sizeof(T)));
    } else if (run > 1) {
      for (int64_t i = 0; i < n; ++i)
        copy_bytes(dst + i * a.y_stride, x + i * step, run * int64_t(sizeof(T)));
    } else if (step == 0) {
      fill_with(*x, y, from, to);
    } else if (step == -1 && a.y_stride == 1) {
      for (int64_t i = 0; i < n; ++i) dst[i] = x[-i];
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i * a.y_stride] = x[i * step];
    }
  }

  void border(const T* x, T* y, int64_t from, int64_t to) const {
    switch (a.mode) {
      case Border::constant: return fill(y, from, to);
      case Border::edge:
        return copy(from < a.start ? x : x + (a.in - 1) * a.x_stride, 0, y, from, to);
      default: break;
    }
    // The rule runs forwards or backwards through the source until the next turn.
    while (from < to) {
      const int64_t i = border_index(a.mode, from - a.start, a.in);
      const bool is_mirrored = a.mode != Border::wrap && is_descending(from - a.start);
      const int64_t length = is_mirrored ? i + 1 : a.in - i, stop = std::min(to, from + length);
      copy(x + i * a.x_stride, is_mirrored ? -a.x_stride : a.x_stride, y, from, stop);
      from = stop;
    }
  }

  /// Whether the mirrored source runs backwards at position i. Where it turns, either will do.
  bool is_descending(int64_t i) const {
    const bool is_symmetric = a.mode == Border::symmetric;
    const int64_t period = is_symmetric ? 2 * a.in : 2 * (a.in - 1);
    return floor_mod(i, period) >= a.in;
  }
};

/// Lines of a few elements under an unpadded dimension: one position of many lines at a time.
template <class T>
struct ShortLines {
  static constexpr int64_t kLongest = 24, kBlock = 64, kFewest = 16;

  static bool fits(const PadPlan& plan, const Line& line) {
    if (line.run > 1 || line.outer_rank == 0 || line.axis.out > kLongest) return false;
    const PadAxis& outer = plan.axis[line.outer_rank - 1];
    return !outer.is_padded() && outer.out >= kFewest;
  }

  const PadAxis &line, &outer;
  T value;
  int64_t source[kLongest];  // offset from the line's first element; -1: constant

  ShortLines(const PadAxis& line_axis, const PadAxis& outer_axis, T constant)
      : line(line_axis), outer(outer_axis), value(constant) {
    for (int64_t p = 0; p < line.out; ++p) {
      const int64_t i = border_index(line.mode, p - line.start, line.in);
      source[p] = i < 0 ? -1 : i * line.x_stride;
    }
  }

  /// Lines [from, to) of those that begin at x and y.
  void write(const T* x, T* y, int64_t from, int64_t to) const {
    for (; from < to; from += kBlock) {
      const int64_t n = std::min(kBlock, to - from);
      for (int64_t p = 0; p < line.out; ++p) {
        T* const dst = y + from * outer.y_stride + p * line.y_stride;
        if (!x || source[p] < 0) {
          for (int64_t i = 0; i < n; ++i) dst[i * outer.y_stride] = value;
        } else {
          const T* const src = x + from * outer.x_stride + source[p];
          for (int64_t i = 0; i < n; ++i) dst[i * outer.y_stride] = src[i * outer.x_stride];
        }
      }
    }
  }
};

/// Calls writer.write(x, y, from, to) for all of a line's positions, or all of a group's lines, and
/// for each position of the dimensions around it. Long stretches are cut for the threads to share.
template <class T, class Writer>
void write_all(const PadPlan& plan, const T* x, T* y, int outer_rank, int64_t item,
               const Writer& writer) {
  int64_t lines = 1;
  for (int d = 0; d < outer_rank; ++d) lines *= plan.axis[d].out;
  const int64_t length = plan.axis[outer_rank].out;
  const int64_t chunk = std::max<int64_t>(1, kChunkBytes / (int64_t(sizeof(T)) * item));
  const int64_t chunks = (length + chunk - 1) / chunk;
  parallel_for(lines * chunks, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    Walk<T> walk(plan, outer_rank, x, y, begin / chunks);
    int64_t c = begin % chunks;
    for (int64_t task = begin; task < end; ++task) {
      writer.write(walk.x(), walk.y(), c * chunk, std::min(length, (c + 1) * chunk));
      if (++c < chunks) continue;
      c = 0;
      walk.advance();
    }
  });
}

template <class T>
void pad_as(const PadPlan& plan, const T* x, T* y) {
  const Line line = line_of(plan);
  T value;
  std::memcpy(&value, plan.value.bytes, sizeof value);
  if (ShortLines<T>::fits(plan, line)) {
    const int outer_rank = line.outer_rank - 1;
    const ShortLines<T> writer(line.axis, plan.axis[outer_rank], value);
    return write_all(plan, x, y, outer_rank, line.axis.out, writer);
  }
  write_all(plan, x, y, line.outer_rank, line.run, LineWriter<T>(line, value));
}

}  // namespace

void pad(const PadPlan& plan, const void* x, void* y) {
  if (plan.axis[0].out == 0) return;
  const auto run = [&]<class T>(T) { pad_as(plan, static_cast<const T*>(x), static_cast<T*>(y)); };
  switch (plan.item_size) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    default: return run(uint64_t{});
  }
}

}  // namespace cudml::cpu::CUDML_ISA
