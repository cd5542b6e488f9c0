// Long packed rows of 16-bit numbers: two are written while the next two are summed.
#include "cpu/isa/processor.h"
#include "cpu/memory/tuning.h"
#include "cpu/mvn/lean_rows.h"
#include "cpu/mvn/rows.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {

namespace {

/// Rows of whole steps without an activation, which share a scale and a bias of their own type for
/// each position. Reading, computing and writing overlap all the time, and what a pair of rows
/// takes of scale and bias is converted in registers.
template <class T>
class PairedRows {
 public:
  static bool suit(const MvnPlan& p, int threads) {
    const MvnAxis &row = p.reduced[0], &rows = p.kept[0];
    return p.kept_rank == 1 && p.reduced_rank == 1 && p.group_size >= processor.least_paired &&
           p.group_size % kStep == 0 && p.groups >= kLeastGroups * threads && row.x == 1 &&
           row.y == 1 && row.scale == 1 && row.bias == 1 && !rows.scale && !rows.bias &&
           p.scale_dtype == p.dtype && p.bias_dtype == p.dtype &&
           p.activation.kind == ActivationKind::identity && rows.y % kLine == 0 &&
           (!std::is_same_v<T, BFloat16> || converts_pairs());
  }

  /// All rows of a plan.
  static void run(const MvnPlan& plan, const T* x, const T* scale, const T* bias, T* y) {
    const bool is_large = is_norm_streamed(plan.groups * plan.group_size * int64_t(sizeof(T)));
    const int64_t tasks = (plan.groups + kRowsOfTask - 1) / kRowsOfTask;
    parallel_for(tasks, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kRowsOfTask;
      PairedRows rows(plan, x + first * plan.kept[0].x, y + first * plan.kept[0].y);
      rows.scale_ = scale;
      rows.bias_ = bias;
      rows.is_large_ = is_large;
      rows.is_streamed_ = is_large && x != y;  // lines just read cost least where they are
      rows.lead_ = is_large ? to_line(y) : 0;
      rows.run(std::min(end * kRowsOfTask, plan.groups) - first);
    });
  }

 private:
  static constexpr int64_t kLine = 2 * kFloats, kStep = 4 * kFloats;  // elements
  static constexpr int64_t kLeastGroups = tuning::mvn::kLeastPairedRows,
                           kRowsOfTask = tuning::mvn::kPairedTask, kNear = tuning::mvn::kPairedNear,
                           kFar = tuning::mvn::kPairedFar;

  PairedRows(const MvnPlan& plan, const T* x, T* y)
      : lean_{plan, plan.kept[0].x, plan.kept[0].y}, n_(plan.group_size), x_(x), y_(y) {}

  void run(int64_t count) {
    int64_t written = 0, read = std::min<int64_t>(count, 2);
    for (; written + read > 0; count -= written) {
      if (!is_large_)
        pass<false, false>(written, read);
      else
        is_streamed_ ? pass<true, true>(written, read) : pass<true, false>(written, read);
      for (int64_t r = 0; lead_ && r < written; ++r) write_ends(r);
      x_ += written * lean_.x_step;
      y_ += written * lean_.y_step;
      if (read) find_formulas(read);
      written = read;
      read = std::clamp<int64_t>(count - written, 0, 2);
    }
    if (has_end_) std::memcpy(y_ + lead_ - kLine, seam_, size_t(kLine - lead_) * sizeof *y_);
  }

  /// Writes rows and sums those after them: one at a time, as the processor foresees it, while half
  /// of the columns of both others are written.
  template <bool kIsLarge, bool kIsStreamed>
  [[gnu::noinline]] void pass(int64_t written, int64_t read) {
    for (int64_t r = 0; r < 2; ++r) {
      const T* const row = r < read ? x_ + (written + r) * lean_.x_step : nullptr;
      const float guess = row ? guess_at(row) : 0;
      double sum = 0, square = 0;
      for (int64_t i = 0; i < n_; i += kStretch) {
        const WholeSums sums = stretch<kIsLarge, kIsStreamed>(
            row ? row + i : nullptr, std::min(kStretch, n_ - i), guess, written, (r * n_ + i) / 2);
        sum += sum_of_lanes((sums.sum[0] + sums.sum[2]) + (sums.sum[1] + sums.sum[3]));
        square +=
            sum_of_lanes((sums.square[0] + sums.square[2]) + (sums.square[1] + sums.square[3]));
      }
      sums_.guess[r] = guess;
      sums_.sum[r] = sum;
      sums_.square[r] = square;
    }
  }

  /// The ends of row r. Where rows follow each other they share lines of y, which are written as
  /// wholes: memory would be read for each that is not.
  [[gnu::noinline]] void write_ends(int64_t r) {
    T* const y = y_ + r * lean_.y_step;
    const int64_t rest = kLine - lead_;
    find_part(r, 0, lead_, seam_ + rest);
    if (!has_end_)
      std::memcpy(y, seam_ + rest, size_t(lead_) * sizeof *y);
    else if (is_streamed_)
      stream_vector(y - rest, load_vector<Vector<char>>(seam_));
    else
      store_vector(y - rest, load_vector<Vector<char>>(seam_));
    find_part(r, n_ - rest, n_, seam_);
    has_end_ = lean_.y_step == n_;
    if (!has_end_) std::memcpy(y + n_ - rest, seam_, size_t(rest) * sizeof *y);
  }

