// How a plan without indices is cut into strips, and what its windows along a row allow.
#pragma once

#include "cpu/memory/sink.h"
#include "cpu/pool/parts.h"
#include "cpu/pool/strip_tasks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Bytes of a joined value: maxima are joined as elements, sums as float32 or float64.
inline int64_t value_bytes(const PoolPlan& p) {
  const int64_t item = int64_t(size_of(p.dtype));
  return p.kind == PoolKind::max ? item : std::max<int64_t>(item, sizeof(float));
}
/// Outputs that may be written at once.
inline int64_t piece_of(const PoolPlan& p) {
  return Sink<char>::kPiece / int64_t(size_of(p.dtype));
}

/// Whether the taps of windows are joined rows first, then columns: of those that strips take among
/// some planes or others, and of few taps. Whatever path takes such a window, its sum has the same
/// bits, so this asks for nothing but the windows of a plane. Counts are exact in float32.
[[gnu::noinline]] inline bool joins_rows_first(const PoolPlan& p) {
  double counted = 1;
  for (const PoolAxis& a : p.axis) counted *= double(a.window);
  return p.axis[2].out > 1 && counted <= 0x1p24 &&
         (most_taps(p, 3) <= kMostTaps || suits_strips(p, kLineBytes / value_bytes(p)));
}

/// The shape of strips of a plan, without outputs where strips do not suit it.
[[gnu::noinline]] inline StripShape value_shape(const PoolPlan& p) {
  if (!joins_rows_first(p)) return {};
  return strip_shape(p, kLineBytes / value_bytes(p), piece_of(p));
}

/// Neighbouring planes lie side by side in x, where columns do not.
inline bool has_lanes(const PoolPlan& p) { return fits_lanes(p) && p.x.space[2] != 1; }

/// Windows of three columns, every second one, each of which has a column, and of at most three
/// rows of one plane.
inline bool has_lane_thirds(const PoolPlan& p) {
  const PoolAxis &d = p.axis[0], &w = p.axis[2];
  return d.window == 1 && p.axis[1].window <= 3 && w.window == 3 && w.stride == 2 &&
         w.dilation == 1 && w.start < 3 && (w.out - 1) * 2 - w.start < w.in;
}

/// Maxima of such windows of planes side by side, a vector of them or more: they need no line, and
/// take all planes at once.
[[gnu::noinline]] inline StripShape lane_third_shape(const PoolPlan& p) {
  StripShape s = value_shape(p);
  const int64_t piece = piece_of(p);
  const bool suits = s.fits() && s.planes * value_bytes(p) >= kVectorBytes && s.planes > 1 &&
                     (s.lanes == s.planes || s.planes <= piece) && has_lane_thirds(p);
  if (!suits) return {};
  if (s.lanes < s.planes) {
    s.lanes = s.planes;
    s.outputs = even_part(p.axis[2].out, piece / s.lanes);
  }
  return s;
}

/// Steps of 1 from and to rows of the same length without gaps: rows are one long line. Columns are
/// numbered by integers as large as values.
inline bool joins_planes(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - 8 * value_bytes(p));
  return w.stride == 1 && w.out == w.in && s.outputs == w.out && p.axis[1].stride == 1 &&
         p.axis[1].out > 1 && p.x.space[2] == s.lanes && p.x.space[1] == w.in * s.lanes &&
         w.start < s.span && w.in + s.span <= most;
}

/// The shape of strips of such planes: as many lines as a line of values holds without padding.
[[gnu::noinline]] inline StripShape packed_shape(const PoolPlan& p) {
  StripShape s = value_shape(p);
  if (!s.fits() || !joins_planes(p, s)) return {};
  const int64_t row = p.axis[2].in * s.lanes;
  const int64_t room = kLineBytes / value_bytes(p) - s.span * s.lanes;
  stack_lines(p, std::min({kMostLines, room / row, piece_of(p) / row}), s);
  return s;
}

/// Of those, windows of three columns that begin one before their output, and of few rows.
inline bool has_plane_thirds(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return s.lanes == 1 && w.window == 3 && w.start == 1 && w.dilation == 1 &&
         p.axis[0].window <= 3 && p.axis[1].window <= 3;
}

/// Rows that a strip joins at most: they stay in a line's room.
constexpr int64_t kMostTurned = kLineBytes / kVectorBytes;

/// Of those, rows of one plane behind which a vector has none for all columns that windows reach
/// beyond them.
inline bool has_short_rows(const PoolPlan& p, const StripShape& s) {
  const PoolAxis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  return d.in * d.out * d.window == 1 && d.start == 0 && s.lanes == 1 && w.dilation == 1 &&
         (w.in + w.window - 1) * value_bytes(p) <= kVectorBytes &&
         s.rows - 1 + (h.window - 1) * h.dilation < kMostTurned;
}

/// Every fourth column, windows of four or five side by side.
inline bool has_fourths(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  return w.stride == 4 && w.dilation == 1 && (w.window == 4 || w.window == 5) && s.planes == 1 &&
         p.x.space[2] == 1;
}

/// Numbers n columns, whole rows of `lanes` planes each, from their window's first on; the bits of
/// the numbers go to `to`.
template <class V>
[[gnu::noinline]] void number_columns(const PoolAxis& w, int64_t lanes, int64_t n, V* to) {
  const int64_t row = w.in * lanes;
  for (int64_t i = 0; i < w.in; ++i)
    std::fill_n(to + i * lanes, lanes, same_bits<V>(IntegerLike<V>(i - w.start)));
  for (int64_t i = row; i < n; i += row) copy_bytes(to + i, to, row * int64_t(sizeof(V)));
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
