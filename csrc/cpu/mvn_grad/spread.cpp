// Parameters of short pieces for each of their elements, and sums over elements for each piece.
#include "cpu/mvn_grad/spread.h"

#include <algorithm>
#include <memory>

#include "cpu/mvn_grad/rows.h"
#include "cpu/mvn_grad/totals.h"
#include "cpu/mvn_grad/turned.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using tuning::mvn_grad::kLongestSpread;

const MvnGradAxis& pieces_of(const MvnGradPlan& plan) { return plan.reduced[0]; }
int64_t fold_of(const MvnGradPlan& plan) { return plan.reduced[1].size; }

/// Whether a cell is one packed row in x and grad, of pieces of 2 elements or more, and elements of
/// dx are equally far apart.
bool are_pieces_packed(const MvnGradPlan& plan) {
  if (plan.reduced_rank != 2 || plan.is_empty()) return false;
  const MvnGradAxis &pieces = pieces_of(plan), &inner = plan.reduced[1];
  const int64_t n = inner.size;
  return n <= kLongestSpread && !inner.has_parameters() && inner.x == 1 && inner.grad == 1 &&
         pieces.x == n && pieces.grad == n && (!plan.wants_dx || pieces.dx == n * inner.dx);
}

/// Strides of a parameter that is stored for each element of a cell, and for whatever cells it
/// differs; returns how many elements these are, or 0 where there is none.
int64_t place(MvnGradPlan& plan, bool exists, int64_t MvnGradAxis::* stride) {
  int64_t step = exists ? plan.cell_size : 0;
  for (int d = plan.kept_rank - 1; d >= 0; --d) {
    MvnGradAxis& a = plan.kept[d];
    if (a.*stride == 0) continue;
    a.*stride = step;
    step *= a.size;
  }
  return step;
}

/// The plan of rows whose positions have parameters and totals of their own. Totals are dense; rows
/// that share parameters follow each other, as they are taken together.
MvnGradPlan rows_of(const MvnGradPlan& plan) {
  MvnGradPlan rows = plan;
  MvnGradAxis* to = rows.kept;
  for (const bool have_parameters : {true, false})
    for (int d = 0; d < plan.kept_rank; ++d)
      if (plan.kept[d].has_parameters() == have_parameters) *to++ = plan.kept[d];
  const int64_t fold = fold_of(plan);
  rows.reduced_rank = 1;
  MvnGradAxis& row = rows.reduced[0] = MvnGradAxis{};
  row.size = plan.cell_size;
  row.x = row.grad = 1;
  row.dx = plan.reduced[1].dx;
  row.scale = plan.has_scale ? 1 : 0;
  row.bias = plan.has_bias ? 1 : 0;
  place(rows, plan.has_scale, &MvnGradAxis::scale);
  place(rows, plan.has_bias, &MvnGradAxis::bias);
  for (int k = 0; k < 2; ++k) {
    MvnGradTotal& total = rows.totals[k];
    total.terms /= fold;
    if (!total.is_wanted) continue;
    row.totals[k] = 1;
    for (int d = 0; d < plan.kept_rank; ++d) rows.kept[d].totals[k] *= fold;
    total.dtype = Dtype::float32;
    total.count *= fold;
    total.rank = 1;
    total.axis[0] = {total.count, 1};
  }
  return rows;
}

class Spread {
 public:
  Spread(const MvnGradPlan& plan, const Arrays& arrays)
      : plan_(plan), arrays_(arrays), rows_(rows_of(plan)) {}

  void run(Paths<MvnGradPlan> paths) const {
    Arrays arrays = arrays_;
    const auto scale = spread(2, plan_.has_scale, plan_.scale_dtype, &MvnGradAxis::scale),
               bias = spread(3, plan_.has_bias, plan_.bias_dtype, &MvnGradAxis::bias);
    if (scale) arrays.inputs[2] = scale.get();
    if (bias) arrays.inputs[3] = bias.get();
    std::unique_ptr<float[]> sums[2];
    for (int k = 0; k < 2; ++k) {
      const MvnGradTotal& total = rows_.totals[k];
      if (!total.is_wanted) continue;
      sums[k].reset(new float[size_t(total.count)]);
      arrays.outputs[total.output] = sums[k].get();
    }
    paths[size_t(choose::first(paths, rows_, Machine{num_threads()}))].run(rows_, arrays);
    add_up(sums);
  }

 private:
  /// A parameter, each value as often as its piece has elements.
  std::unique_ptr<char[]> spread(int input, bool exists, Dtype dtype,
                                 int64_t MvnGradAxis::* stride) const {
    if (!exists) return nullptr;
    MvnGradPlan places = plan_;
    const int64_t count = place(places, true, stride);
    std::unique_ptr<char[]> room(new char[size_t(count) * size_of(dtype)]);
    visit(dtype, FloatTypes{}, [&]<class T>() {
      fill(static_cast<const T*>(arrays_.inputs[input]), stride, reinterpret_cast<T*>(room.get()));
    });
    return room;
  }

  template <class T>
  void fill(const T* from, int64_t MvnGradAxis::* stride, T* to) const {
    MvnGradAxis axes[kMaxRank];
    int rank = 0;
    int64_t cells = 1;
    for (int d = 0; d < plan_.kept_rank; ++d) {
      if (plan_.kept[d].*stride == 0) continue;
      MvnGradAxis& a = axes[rank++];
      a.size = plan_.kept[d].size;
      a.x = plan_.kept[d].*stride;
      cells *= a.size;
    }
    const MvnGradAxis& pieces = pieces_of(plan_);
    const int64_t fold = fold_of(plan_);
    GradWalk walk(axes, rank, 0);
    Pace pace;
    for (int64_t c = 0; c < cells; ++c, walk.advance())
      for (int64_t i = 0; i < pieces.size; ++i, to += fold) {
        pace.add(fold);
        std::fill_n(to, fold, from[walk.offsets().x + i * pieces.*stride]);
      }
  }

  /// What the elements of each piece have been added up to, and rounds once more.
  void add_up(const std::unique_ptr<float[]> (&sums)[2]) const {
    if (!plan_.has_totals()) return;
    const Totals<float> totals(plan_, 1, arrays_);
    const int64_t fold = fold_of(plan_);
    Pace pace;
    for (int k = 0; k < 2; ++k)
      for (int64_t i = 0; totals.is_wanted(k) && i < plan_.totals[k].count; ++i) {
        double sum = 0;
        pace.add(fold);
        for (int64_t l = 0; l < fold; ++l) sum += double(sums[k][size_t(i * fold + l)]);
        totals.add_one(0, k, i, sum);
      }
    totals.finish();
  }

  const MvnGradPlan& plan_;
  const Arrays& arrays_;
  const MvnGradPlan rows_;
};

}  // namespace

bool are_grad_pieces_spread(const MvnGradPlan& plan) {
  if (plan.kind == MvnGradKind::sums || !are_pieces_packed(plan)) return false;
  const MvnGradAxis& pieces = pieces_of(plan);
  if ((plan.has_scale && !pieces.scale) || (plan.has_bias && !pieces.bias)) return false;
  for (int k = 0; k < 2; ++k)
    if (plan.totals[k].is_wanted && pieces.totals[k] != 1) return false;
  const MvnGradPlan rows = rows_of(plan);
  return (are_grad_rows_packed(rows) && are_grad_rows_moderate(rows)) || are_grad_rows_short(rows);
}

void run_grad_spread(Paths<MvnGradPlan> paths, const MvnGradPlan& plan, const Arrays& arrays) {
  Spread(plan, arrays).run(paths);
}

}  // namespace cudml::cpu::CUDML_ISA
