// Where strips put their outputs.
#pragma once

#include "cpu/memory/sink.h"
#include "cpu/pool/strip_tasks.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// n columns of `lanes` items of kSize bytes each, `column` and `lane` bytes apart.
template <int kSize>
[[gnu::noinline]] void put_apart(char* to, const char* from, int64_t n, int64_t lanes,
                                 int64_t column, int64_t lane) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0; c < lanes; ++c, from += kSize)
      std::memcpy(to + j * column + c * lane, from, kSize);
}

/// The outputs of strips in one tensor, whether neighbours stand together there or not.
template <class T>
class StripSink {
 public:
  [[gnu::noinline]] StripSink(T* y, const PoolStrides& strides, const PoolPlan& p,
                              const StripShape& s, bool streamed)
      : sink_(y, streamed), y_(y), strides_(strides) {
    const int64_t column = strides.space[2], lane = strides.batch[1];
    const int64_t row = p.axis[2].out * s.planes;
    if (s.planes > 1 && lane == 1)
      places_ = column == s.planes && s.lanes == s.planes ? Places::rows : Places::columns;
    if (s.planes == 1 && (column == 1 || p.axis[2].out == 1)) places_ = Places::rows;
    const bool rows = s.rows == 1 || strides.space[1] == row;
    const bool planes = s.stack == 1 || lane == p.axis[1].out * row;
    if (places_ == Places::rows && rows && planes) places_ = Places::together;
  }

  /// Room for a strip, whose first output stands `offset` elements from y on, and for kSinkSlack
  /// bytes more.
  [[gnu::noinline]] T* room(int64_t offset, const Strip& s) {
    return places_ == Places::together ? sink_.room(offset, s.outputs()) : room_;
  }
  /// Takes what has been written there.
  void put(int64_t offset, const Strip& s) {
    if (places_ != Places::together) put_lines(offset, s.lines, s.columns.n, s.task.n);
  }

 private:
  /// How the outputs of a strip stand in y: all together, its rows or its columns apart, or each.
  enum class Places { together, rows, columns, single };

  [[gnu::noinline]] void put_lines(int64_t offset, const StripLines& s, int64_t n, int64_t lanes) {
    for (int64_t line = 0; line < s.lines; ++line) {
      const int64_t plane = s.plane(line), row = s.row(line) - s.first;
      const int64_t to = offset + row * strides_.space[1] + plane * strides_.batch[1];
      put_line(to, room_ + line * n * lanes, n, lanes);
    }
  }

  void put_line(int64_t to, const T* from, int64_t n, int64_t lanes) {
    if (places_ == Places::rows) {
      std::memcpy(sink_.room(to, n * lanes), from, size_t(n * lanes) * sizeof(T));
    } else if (places_ == Places::columns) {
      for (int64_t j = 0; j < n; ++j)
        std::memcpy(sink_.room(to + j * strides_.space[2], lanes), from + j * lanes,
                    size_t(lanes) * sizeof(T));
    } else {
      constexpr int64_t kItem = sizeof(T);
      put_apart<kItem>(reinterpret_cast<char*>(y_ + to), reinterpret_cast<const char*>(from), n,
                       lanes, strides_.space[2] * kItem, strides_.batch[1] * kItem);
    }
  }

  Places places_ = Places::single;
  Sink<T> sink_;
  T* y_;
  const PoolStrides& strides_;
  alignas(64) T room_[Sink<T>::kPiece + kSinkSlack / int64_t(sizeof(T))];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
