// Work on either back end: what each one is handed, and where a plan goes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "bindings/call.h"
#include "cpu/isa/paths.h"
#include "cuda/backend.h"

namespace cudml::bindings {

/// First elements of a call's tensors, null where absent. `second` is a gradient or the scale,
/// `third` the bias.
struct Operands {
  const void *x = nullptr, *second = nullptr, *third = nullptr;
  void *y = nullptr, *indices = nullptr;

  /// The largest power of two that divides every address, at most 256.
  int64_t alignment() const {
    uintptr_t bits = 256;
    for (const void* p :
         {x, second, third, static_cast<const void*>(y), static_cast<const void*>(indices)})
      bits |= reinterpret_cast<uintptr_t>(p);
    return int64_t(bits & (~bits + 1));
  }
};

/// A tensor under DirectML's name, as logs show it.
struct NamedTensor {
  const char* field;
  const TensorDesc* desc;
};
using NamedTensors = std::span<const NamedTensor>;

/// Where a program's working memory comes from, if it needs any.
class Scratch {
 public:
  virtual ~Scratch() = default;

  /// Memory for work that is about to be enqueued on `stream`, which is null on the CPU. All three
  /// are called without the interpreter lock where work is long, on a GPU with its device current.
  virtual void* begin(int64_t bytes, void* stream) = 0;
  /// The work is enqueued.
  virtual void end(void*) {}
  /// Follows in any case, also where begin or the work failed.
  virtual void release() noexcept {}
};

/// A plan made ready for one place: on the CPU with its path, on a GPU with a kernel for every
/// alignment that addresses can have, so that calls only look it up. May be used from any number of
/// threads.
class Program {
 public:
  using Plan = std::variant<PoolPlan, PoolGradPlan, PadPlan, MvnPlan>;

  Program(const char* op, const Plan& plan, Place place);

  const Plan& plan() const { return plan_; }
  const cuda::Situation& situation() const { return situation_; }  // of a GPU
  int64_t workspace_bytes() const { return workspace_bytes_; }     // whatever the alignment
  bool lets_others_run() const { return is_long_; }  // that is, other threads' Python code

  /// Has the driver load every kernel that may run, which must not happen while a graph is
  /// captured.
  void load_kernels() const;

  /// Runs the plan where the call's arrays live, without the interpreter lock where that pays; on a
  /// GPU it is enqueued.
  void run(const Call& call, const Operands& operands, Scratch& scratch) const;

  /// The same in memory that is there for this call only.
  void run(const Call& call, const Operands& operands) const;

  /// One line about a call on standard error.
  void log(const Call& call, const Operands& operands, NamedTensors tensors) const;

 private:
  using Path = std::variant<const cpu::Path<PoolPlan>*, const cpu::Path<PoolGradPlan>*,
                            const cpu::Path<PadPlan>*, const cpu::Path<MvnPlan>*>;

  template <class P>
  const cpu::Path<P>& path_for(const P&) const {
    return *std::get<const cpu::Path<P>*>(path_);
  }

  void choose_kernels();
  void rehearse(const cuda::Choice& choice, size_t alignment_log) const;
  void run_on_cpu(const Operands& operands, Scratch& scratch) const;
  void run_on_cuda(const Call& call, const Operands& operands, Scratch& scratch) const;
  cuda::Situation situation_for(const Operands& operands) const;
  cuda::Choice choice_for(const Operands& operands) const;

  const char* op_;
  Plan plan_;
  Place place_;
  Path path_;            // of the CPU
  bool is_long_ = true;  // the work takes longer than handing over the interpreter lock
  cuda::Situation situation_;
  std::array<std::optional<cuda::Choice>, 9> choices_;  // by the addresses' alignment, log2
  int64_t workspace_bytes_ = 0;
};

/// Scratch memory that the CPU's loops need for a plan.
template <class Plan>
int64_t cpu_workspace_bytes(const Plan&) {
  return 0;
}
inline int64_t cpu_workspace_bytes(const PoolGradPlan& plan) { return plan.workspace_bytes; }

}  // namespace cudml::bindings
