// Max unpooling of windows that stand side by side: each source has a box of targets to itself.
#pragma once

#include "cpu/simd/fence.h"
#include "cpu/simd/stream.h"
#include "cpu/threads/arena.h"
#include "cpu/unpool/planes.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The targets of each source, if all have equally many.
struct UnpoolCell {
  static constexpr int kMostTargets = 8, kMostRows = 4;

  int64_t size[3], count = 1;
  int64_t row[kMostRows];  // from a cell's first target to the first one of each of its rows

  explicit UnpoolCell(const UnpoolPlan& plan) {
    const UnpoolExtent* const e = plan.extent;
    for (int i = 0; i < 3; ++i) count *= size[i] = e[i].y / e[i].x;
    for (int64_t r = 0; r < std::min<int64_t>(rows(), kMostRows); ++r)
      row[r] = (r / size[1] * e[1].y + r % size[1]) * e[2].y;
  }

  bool is_handled() const {
    return (count == 2 || count == 4 || count == 8) && rows() <= kMostRows;
  }
  int64_t rows() const { return size[0] * size[1]; }
};

/// Whether sources are equally far apart: the last dimension has all of them.
inline bool are_sources_in_line(const UnpoolPlan& plan) { return plan.source[1].size == 1; }

/// Finds the targets that indices name, a vector of them at a time.
template <int kTargets, class T, class Index>
class CellSearch {
 public:
  using Number = std::make_unsigned_t<Index>;
  static constexpr int kTogether = int(std::min(kLanes<T>, kLanes<Number>));
  using Found = Vector<T, int(sizeof(T)) * kTogether>;

  explicit CellSearch(const Number* targets) { std::copy_n(targets, kTargets, target_); }

  /// The number of the target, from 1, that each index names, less `first`; 0 if it is none.
  Found operator()(const Index* from, const Number* first) {
    const Numbers target = load_vector<Numbers>(from) - load_vector<Numbers>(first);
    Numbers found{};
#pragma GCC unroll 8
    for (int k = 0; k < kTargets; ++k) found |= Numbers(target == target_[k]) & Number(k + 1);
    missed_ |= Numbers(found == Number(0));
    return __builtin_convertvector(found, Found);
  }

  bool has_missed() const {
    Vector<uint32_t> bits{};
    std::memcpy(&bits, &missed_, sizeof missed_);
    return !is_zero(bits);
  }

 private:
  using Numbers = Vector<Number, int(sizeof(Number)) * kTogether>;
  Number target_[kTargets];
  Numbers missed_{};
};

/// Puts sources into their cells while each index names a target of its own source. `Ways` does all
/// once more where one does not.
template <class T, class Index, class Ways>
class UnpoolByCells : protected Ways {
 public:
  /// `lanes` planes side by side in a task.
  UnpoolByCells(const UnpoolPlan& plan, const Arrays& a, int64_t lanes)
      : Ways(plan, a), cell_(plan), rows_(rows(plan, lanes)) {}

 protected:
  using Ways::plan_, Ways::x_, Ways::indices_, Ways::y_;
  using Number = std::make_unsigned_t<Index>;
  static constexpr int64_t kRowBytes = tuning::unpool::kCellRowBytes,
                           kMost = kRowBytes / int64_t(sizeof(T));

  /// Calls put(task) for some rows of sources of each of these tasks.
  template <class Put>
  void run(TaskSpace space, const Put& put) const {
    space.dim[kSpaceDim].size = (rows(plan_) + rows_ - 1) / rows_;
    if (this->any(space, [&](const Task& task) { return !put(task); })) Ways::run();
  }

  /// Neighbouring sources of a row, whose rows of targets begin at `to`.
  struct Part {
    const T* x;
    const Index* from;
    int64_t first, count;  // the first one's first target
    T* to[UnpoolCell::kMostRows];
  };

  /// Rows of targets before they go past the caches.
  struct Rows {
    T at[UnpoolCell::kMostRows][kMost];
  };

  /// Whether rows of targets go past the caches; a short one's ends would cost too much.
  bool is_streamed(int64_t lanes) const {
    const int64_t size = sizeof(T), row = plan_.extent[2].x * cell_.size[2] * lanes * size;
    return row >= tuning::unpool::kFewestStreamed && cpu::is_streamed(plan_.targets() * size);
  }

