// The table of one instruction set; compiled once for each with CUDML_ISA set.
#include "cpu/isa/backend.h"

#include "cpu/isa/families.h"

namespace cudml::cpu::CUDML_ISA {

const Backend backend = {CUDML_ISA_NAME, pool, max_pool_grad, average_pool_grad, pad, mvn};

}  // namespace cudml::cpu::CUDML_ISA
