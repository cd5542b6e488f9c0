// Every kind of plan there is.
#pragma once

#include <variant>

#include "ops/merge.h"
#include "ops/mvn.h"
#include "ops/mvn_grad.h"
#include "ops/normalize.h"
#include "ops/pad.h"
#include "ops/pad_grad.h"
#include "ops/pool.h"
#include "ops/pool_grad.h"
#include "ops/statistics.h"
#include "ops/unpool.h"

/// Calls a macro with each type of plan.
#define CUDML_PLANS(each)                                                                          \
  each(PoolPlan) each(PoolGradPlan) each(UnpoolPlan) each(PadPlan) each(PadGradPlan) each(MvnPlan) \
      each(MvnGradPlan) each(StatisticsPlan) each(MergePlan) each(NormalizePlan)

namespace cudml {

using Plan = std::variant<PoolPlan, PoolGradPlan, UnpoolPlan, PadPlan, PadGradPlan, MvnPlan,
                          MvnGradPlan, StatisticsPlan, MergePlan, NormalizePlan>;

}  // namespace cudml
