// Padding on the CPU: lines of elements copied, repeated, turned round or filled.
#include <cstring>

#include "cpu/isa/families.h"
#include "cpu/pad/packed.h"
#include "cpu/pad/plain.h"
#include "cpu/pad/seams.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Walks the lines in order, keeping where each comes from (null: constant) and goes to.
class Walk {
 public:
  Walk(const PadPlan& plan, int rank, const void* x, void* y, int64_t line)
      : plan_(plan), rank_(rank) {
    x_[0] = static_cast<const char*>(x);
    y_[0] = static_cast<char*>(y);
    for (int d = rank - 1; d >= 0; --d) {
      at_[d] = line % plan.axis[d].out;
      line /= plan.axis[d].out;
    }
    place_from(0);
  }

  const char* x() const { return x_[rank_]; }
  char* y() const { return y_[rank_]; }

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
      x_[d + 1] = x_[d] && i >= 0 ? x_[d] + i * a.x_stride * plan_.item_size : nullptr;
      y_[d + 1] = y_[d] + at_[d] * a.y_stride * plan_.item_size;
    }
  }

  const PadPlan& plan_;
  int rank_;
  int64_t at_[kMaxRank];
  const char* x_[kMaxRank + 1];
  char* y_[kMaxRank + 1];
};

/// How lines are cut for the threads to share: `each` pieces of `step` positions, the last shorter.
struct Cut {
  int64_t length, step, each;

  Cut(int64_t line, int64_t item_bytes)
      : length(line),
        step(std::max<int64_t>(1, kChunkBytes / item_bytes)),
        each((line + step - 1) / step) {}
};

int64_t lines_of(const PadPlan& plan, int outer_rank) {
  int64_t lines = 1;
  for (int d = 0; d < outer_rank; ++d) lines *= plan.axis[d].out;
  return lines;
}

/// Calls fn(from, to) for pieces [begin, end), the walk standing at the piece's line.
template <class Fn>
void for_pieces(Walk& walk, const Cut& cut, int64_t begin, int64_t end, const Fn& fn) {
  int64_t c = begin % cut.each;
  for (int64_t piece = begin; piece < end; ++piece) {
    fn(c * cut.step, std::min(cut.length, (c + 1) * cut.step));
    if (++c < cut.each) continue;
    c = 0;
    walk.advance();
  }
}

/// All of a line's positions, or all of a group's lines, for each position of the dimensions
/// around it.
template <class T, class Writer>
void write_all(const PadPlan& plan, const T* x, T* y, int outer_rank, int64_t item,
               const Writer& writer) {
  const PadAxis& axis = plan.axis[outer_rank];
  const Cut cut(axis.out, item * int64_t(sizeof(T)));
  const int64_t pieces = lines_of(plan, outer_rank) * cut.each;
  parallel_for(pieces, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    Walk walk(plan, outer_rank, x, y, begin / cut.each);
    for_pieces(walk, cut, begin, end, [&](int64_t from, int64_t to) {
      T* const dst = reinterpret_cast<T*>(walk.y());
      writer.write(reinterpret_cast<const T*>(walk.x()), dst + from * axis.y_stride, from, to);
    });
  });
}

/// The same where y is packed and larger than the caches.
template <class T>
void stream_all(const PadPlan& plan, const T* x, T* y, const Line& line,
                const LineWriter<T>& writer) {
  const Cut cut(line.axis.out, line.run * int64_t(sizeof(T)));
  const int64_t pieces = lines_of(plan, line.outer_rank) * cut.each;
  parallel_for(pieces, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    Walk walk(plan, line.outer_rank, x, y, begin / cut.each);
    LineStream out;
    out.seek(reinterpret_cast<T*>(walk.y()) + begin % cut.each * cut.step * line.run);
    for_pieces(walk, cut, begin, end, [&](int64_t from, int64_t to) {
      writer.stream(reinterpret_cast<const T*>(walk.x()), out, from, to);
    });
  });
}

