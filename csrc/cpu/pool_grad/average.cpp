// Gradient of average pooling on the CPU: each element gathers from the windows that cover it.
#include "cpu/isa/families.h"
#include "cpu/pool_grad/average_rows.h"
#include "cpu/threads/arena.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

constexpr int64_t kColumns = 2048;
constexpr int64_t kGatherLanes = 512;
/// Steps of the window up to which columns are summed phase by phase.
constexpr int64_t kPhases = 8;

template <class T, class Sum>
struct AverageGather {
  const PoolGradPlan& plan;
  const PoolPlan& f;
  const T* grad;
  T* result;
};

/// A row of the result: joins the rows of the incoming gradient that cover it, each divided by its
/// windows' divisors, then spreads every joined value over its window's columns. Takes any plan.
template <class T, class Sum>
class RowGather : AverageGather<T, Sum> {
  using Base = AverageGather<T, Sum>;
  using Base::f, Base::grad, Base::plan, Base::result;

 public:
  explicit RowGather(const Base& base) : Base(base) {}

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, false, 1);
    for (int i = 0; i < 2; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, 0};
    const int64_t columns = f.axis[2].in, step = plan.result.space[2];
    space.lanes = columns;
    space.chunk = std::min(kColumns, columns);
    space.dim[kLaneDim] = {(columns + space.chunk - 1) / space.chunk, step * space.chunk, 0, 0, 0};
    return space;
  }

  void operator()(const Task& task) const {
    const Room<Elements<Sum, kColumns>> sum_room, line_room, count_room;
    Sum *const sums = sum_room->at, *const line = line_room->at, *const counts = count_room->at;
    const Room<Phases> phase_room(f.axis[2], task);
    Phases& phases = *phase_room;
    for (int64_t i = 0; i < task.n; ++i) sums[i] = 0;
    const Reach reach = reach_of(f.axis[2], task.first, task.first + task.n - 1);
    Pace pace;
    for (int64_t o = reach.first; o <= reach.last; o += kColumns) {
      const int64_t n = std::min(kColumns, reach.last - o + 1);
      pace.add(kPhases * n);
      count_columns(o, n, counts);
      join(task, o, n, counts, line, pace);
      if (phases.count > 0)
        phases.add(f.axis[2], o, n, line);
      else
        for (int64_t i = 0; i < n; ++i) spread_window(task, o + i, line[i], sums);
    }
    phases.merge(task, sums);
    store_sums<T>(result + task.x, plan.result.space[2], sums, task.n);
  }

 private:
  void count_columns(int64_t o, int64_t n, Sum* counts) const {
    const PoolAxis& w = f.axis[2];
    const int64_t last = w.in - 1 - (w.window - 1) * w.dilation + w.start;
    const int64_t from = std::clamp<int64_t>((w.start + w.stride - 1) / w.stride - o, 0, n);
    const int64_t to = last < 0 ? from : std::clamp(last / w.stride + 1 - o, from, n);
    for (int64_t i = 0; i < from; ++i) counts[i] = Sum(counted_at(f, 2, o + i));
    for (int64_t i = from; i < to; ++i) counts[i] = Sum(w.window);
    for (int64_t i = to; i < n; ++i) counts[i] = Sum(counted_at(f, 2, o + i));
  }

  void join(const Task& task, int64_t o, int64_t n, const Sum* counts, Sum* line,
            Pace& pace) const {
    for (int64_t i = 0; i < n; ++i) line[i] = 0;
    const Covers above = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    for (int64_t a = above.first; a <= above.last; a += above.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const Sum count = Sum(counted_at(f, 0, a) * counted_at(f, 1, b));
        const T* src = grad + task.y + a * f.y.space[0] + b * f.y.space[1] + o * f.y.space[2];
        add_row(src, count, counts, n, line);
        pace.add(n);
      }
  }

  void add_row(const T* src, Sum count, const Sum* __restrict counts, int64_t n,
               Sum* __restrict line) const {
    const Room<Elements<Acc<T>, kColumns>> room;
    const Acc<T>* row = room->at;
    if constexpr (std::is_same_v<T, Acc<T>>) {
      if (f.y.space[2] == 1) row = src;
    }
    if (row == room->at) load_grads<T>(room->at, src, f.y.space[2], n);
    for (int64_t i = 0; i < n; ++i) {
      const Sum divisor = count * counts[i];  // 0 where a window sees nothing
      line[i] += divisor == 0 ? Sum{0} : Sum(row[i]) / divisor;
    }
  }

  /// Columns by their place modulo the step of the window: along each phase, one tap shifts the
  /// joined row by whole elements.
  struct Phases {
    int64_t count = 0, first, length, offset;
    Sum sum[kColumns + 2 * kPhases];

    Phases(const PoolAxis& w, const Task& task) {
      if (w.stride > kPhases || w.window > 64) return;
      count = w.stride;
      offset = task.first + w.start;
      first = offset / count;
      length = (offset + task.n - 1) / count - first + 1;
      for (int64_t i = 0; i < count * length; ++i) sum[i] = 0;
    }

    void add(const PoolAxis& w, int64_t o, int64_t n, const Sum* __restrict line) {
      for (int64_t k = 0; k < w.window; ++k) {
        const int64_t at = k * w.dilation, begin = o + at / count - first;
        Sum* phase = sum + at % count * length;
        const int64_t from = std::max<int64_t>(0, -begin), to = std::min(n, length - begin);
        for (int64_t i = from; i < to; ++i) phase[begin + i] += line[i];
      }
    }

    void merge(const Task& task, Sum* __restrict sums) const {
      if (count == 0) return;
      int64_t i = 0;
      const auto put = [&] {
        sums[i] = sum[(offset + i) % count * length + (offset + i) / count - first];
      };
      if (count == 2) {
        if (offset % 2 != 0) put(), ++i;
        const Sum* even = sum + (offset + i) / 2 - first;
        const Sum* odd = even + length;
        const int64_t pairs = (task.n - i) / 2;
        for (int64_t j = 0; j < pairs; ++j) {
          sums[i + 2 * j] = even[j];
          sums[i + 2 * j + 1] = odd[j];
        }
        i += 2 * pairs;
      }
      for (; i < task.n; ++i) put();
    }
  };

  void spread_window(const Task& task, int64_t o, Sum value, Sum* sums) const {
    const PoolAxis& w = f.axis[2];
    const int64_t begin = o * w.stride - w.start - task.first, d = w.dilation;
    const int64_t from = begin >= 0 ? 0 : (-begin + d - 1) / d;
    const int64_t to = begin >= task.n ? 0 : std::min(w.window, (task.n - 1 - begin) / d + 1);
    for (int64_t k = from; k < to; ++k) sums[begin + k * d] += value;
  }
};

