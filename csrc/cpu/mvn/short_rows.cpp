// Normalization of very short groups: each lane of a vector has one.
#include "cpu/mvn/short_rows.h"

#include <array>
#include <utility>

#include "cpu/mvn/formulas.h"
#include "cpu/mvn/group_statistics.h"
#include "cpu/mvn/walk.h"
#include "cpu/simd/float_squares.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

constexpr int64_t kMostElements = 15;  // of a row: longer ones fill vectors as they lie

/// Turns kFloats packed rows of n elements, as n vectors, into n vectors of one element of each
/// row, and back.
class Turn {
 public:
  explicit Turn(int64_t n) : n_(n) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t l = 0; l < kFloats; ++l) {
        const int64_t from = l * n + i, at = i * kFloats + l;
        apart_index_[i][l] = int32_t(from % kFloats);
        apart_vector_[i][l] = int32_t(from / kFloats);
        back_index_[i][l] = int32_t(at / n);
        back_vector_[i][l] = int32_t(at % n);
      }
  }

  void apart(const Floats* packed, Floats* turned) const {
    if constexpr (kPermutes)
      turn(packed, turned, apart_index_, apart_vector_);
    else
      transpose(kFloats, n_, packed, turned);
  }
  void back(const Floats* turned, Floats* packed) const {
    if constexpr (kPermutes)
      turn(turned, packed, back_index_, back_vector_);
    else
      transpose(n_, kFloats, turned, packed);
  }

 private:
  using Ints = Vector<int32_t>;

  void turn(const Floats* from, Floats* to, const Ints* index, const Ints* vector) const {
    for (int64_t i = 0; i < n_; ++i) {
      Floats result = {};
      for (int64_t j = 0; j < n_; ++j)
        result = permuted(result, from[j], index[i], vector[i] == int32_t(j));
      to[i] = result;
    }
  }

  /// The same through memory.
  static void transpose(int64_t rows, int64_t columns, const Floats* from, Floats* to) {
    float lanes[kMostElements * kFloats], turned[kMostElements * kFloats];
    const auto bytes = size_t(rows * columns) * sizeof(float);
    std::memcpy(lanes, from, bytes);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) turned[c * rows + r] = lanes[r * columns + c];
    std::memcpy(to, turned, bytes);
  }

  int64_t n_;
  Ints apart_index_[kMostElements], apart_vector_[kMostElements], back_index_[kMostElements],
      back_vector_[kMostElements];
};

template <size_t... kLengths>
std::array<Turn, sizeof...(kLengths)> turns_of(std::index_sequence<kLengths...>) {
  return {Turn(int64_t(kLengths))...};
}

/// The turn of rows of n elements. Tables are made once: they take longer than a few rows do.
const Turn& turn_of(int64_t n) {
  static const auto turns = turns_of(std::make_index_sequence<kMostElements + 1>());
  return turns[size_t(n)];
}

/// Activates n vectors through memory.
[[gnu::noinline]] void activate(const Activation& f, Floats* x, int64_t n) {
  alignas(64) float row[kMostElements * kFloats];
  std::memcpy(row, x, size_t(n) * sizeof *x);
  activate_row(f, row, n * kFloats);
  std::memcpy(x, row, size_t(n) * sizeof *x);
}

