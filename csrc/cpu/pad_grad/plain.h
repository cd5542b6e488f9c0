// Gradients of padding element by element.
#pragma once

#include "cpu/pad_grad/gather.h"
#include "cpu/threads/parallel.h"
#include "ops/pool_shape.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Walks the elements of the result, axis `plan.rank - 1` fastest.
template <class T>
class Elements {
 public:
  Elements(const PadGradPlan& plan, const T* grad, int64_t element)
      : gather(plan, grad), plan_(plan) {
    for (int d = plan.rank - 1; d >= 0; --d) {
      at_[d] = element % plan.axis[d].in;
      element /= plan.axis[d].in;
      enter(d);
    }
    gather.settle();
  }

  /// From the result's first element.
  int64_t offset() const { return offset_; }
  int64_t at(int d) const { return at_[d]; }

  void advance() {
    int d = plan_.rank - 1;
    for (; d >= 0 && at_[d] + 1 == plan_.axis[d].in; --d) move(d, 0);
    if (d >= 0) move(d, at_[d] + 1);
    gather.settle();
  }

  Gather<T> gather;

 private:
  void enter(int d) {
    gather.place(d, at_[d]);
    offset_ += at_[d] * plan_.axis[d].stride;
  }
  void move(int d, int64_t i) {
    offset_ -= at_[d] * plan_.axis[d].stride;
    at_[d] = i;
    enter(d);
  }

  const PadGradPlan& plan_;
  int64_t at_[kMaxRank];
  int64_t offset_ = 0;
};

/// Bytes that the sums read, repeated elements each time, and the result's.
int64_t work_bytes(const PadGradPlan& plan) {
  return saturating_product(saturating_sum(plan.terms(), plan.elements()),
                            int64_t(size_of(plan.dtype)));
}

template <class T>
void gather_all(const PadGradPlan& plan, const T* grad, T* result) {
  parallel_for(plan.elements(), work_bytes(plan), [&](int64_t begin, int64_t end) {
    Elements<T> elements(plan, grad, begin);
    for (int64_t e = begin; e < end; ++e) {
      result[elements.offset()] = store_as<T>(elements.gather.sum());
      if (e + 1 < end) elements.advance();
    }
  });
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
