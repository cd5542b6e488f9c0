// Lines of a packed result that is larger than the caches, written past them.
#pragma once

#include "cpu/memory/line_stream.h"
#include "cpu/pad/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// All positions of all lines.
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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
