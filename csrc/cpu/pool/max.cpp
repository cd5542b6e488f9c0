// Max pooling without indices on the CPU.
#include "cpu/pool/maxima.h"
#include "cpu/pool/parts.h"
#include "cpu/pool/values.h"

namespace cudml::cpu::CUDML_ISA {

void max_values(const PoolPlan& plan, ValuePath path, const void* x, void* y) {
  with_maximum(plan.dtype, AllTypes{},
               [&](auto op) { pool_values(plan, path, op, MaxFinish{}, x, y); });
}

}  // namespace cudml::cpu::CUDML_ISA
