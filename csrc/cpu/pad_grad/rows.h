// Gradients of padding line by line: inside, a line is the sum of a few lines of the incoming
// gradient, mostly of one; the terms of the elements at its ends are looked up.
#pragma once

#include "cpu/pad_grad/gather.h"
#include "cpu/simd/copy.h"
#include "cpu/simd/lanes.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A line: the folded axis, at each of whose positions `run` elements stand packed.
struct GradLine {
  PadGradAxis axis;
  int64_t run = 1;
  bool is_packed = false;

  explicit GradLine(const PadGradPlan& plan) : axis(plan.axis[plan.folded]) {
    if (plan.folded < plan.rank - 2) return;
    if (plan.folded == plan.rank - 2) {
      const PadGradAxis& inside = plan.axis[plan.rank - 1];
      if (inside.is_padded() || inside.grad_stride != 1 || inside.stride != 1) return;
      run = inside.out;
    }
    is_packed = (axis.out == 1 || axis.grad_stride == run) && (axis.in == 1 || axis.stride == run);
  }
};

/// The terms of the elements at the ends of a line, as offsets from its first position.
class Ends {
 public:
  static constexpr int64_t kMost = 1024, kMostTerms = 4096;

  /// False where there are too many.
  bool prepare(const GradLine& line) {
    const PadGradAxis& a = line.axis;
    begin_ = a.inner_begin;
    gap_ = a.inner_end - a.inner_begin;
    if (a.in - gap_ > kMost) return false;
    int64_t count = 0, terms = 0;
    for (int64_t i = 0; i < a.in; ++i) {
      if (i == a.inner_begin) i = a.inner_end;
      if (i == a.in) break;
      const Preimages p = preimages_of(a, i);
      if (p.count > kChain || terms + p.count > kMostTerms) return false;
      first_[count++] = int32_t(terms);
      for (int64_t k = 0; k < p.count; ++k) offset_[terms++] = p.at(k) * line.run;
    }
    first_[count] = int32_t(terms);
    return true;
  }

  /// The offsets of element i, which is not an inner one, and how many they are.
  const int64_t* terms(int64_t i, int64_t* count) const {
    const int64_t number = i < begin_ ? i : i - gap_;
    *count = first_[number + 1] - first_[number];
    return offset_ + first_[number];
  }

 private:
  int64_t begin_ = 0, gap_ = 0;  // inner elements, which are left out
  int32_t first_[kMost + 1];
  int64_t offset_[kMostTerms];
};

/// Lines of the incoming gradient that add up to one line.
template <class T>
struct Rows {
  static constexpr int64_t kMost = kChain;

  const T* at[kMost];
  int64_t count = 0;

  template <class A>
  A term(int64_t offset) const {
    A sum = load_as_acc(at[0][offset]);
    for (int64_t r = 1; r < count; ++r) sum += load_as_acc(at[r][offset]);
    return sum;
  }
  Vector<Acc<T>> terms(int64_t offset) const {
    auto sum = load_floats(at[0] + offset);
    for (int64_t r = 1; r < count; ++r) sum += load_floats(at[r] + offset);
    return sum;
  }
};

template <class T>
class GradLines {
 public:
  using A = Acc<T>;

  GradLines(const GradLine& line, const Ends& ends) : a_(line.axis), run_(line.run), ends_(ends) {}

  /// Writes elements [from, to) of the line at dst.
  void write(const Rows<T>& rows, T* dst, int64_t from, int64_t to) const {
    const int64_t begin = std::clamp(a_.inner_begin, from, to);
    const int64_t end = std::clamp(a_.inner_end, from, to);
    for (int64_t i = from; i < begin; ++i) write_end(rows, dst + i * run_, i);
    write_inner(rows, dst + begin * run_, (a_.start + begin) * run_, (end - begin) * run_);
    for (int64_t i = std::max(begin, end); i < to; ++i) write_end(rows, dst + i * run_, i);
  }

