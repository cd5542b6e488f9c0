// Strips: neighbouring windows along a row, of one plane or of all neighbouring planes at once,
// whose taps are joined along the rows first and then along the columns.
#pragma once

#include "cpu/isa/processor.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/columns.h"
#include "cpu/pool/pieces.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::pool::kLineBytes;
using tuning::pool::kMostLines;
/// Loops write and read whole vectors, four at a time and four ahead where they skip columns; lines
/// begin up to a vector late.
constexpr int64_t kLineSlack = 9 * 64;

/// Room for values of the type V at every stage of a strip.
template <class V>
struct StripRoom {
  static constexpr int64_t kValues = (kLineBytes + kLineSlack) / int64_t(sizeof(V));
  alignas(64) V line[kValues];
  alignas(64) V out[kValues];
  alignas(64) V spare[kValues];
};

/// How a plan is cut into strips. `lanes` planes lie side by side in x; a strip takes some of them,
/// some outputs of a row, and where these are all, some rows; where those are all, some planes that
/// do not lie side by side.
struct StripShape {
  int64_t planes = 1, lanes = 1, outputs = 0;  // no strips without outputs
  int64_t rows = 1, stack = 1;
  int64_t span = 1;  // columns of one window

  bool fits() const { return outputs > 0; }
};

/// Neighbouring planes lie side by side in x, and columns of them.
inline bool has_packed_planes(const PoolPlan& p) {
  return p.x.batch[1] == 1 && p.batch[1] > 1 && p.axis[2].in > 1 &&
         (p.x.space[2] == p.batch[1] || p.batch[1] >= 16);
}

/// Lines begin where vectors do. A line's last vector may reach into the next, written later.
inline int64_t line_pitch(int64_t values) { return (values + 31) / 32 * 32; }

/// Gives a strip as many rows and planes as `lines` lines are.
inline void stack_lines(const PoolPlan& p, int64_t lines, StripShape& s) {
  s.rows = even_part(p.axis[1].out, std::max<int64_t>(1, lines));
  s.stack = 1;
  if (s.planes == 1 && s.rows == p.axis[1].out && p.axis[0].out == 1)
    s.stack = std::min(p.batch[1], std::max<int64_t>(1, lines / s.rows));
}

/// Whether windows suit strips of lines that hold `values` in all, however many planes there are
/// and wherever they lie.
inline bool suits_strips(const PoolPlan& p, int64_t values) {
  const PoolAxis& w = p.axis[2];
  return w.out > 1 && span_of(w) <= values / 4 && most_taps(p, 2) + w.window <= kChain &&
         (p.x.space[2] != 1 || w.stride <= tuning::pool::kMostPackedStride);
}

/// `values` is what all lines hold, `piece` what may be written at once.
[[gnu::noinline]] inline StripShape strip_shape(const PoolPlan& p, int64_t values, int64_t piece) {
  const PoolAxis& w = p.axis[2];
  StripShape s;
  s.span = span_of(w);
  const bool packed = has_packed_planes(p);
  if (packed) s.planes = p.batch[1];
  const int64_t widest = p.x.space[2] == 1 ? tuning::pool::kMostPackedStride
                         : packed          ? 2 * s.span
                                           : 4;
  if (!suits_strips(p, values) || w.stride > widest) return s;
  const int64_t columns = s.span + std::min<int64_t>(w.out - 1, 7) * w.stride;
  s.lanes = std::min({s.planes, values / columns, piece});
  if (s.lanes < s.planes) s.lanes = s.lanes / 64 * 64;
  if (s.lanes == 0) return s;
  const int64_t most =
      std::min((values / s.lanes - s.span) / w.stride + 1, std::max<int64_t>(1, piece / s.lanes));
  s.outputs = even_part(w.out, most);
  if (s.outputs < w.out || s.lanes < s.planes) return s;
  const int64_t line = line_pitch(((w.out - 1) * w.stride + s.span) * s.lanes);
  stack_lines(p, std::min({kMostLines, values / line, piece / (w.out * s.lanes)}), s);
  return s;
}