template <class T>
class ShortRows {
 public:
  ShortRows(const MvnPlan& plan, const Operands& o)
      : plan_(plan),
        n_(plan.group_size),
        x_(static_cast<const T*>(o.inputs[0])),
        y_(static_cast<T*>(o.outputs[0])),
        turn_(turn_of(plan.group_size)),
        floor_(plan.activation),
        is_packed_(are_packed(plan)),
        is_streamed_(bytes_to_line(o.outputs[0]) == 0 &&
                     is_norm_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)))),
        scales_(o.inputs[1], plan.scale_dtype, &kOne),
        biases_(o.inputs[2], plan.bias_dtype, &kZero),
        statistics_(plan, o) {
    for (int d = 0; d < plan.kept_rank; ++d)
      is_shared_ &= !plan.kept[d].scale && !plan.kept[d].bias;
    Walk element(plan.reduced, plan.reduced_rank, 0);
    for (int64_t i = 0; i < n_; ++i, element.advance()) {
      at_[i] = element.offsets();
      shared_.scale[i] = broadcast(scales_.at(at_[i].scale));
      shared_.bias[i] = broadcast(biases_.at(at_[i].bias));
    }
  }

  void run() const {
    if (are_columns_packed(plan_)) return run_columns();
    const int64_t tasks = (plan_.groups + kFloats - 1) / kFloats;
    parallel_for(tasks, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      Floats packed[kMostElements], turned[kMostElements];
      Affine own;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task * kFloats, count = std::min(kFloats, plan_.groups - first);
        if constexpr (kFloats <= kMostElements)
          if (is_packed_ && n_ >= kFloats && count == kFloats) {
            run_squares(first, own);
            continue;
          }
        load(first, count, packed);
        turn_.apart(packed, turned);
        if (!is_shared_) load_affine(Walk(plan_.kept, plan_.kept_rank, first), count, own);
        put_statistics(first, count, normalize(turned, is_shared_ ? shared_ : own));
        turn_.back(turned, packed);
        store(first, count, packed);
      }
    });
  }

 private:
  /// Of each element of the groups in a vector.
  struct Affine {
    Floats scale[kMostElements] = {}, bias[kMostElements] = {};
  };

  /// kFloats packed rows, each as long at least: turning squares of them takes less.
  void run_squares(int64_t first, Affine& own) const {
    Floats turned[kMostElements];
    turn_in(x_ + first * n_, turned);
    if (!is_shared_) load_affine(Walk(plan_.kept, plan_.kept_rank, first), kFloats, own);
    put_statistics(first, kFloats, normalize(turned, is_shared_ ? shared_ : own));
    if (!is_streamed_) return turn_out(y_ + first * n_, turned);
    // Lines go past the caches whole.
    alignas(64) float rows[kFloats * kMostElements];
    turn_out(rows, turned);
    std::memcpy(turned, rows, size_t(n_) * sizeof *turned);
    store_packed(y_ + first * n_, kFloats * n_, turned, true);
  }

  /// Whether neighbours in x and in y are the same elements of a vector's groups.
  static bool are_columns_packed(const MvnPlan& plan) {
    if (plan.kept_rank == 0) return false;
    const MvnAxis& columns = plan.kept[plan.kept_rank - 1];
    return columns.x == 1 && columns.y == 1;
  }

  void run_columns() const {
    const MvnAxis& columns = plan_.kept[plan_.kept_rank - 1];
    const int64_t across = (columns.size + kFloats - 1) / kFloats;
    parallel_for(plan_.groups / columns.size * across, plan_.compulsory_bytes(),
                 [&](int64_t begin, int64_t end) {
                   Floats v[kMostElements];
                   Affine own;
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t first = task % across * kFloats;
                     const Partial m{std::min(kFloats, columns.size - first)};
                     const int64_t group = task / across * columns.size + first;
                     const Walk walk(plan_.kept, plan_.kept_rank, group);
                     const Offsets at = walk.offsets();
                     for (int64_t i = 0; i < n_; ++i) v[i] = load_wide(x_ + at.x + at_[i].x, m);
                     if (!is_shared_) load_affine(walk, m.n, own);
                     put_statistics(group, m.n, normalize(v, is_shared_ ? shared_ : own));
                     for (int64_t i = 0; i < n_; ++i) store_narrow(y_ + at.y + at_[i].y, v[i], m);
                   }
                 });
  }

  void load_affine(Walk group, int64_t count, Affine& own) const {
    for (int64_t l = 0; l < count; ++l, group.advance()) {
      const Offsets& at = group.offsets();
      for (int64_t i = 0; i < n_; ++i) {
        own.scale[i][l] = scales_.at(at.scale + at_[i].scale);
        own.bias[i][l] = biases_.at(at.bias + at_[i].bias);
      }
    }
  }

  static bool are_packed(const MvnPlan& plan) {
    const MvnAxis &row = plan.reduced[std::max(plan.reduced_rank - 1, 0)], &rows = plan.kept[0];
    const int64_t n = plan.group_size;
    if (row.x != 1 || row.y != 1 || plan.kept_rank > 1) return false;
    return plan.kept_rank == 0 || (rows.x == n && rows.y == n);
  }

  /// Calls fn(position in a packed run of rows, place in x, place in y) for the elements of rows
  /// [first, first + count).
  template <class Fn>
  void for_elements(int64_t first, int64_t count, const Fn& fn) const {
    Walk row(plan_.kept, plan_.kept_rank, first);
    for (int64_t r = 0; r < count; ++r, row.advance()) {
      const Offsets& at = row.offsets();
      for (int64_t i = 0; i < n_; ++i) fn(r * n_ + i, at.x + at_[i].x, at.y + at_[i].y);
    }
  }

  void load(int64_t first, int64_t count, Floats* packed) const {
    if (is_packed_) return load_packed(x_ + first * n_, count * n_, packed);
    T rows[kFloats * kMostElements];
    for_elements(first, count, [&](int64_t i, int64_t x, int64_t) { rows[i] = x_[x]; });
    load_packed(rows, count * n_, packed);
  }

  void store(int64_t first, int64_t count, const Floats* packed) const {
    if (is_packed_) return store_packed(y_ + first * n_, count * n_, packed, is_streamed_);
    T rows[kFloats * kMostElements];
    store_packed(rows, count * n_, packed, false);
    for_elements(first, count, [&](int64_t i, int64_t, int64_t y) { y_[y] = rows[i]; });
  }

  /// kFloats packed rows to vectors of one element of each.
  void turn_in(const T* x, Floats* turned) const {
    for_squares(n_, [&](int64_t i, auto m) {
      Floats rows[kFloats];
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r) rows[r] = load_wide(x + r * n_ + i, m);
      turn_floats(rows);
      std::copy_n(rows, kFloats, turned + i);
    });
  }

  /// The way back. E is T or float.
  template <class E>
  void turn_out(E* y, const Floats* turned) const {
    for_squares(n_, [&](int64_t i, auto m) {
      Floats rows[kFloats];
      std::copy_n(turned + i, kFloats, rows);
      turn_floats(rows);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kFloats; ++r) store_narrow(y + r * n_ + i, rows[r], m);
    });
  }

  void load_packed(const T* x, int64_t size, Floats* packed) const {
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t here = size - i * kFloats;
      packed[i] = here >= kFloats ? load_wide(x + i * kFloats, Whole{})
                  : here > 0      ? load_wide(x + i * kFloats, Partial{here})
                                  : Floats{};
    }
  }

  void store_packed(T* y, int64_t size, const Floats* packed, bool is_streamed) const {
    for (int64_t i = 0; i < n_; ++i) {
      T* to = y + i * kFloats;
      const int64_t here = size - i * kFloats;
      if (here >= kFloats && is_streamed)
        stream_narrow(to, packed[i]);
      else if (here >= kFloats)
        store_narrow(to, packed[i], Whole{});
      else if (here > 0)
        store_narrow(to, packed[i], Partial{here});
    }
  }

  /// Statistics of the groups in a vector's lanes.
  struct Found {
    Floats mean, variance;
  };

  /// The corrected two-pass method, a row in each lane. With a mean that is not finite, that is
  /// what is subtracted.
  Found normalize(Floats* x, const Affine& affine) const {
    const auto n = float(n_);
    Floats mean = {}, delta = {}, square = {}, variance = {};
    if (plan_.use_mean) {
      for (int64_t i = 0; i < n_; ++i) mean += x[i];
      mean /= n;
      for (int64_t i = 0; i < n_; ++i) x[i] -= mean;
      for (int64_t i = 0; i < n_; ++i) delta += x[i];
      delta = mean - mean == 0 ? delta / n : Floats{};
    }
    // What is left of a constant group is nothing, before squares of it might overflow.
    for (int64_t i = 0; i < n_; ++i) x[i] -= delta;
    for (int64_t i = 0; i < n_; ++i) square = fused(x[i], x[i], square);
    if (plan_.use_variance) {
      variance = square / n;
      const Floats factor = 1.0f / root(variance + float(plan_.epsilon));
      for (int64_t i = 0; i < n_; ++i) x[i] *= factor;
    }
    for (int64_t i = 0; i < n_; ++i) x[i] = floor_(fused(x[i], affine.scale[i], affine.bias[i]));
    if (!is_plain(plan_.activation)) activate(plan_.activation, x, n_);
    return {mean + delta, variance};
  }

  void put_statistics(int64_t first, int64_t count, const Found& found) const {
    if (!statistics_.are_wanted()) return;
    for (int64_t l = 0; l < count; ++l)
      statistics_.put<float>(first + l, found.mean[l], found.variance[l]);
  }

  static constexpr float kOne = 1, kZero = 0;

  const MvnPlan& plan_;
  int64_t n_;
  const T* x_;
  T* y_;
  const Turn& turn_;
  Floor floor_;
  bool is_packed_, is_streamed_;
  Parameter<T> scales_, biases_;
  GroupStatistics statistics_;
  bool is_shared_ = true;      // all groups have the same scale and bias
  Offsets at_[kMostElements];  // of a group's elements, from its beginning
  Affine shared_;
};

}  // namespace

bool are_rows_short(const MvnPlan& plan) {
  if (plan.group_size > kMostElements || !(plan.use_mean || plan.use_variance)) return false;
  for (int d = 1; d < plan.reduced_rank; ++d) {
    const MvnAxis &outer = plan.reduced[d - 1], &inner = plan.reduced[d];
    if (outer.x != inner.x * inner.size || outer.y != inner.y * inner.size) return false;
  }
  return true;
}

template <class T>
void mvn_short(const MvnPlan& plan, const Operands& operands) {
  ShortRows<T>(plan, operands).run();
}

template void mvn_short<float>(const MvnPlan&, const Operands&);
template void mvn_short<Float16>(const MvnPlan&, const Operands&);
template void mvn_short<BFloat16>(const MvnPlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
