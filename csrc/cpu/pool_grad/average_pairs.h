// Gradients that go to two neighbours each: rows of them become rows twice as long.
#pragma once

#include <bit>
#include <numeric>
#include <vector>

#include "cpu/memory/sink.h"
#include "cpu/memory/tuning.h"
#include "cpu/pool/reduce.h"
#include "cpu/pool_grad/covers.h"
#include "cpu/pool_grad/neighbours.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Quotients, as products where the inverse is exact: that of a power of two.
template <class V>
struct Quotient {
  V divisor, inverse;
  bool is_exact;

  explicit Quotient(V n) : divisor(n), inverse(1 / n), is_exact(std::has_single_bit(uint64_t(n))) {}
  Vector<V> operator()(const Vector<V>& v, int64_t = 0) const {
    return is_exact ? v * inverse : v / divisor;
  }
};

/// Planes without gaps of windows without gaps, of two columns each: the result is one sequence, of
/// which vectors are made where they stand. They see the gradients alike every few rows.
template <class T>
class PairPlanes {
  using Sum = Acc<T>;
  using Place = IntegerLike<Sum>;
  static constexpr int64_t kStep = kLanes<Sum>;
  static constexpr int64_t kMostPeriod = tuning::pool_grad::kMostPeriod,
                           kChunk = tuning::pool_grad::kPairVectors;

 public:
  static bool fits(const PoolGradPlan& plan) {
    const PoolPlan& f = plan.forward;
    const PoolAxis &y = f.axis[1], &x = f.axis[2];
    const auto suits = [](const PoolAxis& a) {
      return a.start == 0 && a.window == a.stride && a.in == a.stride * a.out &&
             (a.dilation == 1 || a.window == 1);
    };
    const auto packed = [&](const PoolStrides& s, int64_t rows, int64_t columns) {
      const int64_t plane = rows * columns;
      return s.space[1] == columns && (f.batch[1] == 1 || s.batch[1] == plane) &&
             (f.batch[0] == 1 || s.batch[0] == plane * f.batch[1]);
    };
    return f.outer_rank == 0 && x.stride == 2 && x.out >= kStep && suits(x) && suits(y) &&
           packed(plan.result, y.in, x.in) && packed(f.y, y.out, x.out) &&
           period_of(y.stride * x.in) <= kMostPeriod;
  }

  PairPlanes(const PoolGradPlan& plan, const T* grad, T* result)
      : columns_(plan.forward.axis[2].in),
        same_(plan.forward.axis[1].stride * columns_),
        total_(plan.forward.batch[0] * plan.forward.batch[1] * plan.forward.axis[1].in * columns_),
        bytes_(plan.compulsory_bytes()),
        grad_(grad),
        result_(result),
        head_(std::min(total_, bytes_to_line(result) / int64_t(sizeof(T)))),
        vectors_((total_ - head_) / kStep),
        advance_(period_of(same_) * kStep / same_ * (columns_ / 2)),
        share_(Sum(plan.forward.axis[1].window * 2)),
        lines_(size_t(period_of(same_))) {
    for (int64_t i = 0; i < int64_t(lines_.size()); ++i)
      lines_[size_t(i)] = line_at(head_ + i * kStep);
  }

  void run() const {
    const bool streamed = is_streamed(total_ * int64_t(sizeof(T)));
    parallel_for((vectors_ + kChunk - 1) / kChunk, bytes_, [&](int64_t begin, int64_t end) {
      const int64_t last = std::min(vectors_, end * kChunk);
      streamed ? write<true>(begin * kChunk, last) : write<false>(begin * kChunk, last);
    });
    for (int64_t i = 0; i < head_; ++i) put(i);
    for (int64_t i = head_ + vectors_ * kStep; i < total_; ++i) put(i);
  }

 private:
  /// Gradients of the vector's elements: of those in one row the first vector holds all, of those
  /// in the next row the second.
  struct Line {
    Vector<Place> at;
    int64_t first, second;
  };

  /// Vectors until rows of `same` elements in all, all of one row of gradients, begin with one.
  static int64_t period_of(int64_t same) { return same / std::gcd(same, kStep); }

  int64_t source(int64_t i) const { return i / same_ * (columns_ / 2) + i % columns_ / 2; }

  /// No vector begins before the row of gradients that its period begins with, or reads on behind
  /// what it needs but in that row.
  [[gnu::noinline]] Line line_at(int64_t from) const {
    const int64_t joint = std::min(kStep, columns_ - from % columns_);
    Line line{};
    line.first = std::max<int64_t>(0, source(from + joint - 1) - kStep + 1);
    line.second =
        joint == kStep ? line.first : std::max<int64_t>(0, source(from + kStep - 1) - kStep + 1);
#pragma GCC unroll 1
    for (int64_t j = 0; j < kStep; ++j)
      line.at[j] =
          Place(j < joint ? source(from + j) - line.first : kStep + source(from + j) - line.second);
    return line;
  }

  template <bool kStreamed>
  [[gnu::noinline]] void write(int64_t v, int64_t end) const {
    const int64_t period = int64_t(lines_.size());
    const Line *const lines = lines_.data(), *const behind = lines + period;
    const T* grad = grad_ + v / period * advance_;
    T* to = result_ + head_ + v * kStep;
    const Quotient<Sum> share = share_;
    for (const Line* line = lines + v % period; v < end; ++v, to += kStep) {
      const auto a = load_floats(grad + line->first), b = load_floats(grad + line->second);
      const auto shares = share(shuffled(a, b, line->at));
      if constexpr (kStreamed)
        store_past(SumOf<T>{}, to, shares);
      else
        store_floats(to, shares);
      if (++line == behind) {
        line = lines;
        grad += advance_;
      }
    }
  }

  [[gnu::noinline]] void put(int64_t i) const {
    const auto v = share_(all_lanes(load_as_acc(grad_[source(i)])));
    store_part(SumOf<T>{}, result_ + i, v, 1);
  }

  const int64_t columns_, same_, total_, bytes_;
  const T* const grad_;
  T* const result_;
  const int64_t head_, vectors_, advance_;
  const Quotient<Sum> share_;
  std::vector<Line> lines_;
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
