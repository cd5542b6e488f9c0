// A versioned descriptor in, every check made, the canonical Desc and its Plan out.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cudml/DirectML.h"
#include "ops/plans.h"

namespace cudml::directml {

/// The merge of statistics, which its tensors say all about.
struct MergeDesc {};

using CanonicalDesc = std::variant<PoolDesc, PoolGradDesc, UnpoolDesc, PadDesc, PadGradDesc,
                                   MvnDesc, MvnGradDesc, StatisticsDesc, MergeDesc, NormalizeDesc>;

/// One tensor field of the descriptor; `desc` says nothing where it is absent.
struct Tensor {
  const char* field;
  bool is_output = false, present = false;
  TensorDesc desc;
  bool is_owned = false;     // OWNED_BY_DML
  uint64_t total_bytes = 0;  // TotalTensorSizeInBytes
  int operand = 0;           // which of the plan's inputs or outputs it is
};

struct Lowered {
  const char* op;               // the middle of the struct's name, "MAX_POOLING2", or a function's
  std::vector<Tensor> tensors;  // in the descriptor's order, absent optional ones included
  CanonicalDesc desc;
  Plan plan;
};

/// Throws TypeError where data types do not match what they must, std::invalid_argument for
/// everything else that is wrong. Kernels never see the feature level.
Lowered lower(const DML_OPERATOR_DESC& desc, DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_6_4);

/// The same in words: one line per tensor, then the canonical operator with its arguments.
std::string describe(const Lowered& lowered);

}  // namespace cudml::directml