/// One task for every strip: parts of a row and of the planes side by side come last.
[[gnu::noinline]] inline TaskSpace strip_tasks(const PoolPlan& p, const StripShape& s) {
  TaskSpace space = make_tasks(p, Lane::none, 1);
  const int64_t n = s.outputs;
  space.dim[kSpaceDim + 2] = {(p.axis[2].out + n - 1) / n, 0, p.y.space[2] * n,
                              p.indices.space[2] * n, 0};
  TaskDim& rows = space.dim[kSpaceDim + 1];
  rows = {(rows.size + s.rows - 1) / s.rows, 0, rows.y * s.rows, rows.indices * s.rows, 0};
  TaskDim& stack = space.dim[kBatchDim + 1];
  if (s.stack > 1)
    stack = {(stack.size + s.stack - 1) / s.stack, stack.x * s.stack, stack.y * s.stack,
             stack.indices * s.stack, stack.flat * s.stack};
  space.lanes = s.planes;
  space.chunk = s.lanes;
  if (s.planes == 1) return space;
  const TaskDim along = space.dim[kBatchDim + 1];
  space.dim[kLaneDim] = {(s.planes + s.lanes - 1) / s.lanes, along.x * s.lanes, along.y * s.lanes,
                         along.indices * s.lanes, along.flat * s.lanes};
  space.dim[kBatchDim + 1] = TaskDim{};
  return space;
}

/// The columns of one strip: outputs [first, first + n) see columns [begin, begin + columns), of
/// which [low, high) are real.
struct StripColumns {
  int64_t first, n, begin, columns, low, high;
};

inline StripColumns columns_of(const PoolAxis& w, const StripShape& s, const Task& task) {
  StripColumns c;
  c.first = task.space(2) * s.outputs;
  c.n = std::min(s.outputs, w.out - c.first);
  c.begin = c.first * w.stride - w.start;
  c.columns = (c.n - 1) * w.stride + s.span;
  c.low = std::clamp<int64_t>(c.begin, 0, w.in);
  c.high = std::clamp<int64_t>(c.begin + c.columns, c.low, w.in);
  return c;
}

/// The real taps along one axis at output o.
struct AxisTaps {
  int64_t begin, count, inside;  // begin: coordinate of the first one
};

/// Of windows that reach beyond the input.
[[gnu::noinline]] inline AxisTaps outer_taps(const PoolAxis& a, int64_t o) {
  const Taps t = taps_at(a, o);
  return {o * a.stride - a.start + t.first * a.dilation, t.real(), t.inside};
}

HD AxisTaps axis_taps(const PoolAxis& a, int64_t o) {
  const int64_t begin = o * a.stride - a.start;
  if (begin >= 0 && begin + (a.window - 1) * a.dilation < a.in) return {begin, a.window, a.window};
  return outer_taps(a, o);
}

/// The rows of outputs that a strip takes: `lines` of them, `rows` of each of its planes.
struct StripLines {
  int64_t lines, rows, first;

  StripLines(const PoolPlan& p, const StripShape& s, const Task& task)
      : first(task.space(1) * s.rows) {
    rows = std::min(s.rows, p.axis[1].out - first);
    lines = rows;
    if (s.stack > 1) lines *= std::min(s.stack, p.batch[1] - task.at[kBatchDim + 1] * s.stack);
  }
  int64_t plane(int64_t line) const { return uint32_t(line) / uint32_t(rows); }
  int64_t row(int64_t line) const { return first + uint32_t(line) % uint32_t(rows); }
};

/// One strip of a plan: its task, its columns and its rows.
struct Strip {
  const Task& task;
  StripColumns columns;
  StripLines lines;

