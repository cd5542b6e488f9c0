// The paths of the CPU: one ordered list per family, first choice first, the plain loop last.
#pragma once

#include "choose/path.h"
#include "core/operands.h"
#include "ops/plans.h"

namespace cudml::cpu {

/// The memory of a call and what its plan needs beside.
struct Arrays : Operands {
  void* workspace = nullptr;
};

/// What a choice depends on beside the plan and the instruction set, whose list it is.
struct Machine {
  int threads = 1;
};

template <class Plan>
using Predicate = choose::Predicate<Plan, Machine>;

/// How many times as fast a path is as the next one of its list that would take the plan, at its
/// best on one thread and where that was: benchmarks/results/cpu_zen5_paths.txt, or of paths that
/// its suite has no call for, cpu_zen5_usual_paths.txt, and by calls of their own; 0 where it has
/// not been measured, or does not gain on that processor.
struct Gain {
  double times = 0;
  const char* where = "";  // a problem of the benchmark suite or among its usual calls
};

/// One way to compute the plans of a family. It takes a plan where all its predicates hold.
template <class Plan>
struct Path {
  const char* name;  // the file that holds its loops: "pad/packed"
  choose::Needs<Plan, Machine> needs;
  void (*run)(const Plan& plan, const Arrays& arrays);
  Gain gain = {};
};

template <class Plan>
using Paths = std::span<const Path<Plan>>;

}  // namespace cudml::cpu
