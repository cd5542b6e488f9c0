// Gradients of padding line by line: inside, a line is the sum of a few lines of the incoming
// gradient, mostly of one; the terms of the elements at its ends are looked up.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/pad_grad/ends.h"
#include "cpu/pad_grad/plain.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// One element, beside vectors of them.
struct Single {};

template <class T>
inline Acc<T> load_lanes(const T* p, Single) {
  return load_float(p);
}
template <class T>
inline Vector<Acc<T>> load_lanes(const T* p, Whole) {
  return load_floats(p);
}
template <class T>
inline Floats load_lanes(const T* p, Partial lanes) {
  return load_wide(p, lanes);
}

template <class T>
inline void store_lanes(T* p, Acc<T> v, Single) {
  store_float(p, v);
}
template <class T>
inline void store_lanes(T* p, const Vector<Acc<T>>& v, Whole) {
  store_floats(p, v);
}
template <class T>
inline void store_lanes(T* p, Floats v, Partial lanes) {
  store_narrow(p, v, lanes);
}

/// Writes n elements that sum(i, lanes) gives, in vectors of which the last may overlap another.
template <class T, class Sum>
inline void store_sums(T* dst, int64_t n, const Sum& sum) {
  constexpr int64_t kStep = kLanes<Acc<T>>;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) store_lanes(dst + i, sum(i, Whole{}), Whole{});
  if (i == n) return;
  if (n >= kStep) return store_lanes(dst + n - kStep, sum(n - kStep, Whole{}), Whole{});
  if constexpr (std::is_same_v<Acc<T>, float>)
    store_lanes(dst, sum(0, Partial{n}), Partial{n});
  else
    for (; i < n; ++i) store_lanes(dst + i, sum(i, Single{}), Single{});
}

/// Lines of the incoming gradient that add up to one line.
template <class T>
struct Rows {
  static constexpr int64_t kMost = kChain;

  const T* at[kMost];
  int64_t count = 0;

  template <class Lanes>
  auto sum(int64_t offset, Lanes lanes) const {
    auto sum = load_lanes(at[0] + offset, lanes);
    for (int64_t r = 1; r < count; ++r) sum += load_lanes(at[r] + offset, lanes);
    return sum;
  }
};

template <class T>
class GradLines {
  /// Whether lanes of vectors of these elements can be put into any order.
  static constexpr bool kHasVectors = kPermutes && std::is_same_v<Acc<T>, float>;

 public:
  explicit GradLines(const GradLine& line)
      : start_(line.axis.start),
        run_(line.run),
        in_(line.axis.in),
        grad_step_(line.axis.grad_stride),
        step_(line.axis.stride),
        is_packed_(line.is_packed) {
    ends_->prepare(line);
    vectors_->count = 0;
    if constexpr (kHasVectors) vectors_->prepare(line, *ends_);
  }

  /// Writes elements [from, to) of the line that begins at dst: all as if they had one term, then
  /// those again that have several.
  void write(const Rows<T>& rows, T* dst, int64_t from, int64_t to) const {
    if (is_packed_)
      write_single(rows, dst + from * run_, (start_ + from) * run_, (to - from) * run_);
    else
      for (int64_t i = from; i < to; ++i)
        write_single(rows, dst + i * step_, (start_ + i) * grad_step_, run_);
    if (vectors_->count > 0 && to - from == in_) return write_groups(rows, dst);
    const Ends& ends = *ends_;
    const int64_t* const elements = ends.element;
    int64_t e = from == 0 ? 0 : std::lower_bound(elements, elements + ends.count, from) - elements;
    for (; e < ends.count && elements[e] < to; ++e) {
      const int64_t* const offsets = ends.offset + ends.first[e];
      const int64_t count = ends.terms(e);
      T* const element = dst + elements[e] * step_;
      const auto sum = [&](int64_t i, auto lanes) {
        auto total = rows.sum(offsets[0] + i, lanes);
        for (int64_t k = 1; k < count; ++k) total += rows.sum(offsets[k] + i, lanes);
        return total;
      };
      if (run_ > 1)
        store_sums(element, run_, sum);
      else
        store_lanes(element, sum(0, Single{}), Single{});
    }
  }

 private:
  void write_single(const Rows<T>& rows, T* dst, int64_t offset, int64_t n) const {
    if (n == 1) return store_lanes(dst, rows.sum(offset, Single{}), Single{});
    if (rows.count == 1) return copy_bytes(dst, rows.at[0] + offset, n * int64_t(sizeof(T)));
    store_sums(dst, n, [&](int64_t i, auto lanes) { return rows.sum(offset + i, lanes); });
  }

