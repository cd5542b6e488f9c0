// Packed lines of padding in the order in which they lie, by an output that writes runs of them.
#pragma once

#include "cpu/pad/walk.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
