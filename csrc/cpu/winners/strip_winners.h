// What the ways to find winners by strips have in common: every value is joined together with its
// position.
#pragma once

#include "cpu/winners/lanes.h"
#include "cpu/winners/strip_indices.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Values and indices of strips.
template <class Op>
class StripWinners {
 public:
  using T = typename Op::Element;
  using V = typename Op::V;
  using P = Position<V>;

  [[gnu::noinline]] StripWinners(const PoolPlan& plan, const Op& op, const StripShape& shape,
                                 const T* x, T* y, void* indices)
      : plan_(plan),
        op_(op),
        shape_(shape),
        x_(x),
        end_(end_of_x(plan, x)),
        fetches_(is_read_ahead(plan)),
        writes_values_(y != nullptr),
        values_(y, plan.y, plan, shape, is_streamed(plan.outputs() * int64_t(sizeof(T)))),
        indices_(indices, plan, shape) {}

 protected:
  static int64_t vectors_of(int64_t n) { return (n + kLanes<V> - 1) / kLanes<V>; }

  /// Where the values of a strip go. `places`: where its indices may, or null.
  T* begin(const Strip& s, uint32_t*& places) {
    places = indices_.begin(s);
    return writes_values_ ? values_.room(s.task.y, s) : reinterpret_cast<T*>(value_.line);
  }
  /// Takes the values from there; and the positions from place_.out, unless there are indices.
  void end(const Strip& s, bool has_indices) {
    if (writes_values_) values_.put(s.task.y, s);
    if (!has_indices) indices_.write(s, place_.out);
    indices_.end(s);
  }
  /// A strip that join(strip) brings to value_.out and place_.out.
  template <class Join>
  void run_joined(const Task& task, const Join& join) {
    const Strip s(plan_, shape_, task);
    uint32_t* places;
    T* const to = begin(s, places);
    join(s);
    end_joined(s, to);
  }
  /// Takes the values from value_.out, on their way `to` where begin() has said.
  void end_joined(const Strip& s, T* to) {
    if (writes_values_) write_values(s, to);
    end(s, false);
  }

  /// The columns of one line, joined along the rows; padding is nothing.
  void fill_line(const StripColumns& c, int64_t lanes, WinnerLine<V> line) {
    if (rows_.count == 0 || c.low >= c.high) return fill_none(line, c.columns * lanes);
    const int64_t left = (c.low - c.begin) * lanes, right = (c.begin + c.columns - c.high) * lanes;
    fill_none(line, left);
    line.value += left;
    line.place += left;
    number_rows();
    const int64_t pitch = plan_.x.space[2];
    const int64_t n = pitch == lanes ? (c.high - c.low) * lanes : lanes;
    for (int64_t i = c.low; i < c.high; i += n / lanes) {
      join_rows(i * pitch, n, lanes, i, line);
      line.value += n;
      line.place += n;
    }
    fill_none(line, right);
  }

  /// Positions of the rows' first columns.
  void number_rows() {
    const StripRows<T>& rows = rows_;
    const int64_t outer = plan_.axis[0].dilation * plan_.flat.space[0];
    const int64_t inner = plan_.axis[1].dilation * plan_.flat.space[1];
    const int64_t first =
        rows.taps[0].begin * plan_.flat.space[0] + rows.taps[1].begin * plan_.flat.space[1];
    int64_t r = 0;
    for (int64_t a = 0; a < rows.taps[0].count; ++a)
      for (int64_t b = 0; b < rows.taps[1].count; ++b)
        row_place_[r++] = P(first + a * outer + b * inner);
  }

  const PoolPlan& plan_;
  const Op op_;
  const StripShape shape_;
  const T *x_, *end_;
  const bool fetches_;
  StripRows<T> rows_;
  P row_place_[kChain];
  StripRoom<V> value_;
  StripRoom<P> place_;

 private:
  static void fill_none(WinnerLine<V> line, int64_t n) {
    fill_values(line.value, n, Op::none());
    fill_values(line.place, n, kNowhere<V>);
  }

  /// Elements [at, at + n) of the rows; the first of them is a lane of column `column`.
  void join_rows(int64_t at, int64_t n, int64_t lanes, int64_t column, WinnerLine<V> to) {
    const StripRows<T>& rows = rows_;
    const P step = P(plan_.flat.space[2]), first = P(column * plan_.flat.space[2]);
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      auto best = load_at(rows.at[0] + at + i, n - i);
      auto place = all_lanes(row_place_[0]);
      for (int64_t r = 1; r < rows.count; ++r)
        offer<V>(best, place, load_at(rows.at[r] + at + i, n - i), all_lanes(row_place_[r]));
      store_vector(to.value + i, best);
      store_vector(to.place + i, place + first);
    }
    if (n > lanes || lanes == 1) add_columns(to.place, n, lanes, step);
  }

  /// Adds what each column is from the first one.
  static void add_columns(P* place, int64_t n, int64_t lanes, P step) {
    if (lanes > 1) {
      for (int64_t j = 1; j * lanes < n; ++j)
        for (int64_t c = 0; c < lanes; ++c) place[j * lanes + c] += P(j) * step;
      return;
    }
    for (int64_t i = 0; i < n; ++i) place[i] += P(i) * step;
  }

  Vector<V> load_at(const T* p, int64_t n) const {
    if (end_ - p >= kLanes<V>) return op_.load(p);
    T room[kLanes<V>] = {};
    std::memcpy(room, p, size_t(std::min(n, kLanes<V>)) * sizeof(T));
    return op_.load(room);
  }

  void write_values(const Strip& s, T* to) {
    const int64_t n = s.outputs();
    Vector<P> nans{};
    for (int64_t i = 0; i < n; i += kLanes<V>) {
      const auto v = load_vector<Vector<V>>(value_.out + i);
      op_.store(to + i, v);
      if constexpr (std::is_same_v<T, Float16>) nans |= v != v;
    }
    if constexpr (std::is_same_v<T, Float16>)
      if (any_bits(nans)) keep_nans(s, to);
  }

  /// The processor's conversion makes signalling NaNs quiet: NaNs are copied.
  [[gnu::noinline]] void keep_nans(const Strip& s, T* to) const {
    const int64_t line = s.columns.n * s.task.n;
    for (int64_t i = 0; i < s.outputs(); ++i) {
      if (value_.out[i] == value_.out[i]) continue;
      int64_t place = place_.out[i];
      int64_t at = s.task.x + s.lines.plane(i / line) * plan_.x.batch[1] + i % line % s.task.n;
      for (int d = 0; d < 3; ++d) {
        const int64_t step = plan_.flat.space[d];
        if (step == 0) continue;
        at += place / step * plan_.x.space[d];
        place %= step;
      }
      to[i] = x_[at];
    }
  }

  const bool writes_values_;
  StripSink<T> values_;
  StripIndices<P> indices_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
