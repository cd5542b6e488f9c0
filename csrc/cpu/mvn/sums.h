// Sums about a guessed pivot in one pass, and what normalizing needs from them.
#pragma once

#include <limits>

#include "cpu/simd/convert.h"
#include "cpu/simd/lane_sums.h"
#include "math/moments.h"
#include "ops/mvn.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// The longest stretch of a row whose sums stay in float: chains of at most 128 additions.
constexpr int64_t kStretch = 4096;

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

/// What a guess is made from: the first numbers, which are added up by halves.
constexpr int kGuessed = 4;
constexpr float kGuessShare = 1.0f / kGuessed;
/// Of more numbers than these, from several places.
constexpr int64_t kMostFromOnePlace = 4 * kStretch;

/// A pivot of n numbers from the first of them, or from eight places of many; load(i) is a vector
/// of them from i on. As powers of two of them are averaged, the guess at the mean of a constant
/// group is exact.
template <class Load>
inline float guess_from(int64_t n, const Load& load) {
  constexpr int64_t kPlaces = 8;
  const bool is_long = n > kMostFromOnePlace;
  float sum = 0;
  for (int64_t k = 0; k < (is_long ? kPlaces : 1); ++k) {
    const Floats v = load(k * (n / kPlaces));
    sum += (v[0] + v[2]) + (v[1] + v[3]);
  }
  return guess_of(double(sum), is_long ? double(kGuessShare) / kPlaces : double(kGuessShare));
}

constexpr double kMost32 = std::numeric_limits<float>::max();

/// Whether a guess was within two deviations of the mean, as far as that is known: squares may
/// overflow where only the mean is wanted.
template <class D>
inline auto is_near(D delta, D variance) {
  return (delta * delta <= 4 * variance) & (variance < kMost32);
}

/// Squared deviations of a mean from 0 up to which it is not subtracted first. Where a product is
/// rounded before it is added to, its own rounding counts too, and it is to be as small as the sum.
constexpr double kNear = kFuses ? 16 : 0.25;

/// D is double or a vector of them, F float or as many. Returns whether the guess was within two
/// deviations of the mean: the sum of squares about it is then at most five times that about the
/// mean, and loses as many units in the last place. NaN and infinities fail.
template <class D, class F>
inline auto finish_lanes(const MvnPlan& plan, D sum, D square, F guess, F& pivot, F& factor,
                         F& shift, F& near) {
  const double share = 1 / double(plan.group_size);
  const D zero = {}, one = zero + 1;
  const D delta = plan.use_mean ? D(sum * share) : zero;
  const D variance = fused(-delta, delta, square * share);
  const D mean = as_doubles(guess) + delta;
  const D inverse = plan.use_variance ? D(one / root(variance + double(plan.epsilon))) : one;
  pivot = as_floats(mean);
  factor = as_floats(inverse);
  const D rest = as_doubles(pivot) - mean;
  shift = as_floats(rest == 0 ? zero : D(rest * inverse));
  near = as_floats(((mean * mean <= kNear * variance) & (variance < kMost32)) ? one : zero);
  return is_near(delta, variance);
}

/// The statistics of a group, from sums about a guess that was good, or about the mean.
inline Moments<float> moments_from(const MvnPlan& plan, float guess, double sum, double square) {
  const auto n = double(plan.group_size);
  if (!plan.use_mean) return {n, 0, 0, square};
  return moments_about<float>(n, guess, sum, square);
}

constexpr int64_t kMostRows = 16;  // summed before any of them is written

/// What normalizing needs of kMost groups: (x - pivot) * factor + shift. `near` is 1 where the mean
/// is within kNear of 0: x * factor + (shift - pivot * factor), rounded as numbers up to 4 are, is
/// then off by less than the sums may be.
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
    Vector<int64_t> are_good = kDoubleIndices >= 0;
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
    for (int64_t i = 0; i < count; ++i) are_good &= finish_one(plan, i, result);
    return are_good;
  }

  /// The same of group i.
  bool finish_one(const MvnPlan& plan, int64_t i, Coefficients<kMost>& result) const {
    return finish_lanes(plan, sum[i], square[i], guess[i], result.pivot[i], result.factor[i],
                        result.shift[i], result.near[i]) ||
           !plan.use_mean;
  }

  /// Whether group i's guess was good; if not, the mean takes its place.
  bool correct_guess(const MvnPlan& plan, int64_t i) {
    const auto n = double(plan.group_size);
    const double delta = sum[i] / n;
    if (is_near(delta, fused(-delta, delta, square[i] / n))) return true;
    guess[i] = guess_of(double(guess[i]) + delta, 1);  // the plain sum may not overflow
    return false;
  }

  /// The statistics of group i.
  Moments<float> moments(const MvnPlan& plan, int64_t i) const {
    return moments_from(plan, guess[i], sum[i], square[i]);
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

/// Coefficients of rows [0, count), and whether all guesses were good.
[[gnu::noinline]] inline bool finish_rows(const MvnPlan& plan, int64_t count,
                                          GroupSums<kMostRows>& sums,
                                          Coefficients<kMostRows>& result) {
  return count < kDoubles / 2 ? sums.finish_singly(plan, count, result)
                              : sums.finish(plan, count, result);
}

/// Four sums in turn, as if vectors began where the row does.
struct TurnedSums {
  Floats v[4] = {};

  /// Vectors began `lead` elements before the row, and so did each lane's number.
  void turn(int64_t lead) {
    const LaneIndices from = kLaneIndices + int32_t(lead);
    const Floats first = v[0];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = lanes_of(v[k], k < 3 ? v[k + 1] : first, from);
  }
};

/// Four vectors of elements, in any order that is the same for all rows: it takes fewer steps to
/// widen every other BFloat16 than neighbours.
template <class T>
[[gnu::always_inline]] inline void load_four(const T* p, Floats (&v)[4]) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (k % 2) continue;
      const auto two = load_vector<Vector<uint32_t>>(p + k * kFloats);
      v[k] = std::bit_cast<Floats>(two << 16);
      v[k + 1] = std::bit_cast<Floats>(two & 0xffff0000u);
    } else {
      v[k] = load_wide(p + k * kFloats, Whole{});
    }
  }
}