/// One element of many neighbouring planes.
template <class T, class Sum>
class LaneGather : AverageGather<T, Sum> {
  using Base = AverageGather<T, Sum>;
  using Base::f, Base::grad, Base::plan, Base::result;

 public:
  explicit LaneGather(const Base& base) : Base(base) {}

  TaskSpace tasks() const {
    TaskSpace space = plane_tasks(plan, true, kGatherLanes);
    for (int i = 0; i < 3; ++i)
      space.dim[kSpaceDim + i] = {f.axis[i].in, plan.result.space[i], 0, 0, 0};
    return space;
  }

  void operator()(const Task& task) const {
    Sum sums[kGatherLanes];
    for (int64_t i = 0; i < task.n; ++i) sums[i] = 0;
    const Covers above = covers_of(f.axis[0], task.space(0));
    const Covers rows = covers_of(f.axis[1], task.space(1));
    const Covers columns = covers_of(f.axis[2], task.space(2));
    Pace pace;
    for (int64_t a = above.first; a <= above.last; a += above.step)
      for (int64_t b = rows.first; b <= rows.last; b += rows.step) {
        const double count = double(counted_at(f, 0, a) * counted_at(f, 1, b));
        const T* src = grad + task.y + a * f.y.space[0] + b * f.y.space[1];
        for (int64_t c = columns.first; c <= columns.last; c += columns.step, pace.add(task.n))
          add(src + c * f.y.space[2], Sum(count * double(counted_at(f, 2, c))), task.n, sums);
      }
    store_sums<T>(result + task.x, plan.result.batch[1], sums, task.n);
  }