  /// The results of elements [i, end) of row r.
  void find_part(int64_t r, int64_t i, int64_t end, T* to) const {
    const T* const x = x_ + r * lean_.x_step;
    for (; i < end; i += kFloats, to += kFloats) {
      const Partial m{std::min(kFloats, end - i)};
      const Floats v = fused(load_wide(x + i, m) - broadcast(pivot_[r]), broadcast(factor_[r]),
                             broadcast(shift_[r]));
      store_narrow(to, fused(v, load_wide(scale_ + i, m), load_wide(bias_ + i, m)), m);
    }
  }

  /// Sums n elements of a row, or of none, and writes n / 2 columns of two rows, or of one, which
  /// then stands for both: all of x is read before any is written.
  template <bool kIsLarge, bool kIsStreamed>
  [[gnu::always_inline]] WholeSums stretch(const T* row, int64_t n, float guess, int64_t written,
                                           int64_t column) const {
    const int64_t x_step = written > 1 ? lean_.x_step : 0, y_step = written > 1 ? lean_.y_step : 0;
    const Floats about = broadcast(guess), unit = one(),
                 pivot[2] = {broadcast(pivot_[0]), broadcast(pivot_[1])},
                 factor[2] = {broadcast(factor_[0]), broadcast(factor_[1])},
                 shift[2] = {broadcast(shift_[0]), broadcast(shift_[1])};
    const int64_t whole = n_ - (lead_ ? kLine : 0), end = written ? 2 * (whole - column) : 0,
                  first = lead_ + column;
    const T *x = x_ + first, *scale = scale_ + first, *bias = bias_ + first;
    T* y = y_ + first;
    WholeSums sums;
    for (int64_t i = 0; i < n; i += kStep) {
      if (row) {
        if (kIsLarge) prefetch(row + i + kFar), prefetch(row + i + kFar + kLine);
        sums.step(row + i, about, unit);
      }
      if (i >= end) continue;
      Floats v[4], s[2], b[2];
#pragma GCC unroll 2
      for (int64_t k = 0; k < 2; ++k) {
        v[k] = load_wide(x + k * kFloats, Whole{});
        v[2 + k] = load_wide(x + x_step + k * kFloats, Whole{});
        s[k] = load_wide(scale + k * kFloats, Whole{});
        b[k] = load_wide(bias + k * kFloats, Whole{});
      }
      if (kIsLarge)
        prefetch(x + kNear), prefetch(x + x_step + kNear), prefetch(scale + kNear),
            prefetch(bias + kNear);
#pragma GCC unroll 4
      for (int64_t k = 0; k < 4; ++k)
        v[k] = fused(fused(v[k] - pivot[k / 2], factor[k / 2], shift[k / 2]), s[k % 2], b[k % 2]);
      put_pair(y, v[0], v[1], kIsStreamed, false, std::true_type{});
      put_pair(y + y_step, v[2], v[3], kIsStreamed, false, std::true_type{});
      x += kLine, y += kLine;
      scale += kLine, bias += kLine;
    }
    return sums;
  }

  static void prefetch(const T* p) { __builtin_prefetch(p, 0, 3); }

  float guess_at(const T* row) const {
    if (!lean_.plan.use_mean) return 0;
    return guess_from(n_, [&](int64_t i) { return load_wide(row + i, Whole{}); });
  }

  /// Those of the rows that were summed, which are written next.
  void find_formulas(int64_t count) {
    Coefficients<kMostRows> of;
    const bool are_good = finish_rows(lean_.plan, count, sums_, of);
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t r = std::min(i, count - 1);
      GroupFormula f = {of.pivot[r], of.factor[r], of.shift[r], of.near[r] != 0};
      if (!are_good && !sums_.correct_guess(lean_.plan, r))
        f = LeanRows<T>(lean_, x_ + r * lean_.x_step, nullptr, 0).formula();
      factor_[i] = f.factor;
      shift_[i] = f.is_near ? fused(-f.pivot, f.factor, f.shift) : f.shift;
      pivot_[i] = f.is_near ? 0 : f.pivot;
    }
  }

  const LeanPlan lean_;
  const int64_t n_;
  const T *x_, *scale_ = nullptr, *bias_ = nullptr;
  T* y_;
  bool is_large_ = false, is_streamed_ = false;  // x is read ahead; y is written past the caches
  bool has_end_ = false;  // seam_ begins with a row's end that is still to be written
  int64_t lead_ = 0;      // elements of a row before the first line of y that is written as a whole
  float factor_[2] = {}, shift_[2] = {}, pivot_[2] = {};  // of the rows that are written
  GroupSums<kMostRows> sums_;                             // of those that are read
  alignas(64) T seam_[kLine];                             // the end of a row, the next one's begin
};

}  // namespace

bool are_rows_paired(const MvnPlan& plan, int threads) {
  if (!kHasLineVectors || are_rows_huge(plan, size_of(plan.dtype))) return false;
  if (plan.dtype == Dtype::float16) return PairedRows<Float16>::suit(plan, threads);
  return plan.dtype == Dtype::bfloat16 && PairedRows<BFloat16>::suit(plan, threads);
}

template <class T>
void mvn_paired_rows([[maybe_unused]] const MvnPlan& plan, [[maybe_unused]] const void* x,
                     [[maybe_unused]] const void* scale, [[maybe_unused]] const void* bias,
                     [[maybe_unused]] void* y) {
  if constexpr (kHasLineVectors)
    PairedRows<T>::run(plan, static_cast<const T*>(x), static_cast<const T*>(scale),
                       static_cast<const T*>(bias), static_cast<T*>(y));
}

template void mvn_paired_rows<Float16>(const MvnPlan&, const void*, const void*, const void*,
                                       void*);
template void mvn_paired_rows<BFloat16>(const MvnPlan&, const void*, const void*, const void*,
                                        void*);

}  // namespace cudml::cpu::CUDML_ISA
