// Max pooling without indices on the CPU.
#include "cpu/pool_parts.h"
#include "cpu/pool_values.h"

namespace cudml::cpu::CUDML_ISA {

void max_values(const PoolPlan& plan, const void* x, void* y) {
  visit(plan.dtype, AllTypes{},
        [&]<class T>() { pool_values<T>(plan, MaxOf<T>{}, MaxFinish{}, x, y); });
}

}  // namespace cudml::cpu::CUDML_ISA
