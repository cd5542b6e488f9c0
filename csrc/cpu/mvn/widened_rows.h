// Short packed rows of 16-bit numbers: a few are widened into the first-level cache, where their
// results are computed from while others take their place.
#pragma once

#include "cpu/memory/tuning.h"
#include "cpu/mvn/widened_seams.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

/// Finds the sums about 0 and the coefficients of row i of others that stand anyhow, as WidenedRows
/// would, if its mean is near enough to 0.
template <class T>
[[gnu::noinline]] bool find_near(const MvnPlan& plan, const T* x, GroupSums<kMostRows>& sums,
                                 Coefficients<kMostRows>& of, int64_t i) {
  Floats lanes = {}, squares = {};
  for (int64_t k = 0; k < plan.group_size; k += kFloats) {
    const Floats v = load_wide(x + k, Whole{});
    lanes += v;
    squares = fused(v, v, squares);
  }
  sums.guess[i] = 0;
  sums.sum[i] = sum_of_lanes(lanes);
  sums.square[i] = sum_of_lanes(squares);
  const double share = 1 / double(plan.group_size), square = sums.square[i] * share,
               mean = plan.use_mean ? sums.sum[i] * share : 0,
               variance = fused(-mean, mean, square),
               factor = plan.use_variance ? 1 / root(variance + plan.epsilon) : 1;
  of.pivot[i] = 0;
  of.factor[i] = float(factor);
  of.shift[i] = float(-mean * factor);
  of.near[i] = 1;
  return is_near(mean, variance) || !plan.use_mean;
}

/// Rows of whole lines that share a scale and a bias for each position, without an activation. The
/// statistics of a row are sums about 0, which do for a mean of up to two deviations.
template <class T>
class WidenedRows {
 public:
  /// Whether rows are such ones. It does not depend on how many they are, nor where: another sum
  /// has other bits.
  static bool suit(const LeanPlan& p) { return p.bias && suits(p.plan.group_size); }

  /// The same of rows of n elements that have a bias.
  static bool suits(int64_t n) {
    return n % kLine == 0 && n <= kMost && (!std::is_same_v<T, BFloat16> || converts_pairs());
  }

  /// Rows from group `group` on.
  WidenedRows(const LeanPlan& plan, const T* x, T* y, int64_t group)
      : p_(plan),
        n_(plan.plan.group_size),
        lead_(plan.y_step == n_ ? to_line(y) : 0),
        is_streamed_(plan.is_streamed &&
                     (plan.y_step == n_ || (to_line(y) == 0 && plan.y_step % kLine == 0))),
        seams_(n_, lead_, is_streamed_),
        ahead_((kMostAhead / n_ + kAtOnce - 1) / kAtOnce * kAtOnce * plan.x_step),
        x_(x),
        y_(y),
        group_(group) {
    seams_.copy_turned(plan.scale, affine_);
    seams_.copy_turned(plan.bias, affine_ + kLine);
  }

  /// Rows [0, count).
  void run(int64_t count) {
    // A group's formulas are a long chain, which another group may hide that takes turns with it.
    // Together they are to leave half of the first-level cache.
    const bool are_two = n_ <= kMost / 4;
    const int64_t rows = n_ <= kMost / 2 ? kRows : kAtOnce,
                  turns = (count + rows - 1) / rows + 1 + are_two;
    Group groups[2];
    for (int64_t i = 0; i < 2; ++i) groups[i].wide = wide_ + kLine + i * (kMost / 2);
    for (int64_t i = 0; i < turns; ++i, count -= rows)
      turn(groups[are_two ? i % 2 : 0], std::clamp<int64_t>(count, 0, rows));
    if (lead_) seams_.write_end(y_, last_affine(), wide_ + kLine);
  }

 private:
  using Group = WidenedGroup;
  static constexpr int64_t kLine = Group::kLine, kMost = Group::kMost, kStride = Group::kStride,
                           kRows = Group::kRows;
  static constexpr int64_t kAtOnce = 4;  // rows, written and read at once
  static constexpr int64_t kMostAhead = tuning::mvn::kWidenedAhead;
  static constexpr std::true_type kConverts = {};  // BFloat16 by the processor

  /// kAtOnce rows, all of which stay in registers.
  struct Pass {
    const T* x[kAtOnce];
    T* y[kAtOnce];
    float* wide;
    Floats factor[kAtOnce], shift[kAtOnce], sum[kAtOnce] = {}, square[kAtOnce] = {};
  };

  /// Of the line that holds the end of a row.
  const float* last_affine() const { return affine_ + 2 * (n_ - kLine); }

  /// Writes a group and reads `next` rows in its place.
  void turn(Group& g, int64_t next) {
    if (lead_ && g.count) seams_.write(g, y_, last_affine());
    Floats lanes[2 * kRows];
    if (next <= kAtOnce)
      for (int64_t r = kAtOnce; r < kRows; ++r) lanes[r] = lanes[kRows + r] = Floats{};
    for (int64_t r = 0; r < std::max(next, g.count); r += kAtOnce) pass(g, r, next, lanes + r);
    y_ += g.count * p_.y_step;
    g.count = next;
    if (next) find_formulas(g, lanes);
    x_ += next * p_.x_step;
    group_ += next;
  }