 private:
  void add(const T* src, Sum divisor, int64_t n, Sum* __restrict sums) const {
    Acc<T> room[kGatherLanes];
    load_grads<T>(room, src, f.y.batch[1], n);
    for (int64_t i = 0; i < n; ++i) sums[i] += Sum(room[i]) / divisor;
  }
};

/// dst[i] = the sum of line[k][i] over kLines lines, and of dst[i] itself unless they are the
/// first.
template <int kLines, bool kFirst, class Sum>
void add_lines(const Sum* const* lines, Sum* __restrict dst, int64_t n) {
  const Sum* line[kLines];
  for (int k = 0; k < kLines; ++k) line[k] = lines[k];
  for (int64_t i = 0; i < n; ++i) {
    Sum sum = kFirst ? line[0][i] : dst[i] + line[0][i];
    for (int k = 1; k < kLines; ++k) sum += line[k][i];
    dst[i] = sum;
  }
}

template <bool kFirst, class Sum>
int add_some(const Sum* const* lines, int count, Sum* dst, int64_t n) {
  if (count >= 9) return add_lines<9, kFirst>(lines, dst, n), 9;
  if (count >= 4) return add_lines<4, kFirst>(lines, dst, n), 4;
  if (count >= 2) return add_lines<2, kFirst>(lines, dst, n), 2;
  return add_lines<1, kFirst>(lines, dst, n), 1;
}

/// Blocks of cells: gradients are divided once, line by line, then summed phase by phase.
template <class T>
class AverageBlocks : BlockIo<T, Acc<T>> {
  using Sum = Acc<T>;
  using Base = BlockIo<T, Sum>;
  using Base::f_, Base::shape_;
  using typename Base::Cells;

 public:
  AverageBlocks(const BlockShape& shape, const void* grad, void* result)
      : Base(shape, static_cast<const T*>(grad), static_cast<T*>(result)) {}

