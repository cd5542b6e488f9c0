// Sums about a guessed pivot in one pass, and what normalizing needs from them.
#pragma once

#include <limits>

#include "cpu/mvn_vectors.h"
#include "math/moments.h"
#include "ops/mvn.h"

#if defined(CUDML_MVN_VECTORS)

namespace cudml::cpu::CUDML_ISA {
namespace {

/// A pivot from the sum of 1 / share of a group's numbers; 0 where that is not finite, since
/// infinities must add up as in the plain sum.
inline float guess_of(double sum, double share) {
  const auto guess = static_cast<float>(sum * share);
  return guess - guess == 0 ? guess : 0;
}

/// The same of a group in each lane.
inline Floats guesses_of(Floats sum, float share) {
  const Floats guess = sum * share;
  return guess - guess == 0 ? guess : Floats{};
}

constexpr double kMost32 = std::numeric_limits<float>::max();

/// Whether a guess was within two deviations of the mean, as far as that is known: squares may
/// overflow where only the mean is wanted.
template <class D>
inline auto is_near(D delta, D variance) {
  return (delta * delta <= 4 * variance) & (variance < kMost32);
}

/// D is double or a vector of them, F float or as many. Returns whether the guess was within two
/// deviations of the mean: the sum of squares about it is then at most five times that about the
/// mean, and loses as many units in the last place. NaN and infinities fail.
template <class D, class F>
inline auto finish_lanes(const MvnPlan& plan, D sum, D square, F guess, F& pivot, F& factor,
                         F& shift, F& near) {
  const auto n = double(plan.group_size);
  const D zero = {}, one = zero + 1;
  const D delta = plan.use_mean ? D(sum / n) : zero;
  const D variance = fused(-delta, delta, square / n);
  const D mean = as_doubles(guess) + delta;
  const D inverse = plan.use_variance ? D(one / root(variance + double(plan.epsilon))) : one;
  pivot = as_floats(mean);
  factor = as_floats(inverse);
  const D rest = as_doubles(pivot) - mean;
  shift = as_floats(rest == 0 ? zero : D(rest * inverse));
  near = as_floats((mean * mean <= 16 * variance) & (variance < kMost32) ? one : zero);
  return is_near(delta, variance);
}

/// What normalizing needs of kMost groups: (x - pivot) * factor + shift. `near` is 1 where the mean
/// is within four deviations of 0: x * factor + (shift - pivot * factor), rounded as numbers up to
/// 4 are, is then off by less than the sums may be.
template <int64_t kMost>
struct Coefficients {
  alignas(64) float pivot[kMost], factor[kMost], shift[kMost], near[kMost];
};

/// Sums over each of kMost groups of plan.group_size numbers: of x - guess and of its square.
template <int64_t kMost>
struct GroupSums {
  static_assert(kMost % kDoubles == 0);
  alignas(64) float guess[kMost];
  alignas(64) double sum[kMost], square[kMost];

  /// Coefficients of groups [0, count), and whether all guesses were good. All at once, which suits
  /// numbers that were written as vectors: others, read as such a moment later, are waited for.
  bool finish(const MvnPlan& plan, int64_t count, Coefficients<kMost>& result) const {
    auto are_good = kDoubleIndices == kDoubleIndices;
    for (int64_t i = 0; i < count; i += kDoubles) {  // the last lanes may stand for no group
      HalfFloats pivot, factor, shift, near;
      are_good &=
          finish_lanes(plan, load_vector<Doubles>(sum + i), load_vector<Doubles>(square + i),
                       load_vector<HalfFloats>(guess + i), pivot, factor, shift, near) |
          (kDoubleIndices >= count - i);
      store_vector(result.pivot + i, pivot);
      store_vector(result.factor + i, factor);
      store_vector(result.shift + i, shift);
      store_vector(result.near + i, near);
    }
    return all_of(are_good) || !plan.use_mean;
  }