  /// Calls put(part) for all sources of a task of so many planes side by side, at most so many of a
  /// row at once. False as soon as that is.
  template <class Put>
  bool put_rows(const Task& task, int64_t lanes, int64_t most, bool is_streamed,
                const Put& put) const {
    const UnpoolExtent* const e = plan_.extent;
    const int64_t begin = task.space(0) * rows_, end = std::min(begin + rows_, rows(plan_));
    const UnpoolSource& s = plan_.source[2];
    Part part{x_ + task.x + begin * e[2].x * s.x,
              indices_ + task.indices + begin * e[2].x * s.indices,
              0,
              0,
              {}};
    T* const y = y_ + task.y;
    const Room<Rows> rows;
    Pace pace;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t a = row / e[1].x, b = row % e[1].x;
      part.first = (a * cell_.size[0] * e[1].y + b * cell_.size[1]) * e[2].y;
      for (int64_t left = e[2].x; left > 0; left -= part.count) {
        part.count = left <= most ? left : std::min(most, (left + 1) / 2);  // no short last one
        place(part, y, is_streamed ? &*rows : nullptr);
        if (!put(part)) {
          fence_stores();  // before the same places are written once more
          return false;
        }
        if (is_streamed) stream(part, y, lanes);
        part.x += part.count * s.x;
        part.from += part.count * s.indices;
        part.first += part.count * cell_.size[2];
        pace.add(part.count * lanes);
      }
      clear_beside(a, b, y, lanes);
    }
    return true;
  }

  /// Calls fn.operator()<count>() with the number of a cell's targets.
  template <class Fn>
  auto visit_count(const Fn& fn) const {
    switch (cell_.count) {
      case 2: return fn.template operator()<2>();
      case 4: return fn.template operator()<4>();
      default: return fn.template operator()<8>();
    }
  }

  /// The targets of a part's first source.
  void targets(const Part& part, Number* at) const {
    for (int64_t r = 0; r < cell_.rows(); ++r)
      for (int64_t k = 0; k < cell_.size[2]; ++k) *at++ = Number(part.first + cell_.row[r] + k);
  }

  const UnpoolCell cell_;

 private:
  int64_t step() const { return plan_.target[2].y; }

  void place(Part& part, T* y, Rows* rows) const {
    for (int64_t r = 0; r < cell_.rows(); ++r)
      part.to[r] = rows ? rows->at[r] : y + (part.first + cell_.row[r]) * step();
  }

  void stream(const Part& part, T* y, int64_t lanes) const {
    const int64_t bytes = part.count * cell_.size[2] * lanes * int64_t(sizeof(T));
    for (int64_t r = 0; r < cell_.rows(); ++r)
      stream_bytes(y + (part.first + cell_.row[r]) * step(), part.to[r], bytes);
  }

  /// Zeros beside and behind a row of cells, where no source's targets are.
  void clear_beside(int64_t a, int64_t b, T* y, int64_t lanes) const {
    const UnpoolExtent* const e = plan_.extent;
    const int64_t slice = a * cell_.size[0], line = b * cell_.size[1],
                  used = e[2].x * cell_.size[2];
    const bool is_last = b + 1 == e[1].x;
    const auto clear = [&](int64_t begin, int64_t end) {
      if (begin < end) Zeros<T>(y + begin * step(), step(), lanes, end - begin).finish();
    };
    for (int64_t r = 0; r < cell_.rows() && used < e[2].y; ++r) {
      const int64_t begin = (slice * e[1].y + line) * e[2].y + cell_.row[r];
      clear(begin + used, begin + e[2].y);
    }
    for (int64_t k = 0; k < cell_.size[0] && is_last; ++k)
      clear(((slice + k) * e[1].y + line + cell_.size[1]) * e[2].y,
            (slice + k + 1) * e[1].y * e[2].y);
    if (is_last && a + 1 == e[0].x)
      clear((slice + cell_.size[0]) * e[1].y * e[2].y, plan_.plane_targets());
  }

  static int64_t rows(const UnpoolPlan& plan) { return plan.extent[0].x * plan.extent[1].x; }
  static int64_t rows(const UnpoolPlan& plan, int64_t lanes) {
    const int64_t bytes = (plan.plane_targets() * lanes / rows(plan) + 1) * int64_t(sizeof(T));
    return std::clamp<int64_t>(tuning::unpool::kTaskBytes / bytes, 1, rows(plan));
  }

  const int64_t rows_;  // of sources, in a task
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
