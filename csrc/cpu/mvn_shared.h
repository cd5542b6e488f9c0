// A scale or bias that all groups share: converted to floats once, or a stretch at a time.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/mvn_parts.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

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

  /// `stride` of `plan` is that of `p`.
  SharedRow(const Parameter<T>& p, const MvnPlan& plan, int64_t MvnAxis::* stride) : p_(p) {
    if (plan.reduced_rank != 1) return;
    for (int d = 0; d < plan.kept_rank; ++d)
      if (plan.kept[d].*stride) return;
    size_ = plan.group_size;
    stride_ = plan.reduced[0].*stride;
    const bool is_in_place = p.is_wide && stride_ == 1;
    const int64_t most = plan.groups < kManyGroups ? kMostRoom / 4 : kMostRoom;
    if (stride_ == 0 || (!is_in_place && size_ > most)) return;
    if (!is_in_place) room_.reset(new float[size_t(size_)]);
    whole_.row = p.row(0, stride_, size_, room_.get());
  }

  bool exists() const { return stride_ != 0; }
  bool is_in_parts() const { return exists() && !whole_.row; }

  /// The whole row, unless that would take too much room.
  Part whole() const { return whole_; }

  /// The whole row, or up to n values from `first` on, which `buffer` has room for.
  Part part(int64_t first, int64_t n, float* buffer) const {
    if (whole_.row || !exists()) return whole_;
    return {p_.copy(first * stride_, stride_, std::min(n, size_ - first), buffer), first};
  }

 private:
  /// More floats cost more page faults than few groups cost conversions.
  static constexpr int64_t kMostRoom = 65536, kManyGroups = 64;

  const Parameter<T>& p_;
  int64_t size_ = 0, stride_ = 0;
  std::unique_ptr<float[]> room_;
  Part whole_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
