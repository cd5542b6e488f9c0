// The table of one instruction set; compiled once for each with CUDML_ISA set.
#include "cpu/isa/backend.h"

#include "cpu/isa/families.h"

namespace cudml::cpu::CUDML_ISA {

const Backend backend = {CUDML_ISA_NAME,          pool_paths, winner_paths, max_pool_grad_paths,
                         average_pool_grad_paths, pad_paths,  mvn_paths,    mvn_grad_paths};

}  // namespace cudml::cpu::CUDML_ISA