/// Elements of y where it is packed, else 0.
int64_t packed_elements(const PadPlan& plan) {
  int64_t elements = 1;
  for (int d = plan.rank - 1; d >= 0; --d) {
    if (plan.axis[d].out > 1 && plan.axis[d].y_stride != elements) return 0;
    elements *= plan.axis[d].out;
  }
  return elements;
}

/// Lines [from, to) of a plane that begins at x, of the dimension `rows`.
template <class Output>
void put_rows(const PadPlan& plan, const PadAxis& rows, const char* x, int64_t from, int64_t to,
              Output& out) {
  if (!x) return out.put(nullptr, 0, to - from);
  const int64_t step = rows.x_stride * plan.item_size;
  const auto border = [&](int64_t begin, int64_t end) {
    if (rows.mode == Border::constant) return out.put(nullptr, 0, end - begin);
    for (int64_t at = begin; at < end; ++at)
      out.put(x + border_index(rows.mode, at - rows.start, rows.in) * step, 0, 1);
  };
  const int64_t left = std::clamp(rows.start, from, to);
  const int64_t right = std::clamp(rows.start + rows.in, from, to);
  border(from, left);
  if (left < right) out.put(x + (left - rows.start) * step, step, right - left);
  border(right, to);
}

/// All lines where y is packed, and the lines are.
template <class Output, class Lines>
void write_packed(const PadPlan& plan, const void* x, void* y, int outer_rank, const Lines& lines) {
  const PadAxis& rows = plan.axis[outer_rank - 1];
  parallel_for(
      lines_of(plan, outer_rank), plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
        char* const to = static_cast<char*>(y) + begin * lines.bytes();
        Output out(lines, to);
        Walk walk(plan, outer_rank - 1, x, y, begin / rows.out);
        int64_t at = begin % rows.out;
        for (const int64_t last = end - 1; begin < last;) {
          const int64_t n = std::min(last - begin, rows.out - at);
          put_rows(plan, rows, walk.x(), at, at + n, out);
          begin += n;
          at += n;
          if (at < rows.out) break;
          at = 0;
          walk.advance();
        }
        const int64_t i = border_index(rows.mode, at - rows.start, rows.in);
        out.put_last(walk.x() && i >= 0 ? walk.x() + i * rows.x_stride * plan.item_size : nullptr);
      });
}

/// Bytes of a line from which it pays to put the lines of memory together first.
constexpr int64_t kStreamedLine = 512;

template <class T>
void pad_as(const PadPlan& plan, const T* x, T* y, const Line& line, bool is_stream) {
  T value;
  std::memcpy(&value, plan.value.bytes, sizeof value);
  if (ShortLines<T>::fits(plan, line)) {
    const int outer_rank = line.outer_rank - 1;
    const ShortLines<T> writer(line.axis, plan.axis[outer_rank], value);
    return write_all(plan, x, y, outer_rank, line.axis.out, writer);
  }
  const LineWriter<T> writer(line, value);
  const bool is_long = line.axis.out * line.run * int64_t(sizeof(T)) >= kStreamedLine;
  if (is_stream && is_long) return stream_all(plan, x, y, line, writer);
  write_all(plan, x, y, line.outer_rank, line.run, writer);
}

}  // namespace

void pad(const PadPlan& plan, const void* x, void* y) {
  if (plan.axis[0].out == 0) return;
  const Line line = line_of(plan);
  const int64_t packed = packed_elements(plan) * plan.item_size;
  const bool is_stream = packed > 0 && is_copy_streamed(packed);
  PackedLines lines;
  if (packed > 0 && lines.prepare(plan, line, packed, is_stream)) {
#if defined(__AVX512BW__)
    Seams seams;
    if (is_stream && seams.prepare(plan, line, y))
      return write_packed<SeamOutput>(plan, x, y, line.outer_rank, seams);
#endif
    return write_packed<PackedOutput>(plan, x, y, line.outer_rank, lines);
  }
  const auto run = [&]<class T>(T) {
    pad_as(plan, static_cast<const T*>(x), static_cast<T*>(y), line, is_stream);
  };
  switch (plan.item_size) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    default: return run(uint64_t{});
  }
}

}  // namespace cudml::cpu::CUDML_ISA
