// Where packed rows of dx go: to their place, whole lines of it past the caches, or by way of a
// room that holds some rows.
#pragma once

#include <memory>
#include <optional>

#include "cpu/memory/line_stream.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn_grad/row_space.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// How rows of n elements reach memory. Those that follow each other share lines, where they do not
/// all begin some, which would be read before they are written: rows of whole lines' lengths have
/// seams, other ones are gathered, if they are short.
template <class T>
struct RowPlaces {
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));
  static constexpr int64_t kMostGathered = tuning::mvn_grad::kGatheredBytes;

  T* dx = nullptr;
  int64_t n = 0;
  bool is_streamed = false, has_seams = false, is_gathered = false;

  RowPlaces(const MvnGradPlan& plan, T* to, bool is_large) : dx(to), n(plan.cell_size) {
    if (!plan.wants_dx || plan.reduced[0].dx != 1 || !is_large) return;
    int64_t steps = n;
    for (int d = 0; d < plan.kept_rank; ++d) steps |= plan.kept[d].dx;
    is_streamed = steps % kLine == 0;
    const bool are_packed = plan.kept_rank > 0 && plan.kept[plan.kept_rank - 1].dx == n;
    has_seams = are_packed && is_streamed && bytes_to_line(dx) != 0;
    is_gathered = are_packed && !is_streamed && n * int64_t(sizeof(T)) <= kMostGathered;
  }

  /// The first element of a row that begins a line, if such rows are streamed.
  int64_t first_whole() const { return is_streamed ? bytes_to_line(dx) / int64_t(sizeof(T)) : 0; }
};

/// One thread's rows of dx, up to `batch` at a time.
template <class T>
class RowOutput {
 public:
  RowOutput(const RowPlaces<T>& places, int64_t batch) : places_(places) {
    if (places.has_seams) seams_.emplace(places.first_whole(), places.n);
    if (!places.is_gathered) return;
    room_.reset(new T[size_t(batch * places.n + 2 * places.kLine)]);
    rows_ = room_.get() + bytes_to_line(room_.get()) / int64_t(sizeof(T));
    stream_.reset(new LineStream);
  }

  RowFlow<T> flow() { return {places_.is_streamed, seams_ ? &*seams_ : nullptr}; }

  /// Where row r of some, which stand at `at`, is to be written, whole vectors of it.
  T* place(const int64_t* at, int64_t r) const {
    return rows_ ? rows_ + r * places_.n : places_.dx + at[r];
  }

  /// Row by row these have been written there.
  void put(const int64_t* at, int64_t count) {
    if (seams_) put_seams(at, count);
    if (!rows_) return;
    for (int64_t r = 0, n; r < count; r += n) {
      n = 1;
      while (r + n < count && at[r + n] == at[r] + n * places_.n) ++n;
      stream_->seek(places_.dx + at[r]);
      stream_->copy(rows_ + r * places_.n, n * places_.n * int64_t(sizeof(T)));
    }
  }

 private:
  void put_seams(const int64_t* at, int64_t count) {
    for (int64_t r = 0; r < count; ++r) seams_->put(r, places_.dx + at[r]);
    seams_->finish(count);
  }

  const RowPlaces<T>& places_;
  std::optional<RowSeams<T>> seams_;
  std::unique_ptr<T[]> room_;
  std::unique_ptr<LineStream> stream_;
  T* rows_ = nullptr;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