  Strip(const PoolPlan& p, const StripShape& s, const Task& t)
      : task(t), columns(columns_of(p.axis[2], s, t)), lines(p, s, t) {}
  int64_t outputs() const { return lines.lines * columns.n * task.n; }
};

/// Rows of taps of one row of outputs, in visiting order.
template <class T>
struct StripRows {
  const T* at[kChain];  // of column 0; `count` of them are set
  int64_t count = 0;
  AxisTaps taps[2];

  /// Output row `row` of the plane, in the plane of outputs that has taps[0].
  [[gnu::noinline]] void find(const PoolPlan& p, const T* plane, int64_t row) {
    taps[1] = axis_taps(p.axis[1], row);
    count = taps[0].count * taps[1].count;
    plane += taps[0].begin * p.x.space[0] + taps[1].begin * p.x.space[1];
    const int64_t outer = p.axis[0].dilation * p.x.space[0];
    const int64_t inner = p.axis[1].dilation * p.x.space[1];
    const T** to = at;
    for (int64_t a = 0; a < taps[0].count; ++a, plane += outer) {
      const T* from = plane;
      for (int64_t b = 0; b < taps[1].count; ++b, from += inner) *to++ = from;
    }
  }
  /// On to the next row of outputs, where the windows of both are whole along the rows.
  HD void advance(const PoolPlan& p) {
    const int64_t step = p.axis[1].stride * p.x.space[1];
    for (int64_t i = 0; i < count; ++i) at[i] += step;
    taps[1].begin += p.axis[1].stride;
  }
  /// Rows of output row o, which moves on to the next plane behind the strip's last row.
  HD void follow(const PoolPlan& p, const StripLines& lines, const Interior& whole, int64_t& o,
                 const T*& plane) {
    if (o == lines.first + lines.rows) {
      o = lines.first;
      plane += p.x.batch[1];
    }
    if (o > lines.first && o > whole.from && o < whole.to)
      advance(p);
    else
      find(p, plane, o);
  }
  double inside() const { return double(taps[0].inside) * double(taps[1].inside); }
};

/// What a strip's successor will read and the strip has not: rows that follow in memory, or the
/// columns that follow in the rows, behind the last of them the first of rows that windows newly
/// cover. `vectors` is how many vectors of outputs the strip has.
template <class T>
inline Ahead ahead_of(const PoolPlan& p, const StripShape& s, const StripRows<T>& first,
                      const StripColumns& c, int64_t vectors) {
  if (first.count == 0) return {};
  const PoolAxis &h = p.axis[1], &w = p.axis[2];
  constexpr int64_t kItem = sizeof(T);
  if (s.outputs == w.out) {
    const int64_t row = p.x.space[1] * s.rows * s.stack * kItem;
    return {
        reinterpret_cast<const char*>(first.at[0]) + tuning::pool::kStripsAhead * h.stride * row,
        newly_covered(h) * row / vectors, 1, 0};
  }
  const int64_t rows = std::min(h.stride, first.count);
  const int64_t bytes = newly_covered(w) * p.x.space[2] * s.outputs * kItem;
  const int64_t next = c.first + c.n == w.out ? h.stride * p.x.space[1] : c.high * p.x.space[2];
  const T* const from = first.at[first.count - rows] + next;
  const int64_t pitch = rows > 1 ? first.at[first.count - 1] - first.at[first.count - 2] : 0;
  return {reinterpret_cast<const char*>(from), bytes / vectors, rows, pitch * kItem};
}

/// Every second column, of windows of two or three whose last columns are all real.
[[gnu::noinline]] inline bool folds_pairs(const PoolPlan& p, const StripShape& s) {
  const PoolAxis& w = p.axis[2];
  const int64_t last = (w.out - 1) * w.stride - w.start + w.window;
  return w.stride == 2 && w.dilation == 1 && s.planes == 1 && s.outputs == w.out &&
         p.x.space[2] == 1 && last <= w.in &&
         (w.window == 2 ? w.start == 0 : w.window == 3 && w.start <= 1);
}

