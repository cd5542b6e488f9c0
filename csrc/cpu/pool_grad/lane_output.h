// Where gradients of planes that lie side by side go: pixels of lanes, past the caches or not.
#pragma once

#include "cpu/memory/line_stream.h"
#include "cpu/pool_grad/covers.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

template <class T>
class LaneOutput {
 public:
  static constexpr int64_t kLine = 64 / int64_t(sizeof(T));

  LaneOutput(const PoolGradPlan& plan, void* result)
      : plan_(plan), result_(static_cast<T*>(result)) {
    int64_t elements = plan.forward.batch[0] * plan.forward.batch[1];
    for (const PoolAxis& a : plan.forward.axis) elements *= a.in;
    is_streamed_ = cudml::cpu::is_streamed(elements * int64_t(sizeof(T)));
    is_whole_ = are_lines_whole();
  }

  bool is_streamed() const { return is_streamed_; }
  /// Whether tasks of whole lines of lanes write whole lines of memory.
  bool is_whole() const { return is_whole_; }

  T* place(const Task& task, int64_t z, int64_t y, int64_t x) const {
    const int64_t* const step = plan_.result.space;
    return result_ + task.x + z * step[0] + y * step[1] + x * step[2];
  }

  /// n elements of a row from number x on, all lanes of one after the other.
  void put(const Task& task, int64_t z, int64_t y, int64_t x, int64_t n, const T* from,
           LineStream& out) const {
    const int64_t step = plan_.result.space[2];
    const int64_t run = task.n == step ? n : 1, bytes = run * task.n * int64_t(sizeof(T));
    T* dst = place(task, z, y, x);
    for (int64_t i = 0; i < n; i += run, dst += run * step, from += run * task.n) {
      if (!is_streamed_ || is_whole_) {
        is_streamed_ ? stream_bytes(dst, from, bytes) : copy_bytes(dst, from, bytes);
        continue;
      }
      out.seek(dst);
      out.copy(from, bytes);
    }
  }

  /// Elements of a row from number x on that no window reaches.
  void put_nothing(const Task& task, int64_t z, int64_t y, int64_t x) const {
    for (; x < plan_.forward.axis[2].in; ++x) std::fill_n(place(task, z, y, x), task.n, T{});
  }

 private:
  bool are_lines_whole() const {
    const PoolPlan& f = plan_.forward;
    const PoolStrides& r = plan_.result;
    int64_t places = f.batch[1];
    for (int i = 0; i < 3; ++i) places |= f.axis[i].in > 1 ? r.space[i] : 0;
    for (int i = 0; i < f.outer_rank; ++i) places |= plan_.result_outer[i];
    places |= f.batch[0] > 1 ? r.batch[0] : 0;
    return places % kLine == 0 && bytes_to_line(result_) == 0;
  }

  const PoolGradPlan& plan_;
  T* const result_;
  bool is_streamed_, is_whole_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