  void write_groups([[maybe_unused]] const Rows<T>& rows, [[maybe_unused]] T* dst) const {
    if constexpr (kHasVectors)
      for (int64_t i = 0; i < vectors_->count; ++i) {
        const auto& group = vectors_->group[i];
        Floats sum = rows.sum(start_ + group.element, Whole{});
        for (int64_t k = 0; k < group.count; ++k) {
          const auto& other = group.other[k];
          const Floats nothing = all_lanes(-0.0f);  // which changes no sum
          sum += permuted(nothing, rows.sum(other.at, Whole{}), other.index, other.has);
        }
        store_lanes(dst + group.element, sum, Whole{});
      }
  }

  const int64_t start_, run_, in_, grad_step_, step_;  // elements from position to position
  const bool is_packed_;
  const Room<Ends> ends_;
  const Room<EndVectors> vectors_;
};

/// Walks the lines in order.
template <class T>
class GradWalk {
 public:
  GradWalk(const PadGradPlan& plan, const T* grad, T* result, int64_t line)
      : plan_(plan), result_(result) {
    from_[0] = grad;
    for (int d = plan.folded - 1; d >= 0; --d) {
      enter(d, line % plan.axis[d].in);
      line /= plan.axis[d].in;
    }
    find_rows(0);
  }

  const Rows<T>& rows() const { return rows_; }
  T* result() const { return result_; }

  void advance() {
    int d = plan_.folded - 1;
    for (; d >= 0 && at_[d] + 1 == plan_.axis[d].in; --d) enter(d, 0);
    if (d < 0) return;
    enter(d, at_[d] + 1);
    find_rows(d);
  }

 private:
  void enter(int d, int64_t i) {
    result_ += (i - at_[d]) * plan_.axis[d].stride;
    at_[d] = i;
    wide_ -= preimages_[d].count > 1;
    preimages_[d] = preimages_of(plan_.axis[d], i);
    wide_ += preimages_[d].count > 1;
  }

  /// In ascending order: the last axis' positions follow each other. Axes before `d` are as before.
  void find_rows(int d) {
    for (; d < plan_.folded; ++d)
      from_[d + 1] = from_[d] + preimages_[d].first * plan_.axis[d].grad_stride;
    rows_.at[0] = from_[plan_.folded];
    rows_.count = 1;
    if (wide_ == 0) return;
    for (d = plan_.folded - 1; d >= 0; --d) {
      const Preimages& p = preimages_[d];
      const int64_t stride = plan_.axis[d].grad_stride, before = rows_.count;
      for (int64_t k = 1; k < p.count; ++k)
        for (int64_t r = 0; r < before; ++r)
          rows_.at[k * before + r] = rows_.at[r] + (p.at(k) - p.first) * stride;
      rows_.count = before * p.count;
    }
  }

  const PadGradPlan& plan_;
  T* result_;
  const T* from_[kMaxRank];  // at the first position of the axes before
  int64_t at_[kMaxRank] = {};
  Preimages preimages_[kMaxRank] = {};
  int wide_ = 0;  // axes with several positions
  Rows<T> rows_;
};

template <class T>
void add_rows(const PadGradPlan& plan, const T* grad, T* result) {
  const GradLine line(plan);
  const GradLines<T> writer(line);
  const int64_t n = line.axis.in, item = line.run * int64_t(sizeof(T));
  const int64_t step = std::clamp<int64_t>(tuning::pad_grad::kPieceBytes / item, 1, n),
                each = (n + step - 1) / step;
  int64_t lines = 1;
  for (int d = 0; d < plan.folded; ++d) lines *= plan.axis[d].in;
  parallel_for(lines * each, work_bytes(plan), [&](int64_t begin, int64_t end) {
    GradWalk<T> walk(plan, grad, result, begin / each);
    int64_t piece = begin % each;
    for (int64_t task = begin; task < end; ++task) {
      writer.write(walk.rows(), walk.result(), piece * step, std::min(n, (piece + 1) * step));
      if (++piece < each) continue;
      piece = 0;
      if (task + 1 < end) walk.advance();
    }
  });
}

/// Whether add_rows() can take the plan's lines.
bool has_few_ends(const PadGradPlan& plan) {
  const Room<Ends> ends;
  return ends->prepare(GradLine(plan));
}

bool has_few_rows(const PadGradPlan& plan) {
  int64_t rows = 1;
  for (int d = 0; d < plan.folded && rows <= Rows<float>::kMost; ++d)
    rows *= most_preimages(plan.axis[d]);
  return rows <= Rows<float>::kMost;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