/// What a strip of such columns reads kNear bytes further on, in rows of each plane that the window
/// newly covers: planes share the distance, as the first cache is to hold what is fetched.
/// `vectors` is how many vectors of outputs a line has.
template <class T>
inline Ahead near_ahead(const PoolPlan& p, const StripRows<T>& rows, int64_t vectors) {
  constexpr int64_t kNear = tuning::pool::kNearBytes, kItem = sizeof(T);
  const PoolAxis &d = p.axis[0], &h = p.axis[1];
  if (rows.count == 0) return {};
  const int64_t planes = std::min(d.stride, rows.taps[0].count);
  const int64_t row = p.x.space[1] * kItem, plane = d.dilation * p.x.space[0] * kItem;
  if (!processor.is_told_of_pieces(planes > 1 ? plane : row)) return {};
  const T* const from = rows.at[(rows.taps[0].count - planes) * rows.taps[1].count];
  return {reinterpret_cast<const char*>(from) + kNear / planes, h.stride * row / vectors, planes,
          plane};
}

/// Bytes of all planes of x.
inline int64_t input_bytes(const PoolPlan& p) {
  const int64_t item = int64_t(size_of(p.dtype));
  const int64_t index = p.with_indices ? int64_t(size_of(p.index_dtype)) : 0;
  return p.compulsory_bytes() - p.outputs() * (item + index);
}

/// Whether rows of x are fetched before they are read, as memory lies: where there are many of
/// them, and no more between their elements, or between them, than themselves.
inline bool is_read_ahead(const PoolPlan& p) {
  const int64_t item = int64_t(size_of(p.dtype)), column = p.x.space[2] * item;
  const int64_t lanes = p.x.batch[1] == 1 ? p.batch[1] * item : item;
  const int64_t row = (p.axis[2].in - 1) * column + lanes;
  return is_streamed(input_bytes(p)) && column <= std::max<int64_t>(64, 2 * lanes) &&
         p.x.space[1] * item <= std::max<int64_t>(64, 2 * row);
}

/// One element behind the last of x.
template <class T>
inline const T* end_of_x(const PoolPlan& p, const T* x) {
  return end_of(p, x, p.x, &PoolOuter::x, &PoolAxis::in);
}

/// n values from p on, and up to a vector more.
template <class V>
inline void fill_values(V* p, int64_t n, V value) {
  const auto v = all_lanes(value);
  for (int64_t i = 0; i < n; i += kLanes<V>) store_vector(p + i, v);
}

/// Calls part(begin, end) for ranges of the tasks of a plan. Not inline: pools are many.
[[gnu::noinline]] inline void run_parts(const PoolPlan& plan, const TaskSpace& space,
                                        void (*part)(const void* context, int64_t begin,
                                                     int64_t end),
                                        const void* context) {
  parallel_ranges(space.count(), work_bytes(plan), part, context);
}

/// Calls run(pool, task) for tasks [begin, end). One loop for all pools.
[[gnu::noinline]] inline void run_tasks(const TaskSpace& space, int64_t begin, int64_t end,
                                        void* pool, void (*run)(void* pool, const Task& task)) {
  for_tasks(space, begin, end, [=](const Task& task, int64_t) { run(pool, task); });
}

/// Computes the tasks of a plan, in every thread by a Pool of its own that is made of `given`.
template <class Pool, class... Given>
void run_pools(const PoolPlan& plan, const TaskSpace& space, const Given&... given) {
  const auto part = [&](int64_t begin, int64_t end) {
    const Room<Pool> pool(given...);
    run_tasks(space, begin, end, &*pool,
              [](void* at, const Task& task) { (*static_cast<Pool*>(at))(task); });
  };
  run_parts(
      plan, space,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const decltype(part)*>(context))(begin, end);
      },
      &part);
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
