// The merge of statistics on the CPU, element by element.
#include "cpu/merge/plain.h"
#include "cpu/memory/strided_walk.h"
#include "cpu/threads/interrupt.h"
#include "cpu/threads/parallel.h"
#include "math/merged.h"

namespace cudml::cpu::CUDML_ISA {
namespace {

using Offsets = StridedOffsets<MergePlan::kTensors>;

/// A stretch along one dimension; a stride of 1 is known to the compiler.
template <class T, bool kIsPacked>
void merge_row(const Operands& o, const Offsets& at, const MergePlan::Axis& axis, int64_t n) {
  const T* in[MergePlan::kInputs];
  T* out[3];
  int64_t stride[MergePlan::kTensors];
  for (int t = 0; t < MergePlan::kTensors; ++t) stride[t] = kIsPacked ? 1 : axis.stride[t];
  for (int t = 0; t < MergePlan::kInputs; ++t) in[t] = static_cast<const T*>(o.inputs[t]) + at[t];
  for (int t = 0; t < 3; ++t) out[t] = static_cast<T*>(o.outputs[t]) + at[MergePlan::kInputs + t];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Statistics<T> both =
        merged<T>({in[0][i * stride[0]], in[1][i * stride[1]], in[2][i * stride[2]]},
                  {in[3][i * stride[3]], in[4][i * stride[4]], in[5][i * stride[5]]});
    out[0][i * stride[6]] = both.count;
    out[1][i * stride[7]] = both.mean;
    out[2][i * stride[8]] = both.m2;
  }
}

bool is_packed(const MergePlan::Axis& axis) {
  return std::all_of(axis.stride, axis.stride + MergePlan::kTensors,
                     [](int64_t stride) { return stride == 1; });
}

}  // namespace

template <class T>
void merge_plain(const MergePlan& plan, const Operands& operands) {
  if (plan.is_empty()) return;
  const int rank = std::max(plan.rank, 1);
  const MergePlan::Axis& inner = plan.axis[rank - 1];
  const auto row = is_packed(inner) ? &merge_row<T, true> : &merge_row<T, false>;
  parallel_for(plan.elements, plan.compulsory_bytes(), [&](int64_t begin, int64_t end) {
    Pace pace;
    for_axis_pieces(plan.axis, rank, Offsets{}, begin, end - begin,
                    [&](const Offsets& at, int64_t, int64_t n) {
                      pace.add(n);
                      row(operands, at, inner, n);
                    });
  });
}

template void merge_plain<float>(const MergePlan&, const Operands&);
template void merge_plain<double>(const MergePlan&, const Operands&);

}  // namespace cudml::cpu::CUDML_ISA
