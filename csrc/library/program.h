// Work on either back end: what each one is handed, and where a plan goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/operands.h"
#include "cuda/backend.h"
#include "library/explain.h"

namespace cudml::library {

/// Where a program's working memory comes from, if it needs any.
class Scratch {
 public:
  virtual ~Scratch() = default;

  /// Memory for work that is about to be enqueued on `stream`, which is null on the CPU. On a GPU
  /// all three are called with its device current.
  virtual void* begin(int64_t bytes, void* stream) = 0;
  /// The work is enqueued.
  virtual void end(void*) {}
  /// Follows in any case, also where begin or the work failed.
  virtual void release() noexcept {}
};

/// Memory that is there for one call only.
class NewMemory : public Scratch {
 public:
  /// `given` is memory that the caller brings instead, or null.
  NewMemory(Place place, void* given) : is_cuda_(place.is_cuda()), given_(given) {}

  void* begin(int64_t bytes, void* stream) override;
  void release() noexcept override { on_stream_.reset(); }

 private:
  bool is_cuda_;
  void* given_;
  std::unique_ptr<std::byte[]> on_cpu_;
  std::optional<cuda::StreamMemory> on_stream_;
};

/// A plan made ready for one place: on the CPU with its path, on a GPU with a kernel for every
/// alignment that addresses can have, so that calls only look it up. May be used from any number of
/// threads.
class Program {
 public:
  Program(const char* op, const Plan& plan, Place place);

  const Plan& plan() const { return plan_; }
  Place place() const { return place_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }  // whatever the alignment
  bool is_long() const { return is_long_; }  // longer than handing a lock over takes
  /// What a call with these operands needs; the same for all on the CPU.
  int64_t workspace_bytes_for(const Operands& operands) const;

  /// Has the driver load every kernel that may run, which must not happen while a graph is
  /// captured.
  void load_kernels() const;

  /// Runs the plan; on a GPU it is enqueued on `stream`. Errors of CUDA begin with the operator.
  void run(const Operands& operands, Scratch& scratch, void* stream) const;

  Explanation explain(const Operands& operands) const;

 private:
  template <class P>
  const cpu::Path<P>& path_for(const P&) const {
    return *static_cast<const cpu::Path<P>*>(path_);
  }

  void choose_kernels();
  void rehearse(const cuda::Choice& choice, size_t alignment_log) const;
  void run_on_cpu(const Operands& operands, Scratch& scratch) const;
  void run_on_cuda(const Operands& operands, Scratch& scratch, void* stream) const;
  cuda::Situation situation_for(const Operands& operands) const;
  cuda::Choice choice_for(const Operands& operands) const;

  const char* op_;
  Plan plan_;
  Place place_;
  const void* path_ = nullptr;  // of the CPU: a cpu::Path of the plan's type
  bool is_long_ = true;
  cuda::Situation situation_;                           // of a GPU
  std::array<std::optional<cuda::Choice>, 9> choices_;  // by the addresses' alignment, log2
  int64_t workspace_bytes_ = 0;
};

}  // namespace cudml::library