  void run() const {
    const TaskSpace space = shape_.tasks();
    parallel_for(space.count(), shape_.plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
      const Scratch scratch(shape_);
      LineStream out;
      for_tasks(space, begin, end, [&](const Task& task, int64_t) { block(task, scratch, out); });
    });
  }

 private:
  struct Scratch {
    std::unique_ptr<Sum[]> room;
    Sum *counts, *factors, *shares, *sums;

    explicit Scratch(const BlockShape& s)
        : room(new Sum[size_t(2 * s.axis[2].size() + (1 + s.phases) * s.phase_size)]()),
          counts(room.get()),
          factors(counts + s.axis[2].size()),
          shares(factors + s.axis[2].size()),
          sums(shares + s.phase_size) {}
  };

  void block(const Task& task, const Scratch& scratch, LineStream& out) const {
    const Cells cells(shape_, task);
    const Span columns = cells.axis[2].windows();
    for (int64_t i = columns.from; i < columns.to; ++i)
      scratch.counts[i] = Sum(counted_at(f_, 2, cells.axis[2].window(i)));
    Sum last = 0;
    this->fill_windows(cells, scratch.shares, [&](Sum* line, Span span, int64_t a, int64_t b) {
      const Sum count = Sum(counted_at(f_, 0, a) * counted_at(f_, 1, b));
      if (count != last) set_factors(span, last = count, scratch);
      this->load_windows(task, cells, span, a, b, line,
                         [&](auto... run) { share(scratch, run...); });
    });
    const Sum* phase[BlockShape::kMostPhases];
    for (int p = 0; p < shape_.phases; ++p)
      phase[p] = sum_phase(p, cells, scratch.shares, scratch.sums + p * shape_.phase_size);
    this->emit(task, cells, phase, out);
  }

  /// A gradient that goes to one window's elements alone is divided. Where windows overlap it is
  /// multiplied by the reciprocal, which is as good once there is a sum to round. A divisor is 0
  /// where a window has no counted tap, and nothing reads its share.
  void set_factors(Span span, Sum count, const Scratch& scratch) const {
    for (int64_t i = span.from; i < span.to; ++i) {
      const Sum divisor = count * scratch.counts[i];
      scratch.factors[i] = shape_.covers == 1 ? divisor : 1 / divisor;
    }
  }

  void share(const Scratch& scratch, Sum* __restrict line, const T* __restrict src, int64_t step,
             int64_t n, int64_t column) const {
    if constexpr (std::is_same_v<T, Sum>) {
      if (step == 1) return scale(scratch, line, src, n, column);
    }
    this->load_sums(line, src, step, n);
    scale(scratch, line, line, n, column);
  }

  void scale(const Scratch& scratch, Sum* line, const Sum* src, int64_t n, int64_t column) const {
    const Sum* const factors = scratch.factors + column;
    const Sum factor = factors[0];
    if (shape_.side_by_side && shape_.covers == 1) {
      constexpr int64_t kAhead = 16384;  // bytes; what stands so much further on is fetched
      for (int64_t i = 0; src != line && i < n; i += 64 / int64_t(sizeof(Sum)))
        __builtin_prefetch(reinterpret_cast<const char*>(src + i) + kAhead, 0, 2);
      for (int64_t i = 0; i < n; ++i) line[i] = src[i] / factor;
    } else if (shape_.side_by_side) {
      for (int64_t i = 0; i < n; ++i) line[i] = src[i] * factor;
    } else if (shape_.covers == 1) {
      for (int64_t i = 0; i < n; ++i) line[i] = src[i] / factors[i];
    } else {
      for (int64_t i = 0; i < n; ++i) line[i] = src[i] * factors[i];
    }
  }

  /// The sums of one phase; where an element has one window at most, they stand there already.
  const Sum* sum_phase(int p, const Cells& cells, const Sum* shares, Sum* sums) const {
    const Sum* lines[BlockShape::kMostCovers];
    int count = 0;
    for (int64_t t = 0; t < shape_.taps; ++t)
      if (shape_.tap[t].phase == p) lines[count++] = shares + this->origin() - shape_.tap[t].offset;
    if (count == 1) return lines[0];
    const int64_t n = shape_.extent(cells.axis, false);
    if (count == 0) std::fill_n(sums, n, Sum{0});
    for (int k = 0; k < count;)
      k += k == 0 ? add_some<true>(lines, count, sums, n)
                  : add_some<false>(lines + k, count - k, sums, n);
    return sums;
  }
};

template <class Gather>
void gather(const Gather& rows, int64_t bytes) {
  const TaskSpace space = rows.tasks();
  parallel_for(space.count(), bytes, [&](int64_t begin, int64_t end) {
    for_tasks(space, begin, end, [&](const Task& task, int64_t) { rows(task); });
  });
}

template <class T, class Sum>
void gather_average(const PoolGradPlan& plan, const void* grad, void* result) {
  if constexpr (std::is_same_v<Sum, Acc<T>>) {
    if constexpr (!std::is_same_v<T, double>) {  // which is rare, and a copy of all this
      if (AverageRows<T>::fits(plan)) {
        if constexpr (kVectorBytes > 16)  // others are kept small
          if (PairPlanes<T>::fits(plan))
            return PairPlanes<T>(plan, static_cast<const T*>(grad), static_cast<T*>(result)).run();
        return AverageRows<T>(plan, grad, result).run();
      }
    }
    if (BlockShape::fits(plan)) return AverageBlocks<T>(BlockShape(plan), grad, result).run();
  }
  const AverageGather<T, Sum> base{plan, plan.forward, static_cast<const T*>(grad),
                                   static_cast<T*>(result)};
  if constexpr (std::is_same_v<Sum, Acc<T>>) {
    if (has_lanes(plan)) return gather(LaneGather<T, Sum>(base), plan.compulsory_bytes());
  }
  gather(RowGather<T, Sum>(base), plan.compulsory_bytes());
}

}  // namespace

void average_pool_grad(const PoolGradPlan& plan, const void* grad, void* result) {
  if (plan.forward.outputs() == 0) return;
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    if (std::is_same_v<T, double> || most_covers(plan.forward) > kLongestChain)
      gather_average<T, double>(plan, grad, result);
    else
      gather_average<T, Acc<T>>(plan, grad, result);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
