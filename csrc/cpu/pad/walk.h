// How padding walks its lines, and cuts them for the threads to share.
#pragma once

#include "cpu/pad/plain.h"
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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
