// Average and Lp pooling on the CPU.
#include "cpu/pool/parts.h"
#include "cpu/pool/values.h"

namespace cudml::cpu::CUDML_ISA {

void average_values(const PoolPlan& plan, ValuePath path, const void* x, void* y) {
  visit(plan.dtype, FloatTypes{},
        [&]<class T>() { pool_values(plan, path, SumOf<T>{}, AverageFinish<T>{}, x, y); });
}

void lp_values(const PoolPlan& plan, ValuePath path, const void* x, void* y) {
  visit(plan.dtype, FloatTypes{}, [&]<class T>() {
    PowerSumOf<T> powers;
    powers.p = plan.p;
    const ZeroSums<T> zeros(plan, static_cast<const T*>(x));
    pool_values(plan, path, powers, LpFinish<T>{plan.p, zeros}, x, y);
  });
}

}  // namespace cudml::cpu::CUDML_ISA
