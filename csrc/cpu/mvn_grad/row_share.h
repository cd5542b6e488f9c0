// What one thread does with a share of a gradient's packed rows.
#pragma once

#include "cpu/mvn_grad/row_reader.h"
#include "cpu/threads/interrupt.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// What one thread does with rows that it takes in order.
template <class T>
class RowShare {
 public:
  using A = Acc<T>;

  RowShare(const RowCells<T>& cells, const Totals<A>& totals)
      : c_(cells),
        plan_(cells.plan),
        totals_(totals),
        space_(cells.plan, cells.batch, cells.places.first_whole(), !cells.is_own),
        reader_(cells, space_),
        output_(cells.places, cells.batch) {}

  /// Rows [begin, end), which are added to a share of the totals.
  void run(int64_t begin, int64_t end, int64_t share) {
    Pace pace;
    BatchPlaces at;
    for (int64_t i = begin, count; i < end; i += count) {
      if (i > begin && (i - begin) % kMostStaged == 0) totals_.settle(share);
      count = c_.place_rows(
          i, std::min({c_.batch, end - i, kMostStaged - (i - begin) % kMostStaged}), at);
      if (!c_.is_own) count = std::min(count, rows_left(at, share));
      pace.add(count * c_.n);
      run_batch(at, count, share);
    }
    for (int k = 0; k < 2; ++k) flush(share, k);
  }

 private:
  /// Rows since a total was given away, and where they belong.
  struct Added {
    int64_t rows = 0, at = 0;
  };

  /// How many more rows may be added to what has been, which is given away if they belong
  /// elsewhere. Neither total's order follows from the other's.
  int64_t rows_left(const BatchPlaces& at, int64_t share) {
    int64_t left = kMostAdded;
    for (int k = 0; k < 2; ++k) {
      if (added_[k].rows == kMostAdded || added_[k].at != at.totals[k][0]) flush(share, k);
      added_[k].at = at.totals[k][0];
      left = std::min(left, kMostAdded - added_[k].rows);
    }
    return left;
  }

  void flush(int64_t share, int k) {
    A* const row = k == 0 ? space_.totals.products : space_.totals.sums;
    if (row && added_[k].rows) {
      totals_.add(share, k, added_[k].at, plan_.reduced[0].totals[k], row, nullptr, c_.n);
      space_.clear(row);
    }
    added_[k].rows = 0;
  }

  void run_batch(const BatchPlaces& at, int64_t count, int64_t share) {
    for (Added& added : added_) added.rows += count;
    if (plan_.activation.kind != ActivationKind::identity)
      finish_batch<A>(at, count);
    else
      finish_batch<T>(at, count);
    if (!c_.is_own || !plan_.has_totals()) return;
    for (int k = 0; k < 2; ++k)
      for (int64_t r = 0; r < count && totals_.is_wanted(k); ++r)
        totals_.add_one(share, k, at.totals[k][r], reader_.states().sums().of[3 - k][r]);
  }

  /// G is T, or A where an activation's slopes have been multiplied by.
  template <class G>
  void finish_batch(const BatchPlaces& at, int64_t count) {
    GradRow<T, G> rows[kMostBatched];
    reader_.read(at, count, rows);
    write_batch(at, rows, count);
  }

  /// dx of a batch, and what it adds to the totals.
  template <class G>
  void write_batch(const BatchPlaces& at, const GradRow<T, G>* rows, int64_t count) {
    DxRows<T> to;
    const bool is_sound = reader_.states().join(count, to);
    bool has_totals = c_.is_own || !plan_.has_totals();
    if (plan_.wants_dx && is_sound && plan_.reduced[0].dx == 1) {
      for (int64_t r = 0; r < count; ++r) to.dx[r] = output_.place(at.dx, r);
      has_totals |= write_rows_to(takes_product(plan_), rows, to, count, reader_.scale(), c_.n,
                                  space_.totals, output_.flow());
      output_.put(at.dx, count);
    } else if (plan_.wants_dx) {
      for (int64_t r = 0; r < count; ++r) write_singly(c_.dx + at.dx[r], rows[r], r);
    }
    if (!has_totals) add_rows_to(space_.totals, rows, to, count, c_.n);
  }

  /// dx of a row whose elements stand apart, or whose factors may not be joined.
  template <class G>
  void write_singly(T* dx, const GradRow<T, G>& row, int64_t r) const {
    T* const packed = reinterpret_cast<T*>(space_.wide);
    const RowStates& states = reader_.states();
    const A* const scale = reader_.scale();
    DxRow<T> formula;
    DxRows<T> to;
    const bool is_sound = formula.set(packed, states.state(r), states.scale(r));
    to.put(0, formula);
    if (is_sound)
      write_rows_to(takes_product(plan_), &row, to, 1, scale, c_.n, {}, {});
    else
      write_apart(takes_product(plan_), packed, row, states.state(r), states.scale(r), scale, c_.n);
    for (int64_t i = 0; i < c_.n; ++i) dx[i * plan_.reduced[0].dx] = packed[i];
  }

  const RowCells<T>& c_;
  const MvnGradPlan& plan_;
  const Totals<A>& totals_;
  RowSpace<A> space_;
  RowReader<T> reader_;
  RowOutput<T> output_;
  Added added_[2];  // of each total
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