 private:
  void write_inner(const Rows<T>& rows, T* dst, int64_t offset, int64_t n) const {
    if (rows.count == 1) return copy_bytes(dst, rows.at[0] + offset, n * int64_t(sizeof(T)));
    int64_t i = 0;
    for (; i + kLanes<A> <= n; i += kLanes<A>) store_floats(dst + i, rows.terms(offset + i));
    for (; i < n; ++i) dst[i] = store_as<T>(rows.template term<A>(offset + i));
  }

  void write_end(const Rows<T>& rows, T* dst, int64_t element) const {
    int64_t count;
    const int64_t* const terms = ends_.terms(element, &count);
    if (count == 1) return write_inner(rows, dst, terms[0], run_);
    int64_t i = 0;
    for (; i + kLanes<A> <= run_; i += kLanes<A>) {
      auto sum = rows.terms(terms[0] + i);
      for (int64_t k = 1; k < count; ++k) sum += rows.terms(terms[k] + i);
      store_floats(dst + i, sum);
    }
    for (; i < run_; ++i) {
      A sum = rows.template term<A>(terms[0] + i);
      for (int64_t k = 1; k < count; ++k) sum += rows.template term<A>(terms[k] + i);
      dst[i] = store_as<T>(sum);
    }
  }

  const PadGradAxis& a_;
  int64_t run_;
  const Ends& ends_;
};

/// Walks the lines in order.
template <class T>
class GradWalk {
 public:
  GradWalk(const PadGradPlan& plan, const T* grad, T* result, int64_t line)
      : plan_(plan), grad_(grad), result_(result) {
    for (int d = plan.folded - 1; d >= 0; --d) {
      enter(d, line % plan.axis[d].in);
      line /= plan.axis[d].in;
    }
    find_rows();
  }

  const Rows<T>& rows() const { return rows_; }
  T* result() const { return result_; }

  void advance() {
    int d = plan_.folded - 1;
    for (; d >= 0 && at_[d] + 1 == plan_.axis[d].in; --d) enter(d, 0);
    if (d < 0) return;
    enter(d, at_[d] + 1);
    find_rows();
  }

 private:
  void enter(int d, int64_t i) {
    result_ += (i - at_[d]) * plan_.axis[d].stride;
    at_[d] = i;
    preimages_[d] = preimages_of(plan_.axis[d], i);
  }

  /// In ascending order: the last axis' positions follow each other.
  void find_rows() {
    rows_.count = 1;
    rows_.at[0] = grad_;
    for (int d = plan_.folded - 1; d >= 0; --d) {
      const Preimages& p = preimages_[d];
      const int64_t stride = plan_.axis[d].grad_stride, before = rows_.count;
      for (int64_t k = p.count - 1; k >= 0; --k)
        for (int64_t r = 0; r < before; ++r)
          rows_.at[k * before + r] = rows_.at[r] + p.at(k) * stride;
      rows_.count = before * p.count;
    }
  }

  const PadGradPlan& plan_;
  const T* grad_;
  T* result_;
  int64_t at_[kMaxRank] = {};
  Preimages preimages_[kMaxRank];
  Rows<T> rows_;
};

/// Bytes of a piece of a line: longer lines are cut, so that threads can share them.
constexpr int64_t kGradPieceBytes = 256 * 1024;

template <class T>
void add_rows(const PadGradPlan& plan, const T* grad, T* result) {
  const GradLine line(plan);
  Ends ends;
  ends.prepare(line);
  const GradLines<T> writer(line, ends);
  const int64_t n = line.axis.in, item = line.run * int64_t(sizeof(T));
  const int64_t step = std::clamp<int64_t>(kGradPieceBytes / item, 1, n),
                each = (n + step - 1) / step;
  int64_t lines = 1;
  for (int d = 0; d < plan.folded; ++d) lines *= plan.axis[d].in;
  parallel_for(lines * each, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
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
  Ends ends;
  return ends.prepare(GradLine(plan));
}

bool has_few_rows(const PadGradPlan& plan) {
  int64_t rows = 1;
  for (int d = 0; d < plan.folded && rows <= Rows<float>::kMost; ++d)
    rows *= most_preimages(plan.axis[d]);
  return rows <= Rows<float>::kMost;
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
