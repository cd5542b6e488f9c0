// Lines of padding: how the positions of one padded dimension are copied, mirrored and filled.
#pragma once

#include <algorithm>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "ops/pad.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kNarrow = 8;  // borders whose sources are looked up
using tuning::pad::kChunkBytes;

/// The dimension that is written in one go, and how many elements stand packed at each position.
struct Line {
  PadAxis axis;
  int64_t run = 1;
  int outer_rank = 0;  // dimensions around it
};

inline Line line_of(const PadPlan& plan) {
  const PadAxis& last = plan.axis[plan.rank - 1];
  const bool is_run = !last.is_padded() && last.x_stride == 1 && last.y_stride == 1 &&
                      last.out * plan.item_size <= kChunkBytes;
  if (plan.rank > 1 && is_run) return {plan.axis[plan.rank - 2], last.out, plan.rank - 2};
  return {last, 1, plan.rank - 1};
}

/// Packed items of up to 16 bytes in turned order.
class Turned {
 public:
  explicit Turned(int64_t item) : item_(item), each_(item <= 16 ? 16 / item : 0) {
    for (int64_t i = 0; i < each_ * item; ++i)
      which_[i] = static_cast<unsigned char>(16 - (i / item + 1) * item + i % item);
  }

  /// The item at x and n - 1 before it.
  void copy(const char* x, char* dst, int64_t n) const {
    // Whole vectors, whose last bytes the next one puts right.
    const int64_t step = each_ * item_;
    for (; each_ > 0 && n * item_ >= 16; n -= each_, x -= step, dst += step)
      pick_bytes<16>(dst, x + item_ - 16, which_, step);
    for (; n > 0; --n, x -= item_, dst += item_) copy_bytes(dst, x, item_);
  }

 private:
  int64_t item_, each_;  // bytes; items that a vector holds
  alignas(16) unsigned char which_[16] = {};
};

/// Writes the item at x n times.
inline void repeat_packed(const char* x, char* dst, int64_t n, int64_t item) {
  if (n <= 0) return;
  copy_bytes(dst, x, item);
  for (int64_t done = 1; done < n; done *= 2)
    copy_bytes(dst + done * item, dst, std::min(done, n - done) * item);
}

/// The n elements at x and before it; many of them with aligned stores but for both ends.
template <class T>
inline void copy_turned(const T* x, T* dst, int64_t n) {
  constexpr int64_t kStep = kLanes<T>;
  if (n >= 8 * kStep) {
    const auto put = [&](int64_t i) {
      store_vector(dst + i, turned(load_vector<Vector<T>>(x - i - (kStep - 1))));
    };
    put(0);
    int64_t i =
        int64_t(-reinterpret_cast<uintptr_t>(dst) & (kVectorBytes - 1)) / int64_t(sizeof(T));
    for (; i + kStep <= n; i += kStep) put(i);
    return put(n - kStep);
  }
  for (int64_t i = 0; i < n; ++i) dst[i] = x[-i];
}

/// Writes positions [from, to) of a line, the first of them at dst; its source begins at x, or is
/// the constant where x is null.
template <class T>
class LineWriter {
 public:
  LineWriter(const Line& line, T constant)
      : a(line.axis),
        run(line.run),
        value(constant),
        item(line.run * int64_t(sizeof(T))),
        turned(item) {
    const int64_t right = a.out - a.in - a.start;
    is_simple = run == 1 && a.x_stride == 1 && a.y_stride == 1 &&
                (a.mode == Border::constant || std::max(a.start, right) <= kNarrow);
    if (!is_simple || a.mode == Border::constant) return;
    for (int64_t p = 0; p < a.start; ++p) left_source[p] = border_index(a.mode, p - a.start, a.in);
    for (int64_t p = 0; p < right; ++p) right_source[p] = border_index(a.mode, a.in + p, a.in);
  }

  void write(const T* x, T* dst, int64_t from, int64_t to) const {
    if (!x) return fill(value, dst, to - from);
    if (is_simple && to - from == a.out) return write_simple(x, dst);
    const int64_t left = left_end(from, to), right = right_begin(from, to);
    if (from < left) border(x, dst, from, left);
    if (left < right)
      copy(x + (left - a.start) * a.x_stride, a.x_stride, dst + (left - from) * a.y_stride,
           right - left);
    if (right < to) border(x, dst + (right - from) * a.y_stride, right, to);
  }