  /// The same, one by one.
  bool finish_singly(const MvnPlan& plan, int64_t count, Coefficients<kMost>& result) const {
    bool are_good = true;
    for (int64_t i = 0; i < count; ++i)
      are_good &= finish_lanes(plan, sum[i], square[i], guess[i], result.pivot[i], result.factor[i],
                               result.shift[i], result.near[i]);
    return are_good || !plan.use_mean;
  }

  /// Whether group i's guess was good; if not, the mean takes its place.
  bool correct_guess(const MvnPlan& plan, int64_t i) {
    const auto n = double(plan.group_size);
    const double delta = sum[i] / n;
    if (is_near(delta, fused(-delta, delta, square[i] / n))) return true;
    guess[i] = guess_of(double(guess[i]) + delta, 1);  // the plain sum may not overflow
    return false;
  }

  /// Coefficients of a group whose guess is its mean, for want of a better one.
  void finish_surely(const MvnPlan& plan, int64_t i, Coefficients<kMost>& result) const {
    const Normalizer<float> n =
        normalizer_of(moments_about<float>(double(plan.group_size), guess[i], sum[i], square[i]),
                      plan.use_variance, plan.epsilon);
    result.pivot[i] = n.pivot;
    result.factor[i] = n.factor;
    result.shift[i] = n.delta == 0 ? 0 : -n.delta * n.factor;
    result.near[i] = 0;
  }
};

/// The longest stretch of a row whose sums stay in float: chains of at most 128 additions.
constexpr int64_t kStretch = 4096;

/// Four sums in turn, as if vectors began where the row does.
struct TurnedSums {
  Floats v[4] = {};

  /// Vectors began `lead` elements before the row, and so did each lane's number.
  void turn(int64_t lead) {
    const LaneIndices from = kLaneIndices + int32_t(lead);
    const Floats first = v[0];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = __builtin_shuffle(v[k], k < 3 ? v[k + 1] : first, from);
  }
};

/// Sums over a row of up to kStretch elements at a time.
struct RowSums {
  Floats sum[2] = {}, square[2] = {};

  /// What stands `ahead` elements after x is read ahead, if not 0. Without a mean the guess is 0,
  /// and of the numbers themselves no sum is wanted.
  template <class T>
  [[gnu::always_inline]] void add(const T* x, int64_t n, Floats guess, bool use_mean,
                                  int64_t ahead = 0) {
    // Copies that stay in registers.
    Floats s0 = sum[0], s1 = sum[1], q0 = square[0], q1 = square[1], s2 = {}, s3 = {}, q2 = {},
           q3 = {};
    const auto fetch = [&](int64_t i) {
      if (ahead)
        for (int64_t l = 0; l < 4 * kFloats; l += 64 / int64_t(sizeof(T)))
          __builtin_prefetch(x + ahead + i + l, 0, 2);
    };
    const auto add_square = [&](int64_t i, Floats& q) {
      const Floats v = load_wide(x + i, Whole{});
      q = fused(v, v, q);
    };
    int64_t i = 0;
    for (; !use_mean && i + 4 * kFloats <= n; i += 4 * kFloats) {
      fetch(i);
      add_square(i, q0);
      add_square(i + kFloats, q1);
      add_square(i + 2 * kFloats, q2);
      add_square(i + 3 * kFloats, q3);
    }
    for (; i + 4 * kFloats <= n; i += 4 * kFloats) {
      fetch(i);
      step(load_wide(x + i, Whole{}) - guess, s0, q0);
      step(load_wide(x + i + kFloats, Whole{}) - guess, s1, q1);
      step(load_wide(x + i + 2 * kFloats, Whole{}) - guess, s2, q2);
      step(load_wide(x + i + 3 * kFloats, Whole{}) - guess, s3, q3);
    }
    add_rest(x + i, n - i, guess, s0, q0, s1, q1);
    sum[0] = s0 + s2;
    sum[1] = s1 + s3;
    square[0] = q0 + q2;
    square[1] = q1 + q3;
  }