  /// Rows from `first` on. The last one stands for those that are missing.
  [[gnu::noinline]] void pass(const Group& g, int64_t first, int64_t next, Floats* lanes) const {
    Pass p;
    p.wide = g.wide + first * kStride;
#pragma GCC unroll 4
    for (int64_t r = 0; r < kAtOnce; ++r) {
      p.x[r] = x_ + std::min(first + r, next - 1) * p_.x_step;
      p.y[r] = y_ + std::min(first + r, g.count - 1) * p_.y_step + lead_;
      p.factor[r] = broadcast(g.factor[first + r]);
      p.shift[r] = broadcast(g.shift[first + r]);
    }
    const bool is_streamed = is_streamed_;
    const int64_t n = n_, lead = lead_, ahead = ahead_, read = first < next ? n : 0,
                  written = first < g.count ? n - (lead ? kLine : 0) : 0;
    for (int64_t i = 0; i < n; i += kLine) {
      if (i < written) write_line(p, i, lead, is_streamed);
      if (i < read) read_line(p, i, ahead);
    }
#pragma GCC unroll 4
    for (int64_t r = 0; r < kAtOnce; ++r) {
      lanes[r] = p.sum[r];
      lanes[kRows + r] = p.square[r];
    }
  }

  /// Line i of each row, where `lead` of its elements stand in the line before.
  [[gnu::always_inline]] void write_line(const Pass& p, int64_t i, int64_t lead,
                                         bool is_streamed) const {
    Floats affine[4];
#pragma GCC unroll 4
    for (int64_t k = 0; k < 4; ++k) affine[k] = load_vector<Floats>(affine_ + 2 * i + k * kFloats);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kAtOnce; ++r) {
      Floats v[2];
#pragma GCC unroll 2
      for (int64_t k = 0; k < 2; ++k) {
        v[k] = load_vector<Floats>(p.wide + r * kStride + lead + i + k * kFloats);
        v[k] = fused(fused(v[k], p.factor[r], p.shift[r]), affine[k], affine[2 + k]);
      }
      put_pair(p.y[r] + i, v[0], v[1], is_streamed, false, kConverts);
    }
  }

  /// The line's place has been written from: the next rows' elements are widened into it.
  [[gnu::always_inline]] void read_line(Pass& p, int64_t i, int64_t ahead) const {
#pragma GCC unroll 4
    for (int64_t r = 0; r < kAtOnce; ++r) {
      __builtin_prefetch(p.x[r] + i + ahead, 0, 3);
#pragma GCC unroll 2
      for (int64_t k = 0; k < 2; ++k) {
        const Floats v = load_wide(p.x[r] + i + k * kFloats, Whole{});
        store_vector(p.wide + r * kStride + i + k * kFloats, v);
        p.sum[r] += v;
        p.square[r] = fused(v, v, p.square[r]);
      }
    }
  }

  /// Those of rows whose mean is too far from 0 are found one by one.
  void find_formulas(Group& g, const Floats* lanes) const {
    const MvnPlan& plan = p_.plan;
    const Floats sums = sums_of_blocks<int(kFloats)>(lanes);
    HalfFloats half[2];
    std::memcpy(half, &sums, sizeof sums);
    const double share = 1 / double(n_);
    const Doubles zero = {}, mean = plan.use_mean ? as_doubles(half[0]) * share : zero,
                  variance = fused(-mean, mean, as_doubles(half[1]) * share),
                  factor = plan.use_variance ? 1 / root(variance + plan.epsilon) : zero + 1;
    store_vector(g.factor, as_floats(factor));
    store_vector(g.shift, as_floats(-mean * factor));
    const auto are_good = is_near(mean, variance);
    if (p_.statistics)
      for (int64_t r = 0; r < g.count; ++r)
        p_.put(group_ + r, moments_from(plan, 0, half[0][r], half[1][r]));
    if (!all_of(are_good) && plan.use_mean)
      for (int64_t r = 0; r < kRows; ++r)
        if (!are_good[r]) find_formula(g, r);
  }

  [[gnu::noinline, gnu::cold]] void find_formula(Group& g, int64_t r) const {
    const int64_t row = std::min(r, g.count - 1);
    const GroupFormula f = LeanRows<T>(p_, x_ + row * p_.x_step, nullptr, group_ + row).formula();
    g.factor[r] = f.factor;
    g.shift[r] = f.is_near ? fused(-f.pivot, f.factor, f.shift) : f.shift;
    for (int64_t i = 0; !f.is_near && i < n_; ++i) g.wide[r * kStride + i] -= f.pivot;
  }

  const LeanPlan& p_;
  const int64_t n_;
  const int64_t lead_;  // elements of a row before its first line of y
  const bool is_streamed_;
  WidenedSeams<T> seams_;
  const int64_t ahead_;  // from a row to the one that is read ahead
  const T* x_;
  T* y_;
  int64_t group_;                        // number of the row at x_
  alignas(64) float affine_[2 * kMost];  // of each line of y: scales, biases
  alignas(64) float wide_[kRows * kStride + 2 * kLine];
};

}  // namespace
}  // namespace cudml::cpu::CUDML_ISA
