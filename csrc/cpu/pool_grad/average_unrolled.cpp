// The paths of average pooling's gradient that gain by flags of their own, for each type.
#include "cpu/pool_grad/average_unrolled.h"

#include "cpu/pool_grad/average_blocks.h"
#include "cpu/pool_grad/average_side_by_side.h"
#include "cpu/pool_grad/average_thirds.h"

namespace cudml::cpu::CUDML_ISA {

void average_thirds(const PoolGradPlan& plan, const Arrays& a) {
  visit_usual(plan, [&]<class T>() { AverageThirds<T>(plan, a.inputs[1], a.outputs[0]).run(); });
}

void average_side_by_side(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{},
        [&]<class T>() { AverageSideBySide<T>(plan, a.inputs[1], a.outputs[0]).run(); });
}

void average_blocks(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{},
        [&]<class T>() { AverageBlocks<T>(BlockShape(plan), a.inputs[1], a.outputs[0]).run(); });
}

}  // namespace cudml::cpu::CUDML_ISA