/// 1, which no compiler knows. A sum as fused(a, one(), b) goes to the multipliers, which wait
/// while the adders convert.
inline Floats one() { return opaque(broadcast(1)); }

/// Sums of whole vectors, four at a time.
struct WholeSums {
  Floats sum[4] = {}, square[4] = {};  // in registers, if nothing takes their address

  /// Adds n elements, which are whole steps, and reads ahead, if that is not 0.
  template <bool kHasMean, class T>
  [[gnu::always_inline]] void add(const T* x, int64_t n, Floats guess, int64_t ahead) {
    const Floats unit = one();
    for (int64_t i = 0; i < n; i += 4 * kFloats) {
      if (ahead)
        for (int64_t l = 0; l < 4 * kFloats; l += 64 / int64_t(sizeof(T)))
          __builtin_prefetch(x + ahead + i + l, 0, 3);
      step<kHasMean>(x + i, guess, unit);
    }
  }

  /// Adds four vectors.
  template <bool kHasMean = true, class T>
  [[gnu::always_inline]] void step(const T* x, Floats guess, Floats unit) {
    Floats v[4];
    load_four(x, v);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      if constexpr (kHasMean) {
        v[k] = fused(v[k], unit, -guess);
        sum[k] += v[k];
      }
      square[k] = fused(v[k], v[k], square[k]);
    }
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
    WholeSums whole{{sum[0], sum[1]}, {square[0], square[1]}};  // copies that stay in registers
    const int64_t end = n / (4 * kFloats) * (4 * kFloats);
    if (use_mean)
      whole.template add<true>(x, end, guess, ahead);
    else
      whole.template add<false>(x, end, guess, ahead);
    Floats(&s)[4] = whole.sum, (&q)[4] = whole.square;
    add_rest(x + end, n - end, guess, s[0], q[0], s[1], q[1]);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      sum[k] = s[k] + s[k + 2];
      square[k] = q[k] + q[k + 2];
    }
  }

  /// The same sums of a row that is the first, from whole lines: reading vectors that stand in two
  /// of them takes twice as long.
  [[gnu::always_inline]] void begin(const float* x, int64_t n, Floats guess, bool use_mean) {
    const int64_t head = bytes_to_line(x) % kVectorBytes / 4, four = 4 * kFloats,
                  whole = n / four * four;
    if (head == 0 || whole == 0) return add(x, n, guess, use_mean);
    TurnedSums s, q;
    const int64_t lead = kFloats - head, last = whole - kFloats + head;
    const LaneIndices to = kLaneIndices - int32_t(lead);  // modulo kFloats
    const Floats begun = select(Partial{head}, load_wide(x, Partial{head}), guess);
    step(lanes_of(begun, begun, to) - guess, s.v[0], q.v[0]);
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

/// Groups [0, count) of one stretch each. What is computed from their lanes is computed together:
/// first_of(i) are four numbers of a group, sums_of(i, guess) its sums.
template <class FirstOf, class SumsOf>
[[gnu::always_inline]] inline void add_together(int64_t count, bool use_mean,
                                                GroupSums<kMostRows>& sums, const FirstOf& first_of,
                                                const SumsOf& sums_of) {
  for (int64_t first = 0; first < count; first += kFloats) {
    const int64_t n = std::min(kFloats, count - first);
    Floats sum[kFloats], square[kFloats];
    float* const guess = sums.guess + first;
    for (int64_t i = 0; use_mean && i < kFloats; ++i)
      sum[i] = i < n ? first_of(first + i) : Floats{};
    store_vector(guess, use_mean ? guesses_of(sums_of_lanes(sum), 0.25f) : Floats{});
    for (int64_t i = 0; i < kFloats; ++i) {
      const RowSums row = i < n ? sums_of(first + i, guess[i]) : RowSums{};
      sum[i] = row.lanes();
      square[i] = row.square_lanes();
    }
    store_doubles(sums.sum + first, sums_of_lanes(sum));
    store_doubles(sums.square + first, sums_of_lanes(square));
  }
}

/// Rows to read ahead, in the order of memory: the processor foresees that, but not lines of
/// several rows in turn.
struct RowsAhead {
  const char* at = nullptr;    // or nothing is
  int64_t bytes = 0, gap = 0;  // of a row; from its end to the next one
  const char* end = at ? at + bytes : nullptr;

  template <int kLines>
  void advance() {
    for (int l = 0; l < kLines; ++l) __builtin_prefetch(at + 64 * l);
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
