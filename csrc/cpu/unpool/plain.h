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

/// Each thread owns a part of the result, by flat index, goes through all source positions in
/// ascending order and writes what is its own: of several the last one stays.
template <class T, class Index>
class UnpoolPlain {
 public:
  UnpoolPlain(const UnpoolPlan& plan, const Arrays& a)
      : plan_(plan),
        x_(static_cast<const T*>(a.inputs[0])),
        indices_(static_cast<const Index*>(a.inputs[1])),
        y_(static_cast<T*>(a.outputs[0])) {}

  void run() const {
    const int64_t parts = num_threads(), targets = plan_.targets();
    const int64_t length = (targets + parts - 1) / parts;
    parallel_for(parts, plan_.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const int64_t first = std::min(begin * length, targets);
      const int64_t last = std::min(end * length, targets);
      if (first == last) return;
      clear(first, last);
      const uint64_t end_of_range = std::min(uint64_t(last), plan_.limit);
      if (end_of_range > uint64_t(first)) scatter(uint64_t(first), end_of_range);
    });
  }

 private:
  static constexpr int64_t kPiece = tuning::unpool::kUnwatched;

  /// Zeros at flat indices [first, last), a row of the innermost dimension at a time.
  void clear(int64_t first, int64_t last) const {
    const UnpoolTarget& row = plan_.target[2];
    Pace pace;
    for (int64_t at = first; at < last;) {
      const int64_t n = std::min({row.size - at % row.size, last - at, kPiece});
      T* const to = y_ + target_at(plan_, at);
      if (row.y == 1)
        std::memset(to, 0, size_t(n) * sizeof(T));
      else
        for (int64_t i = 0; i < n; ++i) to[i * row.y] = 0;
      at += n;
      pace.add(n);
    }
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
        y_[target_at(plan_, int64_t(flat))] = x_[from.x + i * row.x];
      }
      pace.add(n);
    }
  }

  const UnpoolPlan& plan_;
  const T* x_;
  const Index* indices_;
  T* y_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
