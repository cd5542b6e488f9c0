// The table of one instruction set; compiled once for each with CUDML_ISA set.
#include "cpu/isa/backend.h"

#include "cpu/isa/families.h"

namespace cudml::cpu::CUDML_ISA {

const Backend backend = {
    .isa = CUDML_ISA_NAME,
    .pool = pool_paths,
    .winners = winner_paths,
    .max_pool_grad = max_pool_grad_paths,
    .average_pool_grad = average_pool_grad_paths,
    .lp_pool_grad = lp_pool_grad_paths,
    .unpool = unpool_paths,
    .pad = pad_paths,
    .pad_grad = pad_grad_paths,
    .mvn = mvn_paths,
    .mvn_grad = mvn_grad_paths,
    .statistics = statistics_paths,
    .merge = merge_paths,
    .normalize = normalize_paths,
};

}  // namespace cudml::cpu::CUDML_ISA
