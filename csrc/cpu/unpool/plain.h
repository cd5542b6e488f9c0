// Max unpooling by owners of the result; takes any plan.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/isa/paths.h"
#include "cpu/memory/tuning.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Calls fn.operator()<Index>() with the type of a plan's indices. Negative ones become numbers
/// that are out of range when they are widened.
template <class Fn>
void visit_indices(const UnpoolPlan& plan, const Fn& fn) {
  switch (plan.index_dtype) {
    case Dtype::uint32: return fn.template operator()<uint32_t>();
    case Dtype::int32: return fn.template operator()<int32_t>();
    default: return fn.template operator()<int64_t>();
  }
}

/// Calls fn.operator()<T>() with an integer as large as the elements, whose bits are copied.
template <class Fn>
void visit_items(const UnpoolPlan& plan, const Fn& fn) {
  switch (plan.item_size) {
    case 1: return fn.template operator()<uint8_t>();
    case 2: return fn.template operator()<uint16_t>();
    case 4: return fn.template operator()<uint32_t>();
    default: return fn.template operator()<uint64_t>();
  }
}

/// The elements of the result by number: dimensions of several elements, joined where memory runs
/// through.
class Targets {
 public:
  /// Numbered as flat indices are.
  explicit Targets(const UnpoolPlan& plan) {
    for (const UnpoolBatch& b : plan.batch) add({b.size, b.y});
    for (const UnpoolTarget& t : plan.target) add(t);
  }

  /// Numbered as they lie in memory.
  Targets in_memory() const {
    Targets sorted = *this;
    std::stable_sort(sorted.dim_, sorted.dim_ + rank_,
                     [](const UnpoolTarget& a, const UnpoolTarget& b) { return a.y > b.y; });
    Targets joined;
    for (int d = 0; d < rank_; ++d) joined.add(sorted.dim_[d]);
    return joined;
  }

  const UnpoolTarget& row() const { return dim_[std::max(rank_, 1) - 1]; }

  /// Where an element stands in y. Divisions take longest: most results need none.
  int64_t at(int64_t number) const {
    int64_t offset = 0;
    for (int d = rank_ - 1; d > 0; --d) {
      offset += number % dim_[d].size * dim_[d].y;
      number /= dim_[d].size;
    }
    return offset + number * dim_[0].y;
  }

 private:
  Targets() = default;

  void add(const UnpoolTarget& t) {
    if (t.size == 1) return;
    if (rank_ > 0 && dim_[rank_ - 1].y == t.y * t.size)
      dim_[rank_ - 1] = {dim_[rank_ - 1].size * t.size, t.y};
    else
      dim_[rank_++] = t;
  }

  int rank_ = 0;
  UnpoolTarget dim_[5];
};

/// Each thread owns a part of the result, by flat index, goes through all source positions in
/// ascending order and writes what is its own: of several the last one stays.
template <class T, class Index>
class UnpoolPlain {
 public:
  UnpoolPlain(const UnpoolPlan& plan, const Arrays& a)
      : plan_(plan),
        targets_(plan),
        x_(static_cast<const T*>(a.inputs[0])),
        indices_(static_cast<const Index*>(a.inputs[1])),
        y_(static_cast<T*>(a.outputs[0])) {}

  void run() const {
    clear();
    const int64_t parts = num_threads(), targets = plan_.targets();
    const int64_t length = (targets + parts - 1) / parts;
    parallel_for(parts, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const int64_t first = std::min(begin * length, targets);
      const int64_t last = std::min(end * length, targets);
      const uint64_t end_of_range = std::min(uint64_t(last), plan_.limit);
      if (end_of_range > uint64_t(first)) scatter(uint64_t(first), end_of_range);
    });
  }

 private:
  static constexpr int64_t kPiece = tuning::unpool::kUnwatched;

  /// Zeros everywhere, a row of what lies together in memory at a time.
  void clear() const {
    const Targets targets = targets_.in_memory();
    const UnpoolTarget row = targets.row();
    parallel_for(plan_.targets(), plan_.targets() * int64_t(sizeof(T)),
                 [&](int64_t begin, int64_t end) {
                   Pace pace;
                   for (int64_t at = begin, n; at < end; at += n, pace.add(n)) {
                     n = std::min({row.size - at % row.size, end - at, kPiece});
                     T* const to = y_ + targets.at(at);
                     if (row.y == 1)
                       std::memset(to, 0, size_t(n) * sizeof(T));
                     else
                       for (int64_t i = 0; i < n; ++i) to[i * row.y] = 0;
                   }
                 });
  }

  void scatter(uint64_t first, uint64_t last) const {
    const UnpoolSource& row = plan_.source[2];
    Pace pace;
    for (int64_t position = 0, n; position < plan_.sources(); position += n) {
      n = std::min(row.size - position % row.size, kPiece);
      const UnpoolPlace from = source_at(plan_, position);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t flat = uint64_t(int64_t(indices_[from.indices + i * row.indices]));
        if (flat - first >= last - first) continue;
        y_[targets_.at(int64_t(flat))] = x_[from.x + i * row.x];
      }
      pace.add(n);
    }
  }

  const UnpoolPlan& plan_;
  const Targets targets_;
  const T* x_;
  const Index* indices_;
  T* y_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
