// The lists of paths of the CPU families, one copy per instruction set; backend.cpp puts them in a
// table.
#pragma once

#include "cpu/isa/paths.h"

namespace cudml::cpu::CUDML_ISA {

Paths<PoolPlan> pool_paths();
/// Of max pooling with indices.
Paths<PoolPlan> winner_paths();
Paths<PoolGradPlan> max_pool_grad_paths();
Paths<PoolGradPlan> average_pool_grad_paths();
Paths<PoolGradPlan> lp_pool_grad_paths();
Paths<PadPlan> pad_paths();
Paths<PadGradPlan> pad_grad_paths();
Paths<MvnPlan> mvn_paths();
Paths<MvnGradPlan> mvn_grad_paths();
Paths<UnpoolPlan> unpool_paths();
Paths<StatisticsPlan> statistics_paths();
Paths<MergePlan> merge_paths();
Paths<NormalizePlan> normalize_paths();

}  // namespace cudml::cpu::CUDML_ISA