  /// The same to a packed stretch.
  void stream(const T* x, LineStream& out, int64_t from, int64_t to) const {
    const bool is_short = (to - from) * item <= LineStream::kShort;
    if (!x || is_short || a.x_stride != run) return pieces(x, out, from, to);
    const int64_t left = left_end(from, to), right = right_begin(from, to);
    pieces(x, out, from, left);
    if (left < right) out.copy(x + (left - a.start) * a.x_stride, (right - left) * item);
    pieces(x, out, right, to);
  }

 private:
  int64_t left_end(int64_t from, int64_t to) const { return std::clamp(a.start, from, to); }
  int64_t right_begin(int64_t from, int64_t to) const {
    return std::clamp(a.start + a.in, from, to);
  }

  void pieces(const T* x, LineStream& out, int64_t from, int64_t to) const {
    const int64_t most = LineStream::kShort / item;
    while (from < to && most > 0) {
      const int64_t n = std::min(most, to - from);
      write(x, reinterpret_cast<T*>(out.reserve()), from, from + n);
      out.commit(n * item);
      from += n;
    }
    for (; from < to; ++from) {
      const int64_t i = x ? border_index(a.mode, from - a.start, a.in) : -1;
      if (i >= 0)
        out.copy(x + i * a.x_stride, item);
      else
        stream_constant(out);
    }
  }

  /// One position, of more than kShort bytes.
  void stream_constant(LineStream& out) const {
    constexpr int64_t kMost = LineStream::kShort / int64_t(sizeof(T));
    for (int64_t left = run; left > 0; left -= kMost) {
      const int64_t n = std::min(kMost, left);
      fill_packed(value, reinterpret_cast<T*>(out.reserve()), n);
      out.commit(n * int64_t(sizeof(T)));
    }
  }

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

  /// n positions of one element.
  void fill(T element, T* dst, int64_t n) const {
    if (a.y_stride == run) return fill_packed(element, dst, n * run);
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < run; ++i) dst[p * a.y_stride + i] = element;
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

  /// n positions of several elements from x on that is repeated, or from x backwards.
  void copy_packed(const char* x, int64_t step, char* dst, int64_t n) const {
    step == 0 ? repeat_packed(x, dst, n, item) : turned.copy(x, dst, n);
  }

  /// n positions from x, x + step, ...
  void copy(const T* x, int64_t step, T* dst, int64_t n) const {
    if (step == run && a.y_stride == run) {
      copy_bytes(dst, x, n * item);
    } else if (run > 1 && a.y_stride == run && (step == 0 || step == -run)) {
      copy_packed(reinterpret_cast<const char*>(x), step, reinterpret_cast<char*>(dst), n);
    } else if (run > 1) {
      for (int64_t i = 0; i < n; ++i) copy_bytes(dst + i * a.y_stride, x + i * step, item);
    } else if (step == 0) {
      fill(*x, dst, n);
    } else if (step == -1 && a.y_stride == 1) {
      copy_turned(x, dst, n);
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i * a.y_stride] = x[i * step];
    }
  }

  void border(const T* x, T* dst, int64_t from, int64_t to) const {
    switch (a.mode) {
      case Border::constant: return fill(value, dst, to - from);
      case Border::edge:
        return copy(from < a.start ? x : x + (a.in - 1) * a.x_stride, 0, dst, to - from);
      default: break;
    }
    // The rule runs forwards or backwards through the source until the next turn.
    const int64_t again = a.mode == Border::reflection ? 1 : 0;  // ends that do not repeat
    int64_t i = border_index(a.mode, from - a.start, a.in);
    bool is_mirrored = a.mode != Border::wrap && is_descending(from - a.start);
    while (from < to) {
      const int64_t n = std::min(to - from, is_mirrored ? i + 1 : a.in - i);
      copy(x + i * a.x_stride, is_mirrored ? -a.x_stride : a.x_stride, dst, n);
      dst += n * a.y_stride;
      from += n;
      is_mirrored = a.mode != Border::wrap && !is_mirrored;
      i = is_mirrored ? a.in - 1 - again : again;
    }
  }

  /// Whether the mirrored source runs backwards at position i. Where it turns, either will do.
  bool is_descending(int64_t i) const {
    const bool is_symmetric = a.mode == Border::symmetric;
    const int64_t period = is_symmetric ? 2 * a.in : 2 * (a.in - 1);
    return floor_mod(i, period) >= a.in;
  }

  const PadAxis& a;
  int64_t run;
  T value;
  int64_t item;  // bytes at one position
  Turned turned;
  bool is_simple;  // packed on both sides, its borders constant or narrow
  int64_t left_source[kNarrow], right_source[kNarrow];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
