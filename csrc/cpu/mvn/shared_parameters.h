// A scale or bias that all groups share: converted to floats once, or a stretch at a time.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/memory/tuning.h"
#include "cpu/mvn/walk.h"
#include "cpu/simd/stream.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn::kManyGroups;
using tuning::mvn::kMostMoved;
using tuning::mvn::kMostRoom;

/// n values as a packed row in `buffer`. Not inlined: there is a loop for each type and stride.
template <class T>
[[gnu::noinline]] const float* copied(const Parameter<T>& p, int64_t offset, int64_t stride,
                                      int64_t n, float* buffer) {
  return p.copy(offset, stride, n, buffer);
}

/// The same, in place where the values are such a row already.
template <class T>
inline const float* row_of(const Parameter<T>& p, int64_t offset, int64_t stride, int64_t n,
                           float* buffer) {
  if (p.is_wide && stride == 1) return static_cast<const float*>(p.data) + offset;
  return copied(p, offset, stride, n, buffer);
}

/// Scale or bias as floats, where all groups share a row of it.
template <class T>
class SharedRow {
 public:
  /// Values of the row from `first` on. None where `row` is null.
  struct Part {
    const float* row = nullptr;
    int64_t first = 0;

    const float* at(int64_t position) const { return row + (position - first); }
  };

  /// `stride` of `plan` is that of `p`. Position `head` is where vectors begin, if that is the same
  /// in all groups: the row is to begin a line there.
  SharedRow(const Parameter<T>& p, const MvnPlan& plan, int64_t MvnAxis::* stride, int64_t head)
      : p_(p) {
    if (plan.reduced_rank != 1) return;
    for (int d = 0; d < plan.kept_rank; ++d)
      if (plan.kept[d].*stride) return;
    size_ = plan.group_size;
    stride_ = plan.reduced[0].*stride;
    const bool is_in_place = p.is_wide && stride_ == 1, are_many = plan.groups >= kManyGroups;
    if (stride_ == 0 || (!is_in_place && size_ > most_converted(are_many))) return;
    const auto* const given = is_in_place ? static_cast<const float*>(p.data) : nullptr;
    const bool is_in_phase = head < 0 || bytes_to_line(given + head) == 0;
    if (is_in_place && (is_in_phase || !are_many || size_ > kMostMoved)) {
      whole_.row = given;
      return;
    }
    room_.reset(new float[size_t(size_) + 16]);
    float* const row = room_.get() + bytes_to_line(room_.get() + std::max<int64_t>(head, 0)) / 4;
    whole_.row = copied(p, 0, stride_, size_, row);
  }

  bool exists() const { return stride_ != 0; }
  bool is_in_parts() const { return exists() && !whole_.row; }

  /// The whole row, unless that would take too much room.
  Part whole() const { return whole_; }

  /// The whole row, or up to n values from `first` on, which `buffer` has room for.
  Part part(int64_t first, int64_t n, float* buffer) const {
    if (whole_.row || !exists()) return whole_;
    return {copied(p_, first * stride_, stride_, std::min(n, size_ - first), buffer), first};
  }

 private:
  /// Elements of a row that are converted before any group is worked on. For other threads' few
  /// groups they would come from this one's cache, which takes longer than converting them.
  static int64_t most_converted(bool are_many) {
    if (are_many) return kMostRoom;
    return num_threads() > 1 ? 0 : kMostRoom / 4;
  }

  const Parameter<T>& p_;
  int64_t size_ = 0, stride_ = 0;
  std::unique_ptr<float[]> room_;
  Part whole_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