  /// The same sums of a row that is the first, from whole lines: reading vectors that stand in two
  /// of them takes twice as long.
  [[gnu::always_inline]] void begin(const float* x, int64_t n, Floats guess, bool use_mean) {
    const int64_t head = (int64_t(-reinterpret_cast<uintptr_t>(x)) & (kVectorBytes - 1)) / 4,
                  four = 4 * kFloats, whole = n / four * four;
    if (head == 0 || whole == 0) return add(x, n, guess, use_mean);
    TurnedSums s, q;
    const int64_t lead = kFloats - head, last = whole - kFloats + head;
    const LaneIndices to = kLaneIndices - int32_t(lead);  // modulo kFloats
    step(__builtin_shuffle(select(Partial{head}, load_wide(x, Partial{head}), guess), to) - guess,
         s.v[0], q.v[0]);
    int64_t i = head;
    for (; i + four <= whole; i += four)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k)
        step(load_wide(x + i + k * kFloats, Whole{}) - guess, s.v[(k + 1) % 4], q.v[(k + 1) % 4]);
#pragma GCC unroll 4
    for (int k = 1; k < 4; ++k, i += kFloats)
      step(load_wide(x + i, Whole{}) - guess, s.v[k], q.v[k]);
    step(select(Partial{lead}, load_wide(x + last, Partial{lead}), guess) - guess, s.v[0], q.v[0]);
    s.turn(lead);
    q.turn(lead);
    add_rest(x + whole, n - whole, guess, s.v[0], q.v[0], s.v[1], q.v[1]);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      sum[k] = s.v[k] + s.v[k + 2];
      square[k] = q.v[k] + q.v[k + 2];
    }
  }

  Floats lanes() const { return sum[0] + sum[1]; }
  Floats square_lanes() const { return square[0] + square[1]; }

 private:
  static void step(Floats d, Floats& s, Floats& q) {
    s += d;
    q = fused(d, d, q);
  }

  /// What does not make up four vectors.
  template <class T>
  [[gnu::always_inline]] static void add_rest(const T* x, int64_t n, Floats guess, Floats& s0,
                                              Floats& q0, Floats& s1, Floats& q1) {
    int64_t i = 0;
    for (; i + kFloats <= n; i += kFloats) step(load_wide(x + i, Whole{}) - guess, s0, q0);
    if (i == n) return;
    const Partial m{n - i};
    step(select(m, load_wide(x + i, m), guess) - guess, s1, q1);
  }
};

/// Rows to read ahead, in the order of memory: the processor foresees that, but not lines of
/// several rows in turn. To the second level, because they are used in another order.
struct RowsAhead {
  const char* at = nullptr;    // or nothing is
  int64_t bytes = 0, gap = 0;  // of a row; from its end to the next one
  const char* end = at ? at + bytes : nullptr;

  template <int kLines>
  void advance() {
    for (int l = 0; l < kLines; ++l) __builtin_prefetch(at + 64 * l, 0, 2);
    at += 64 * kLines;
    if (at < end) return;
    at += gap;
    end += bytes + gap;
  }
};

/// Adds rows x[r] - guess and its square for r in [0, kRows) to the columns' sums.
template <int kRows, class T>
void add_rows(const T* const* x, int64_t width, const float* guess, float* sum, float* square,
              RowsAhead ahead = {}) {
  const auto add = [&](int64_t c, auto m) {
    const Floats k = load_wide(guess + c, Whole{});
    Floats s = load_wide(sum + c, Whole{}), q = load_wide(square + c, Whole{});
    Floats s_now = {}, q_now = {};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats d = select(m, load_wide(x[r] + c, m), k) - k;
      s_now += d;
      q_now = fused(d, d, q_now);
    }
    store_narrow(sum + c, s + s_now, Whole{});
    store_narrow(square + c, q + q_now, Whole{});
  };
  constexpr auto kLines = int(kRows * kFloats * int64_t(sizeof(T)) / 64);
  int64_t c = 0;
  for (; c + kFloats <= width; c += kFloats) {
    if (ahead.at) ahead.advance<kLines>();
    add(c, Whole{});
  }
  if (c < width) add(c, Partial{width - c});
}

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA

#endif
