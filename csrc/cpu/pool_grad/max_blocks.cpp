// Max pooling's gradient by blocks, for each type.
#include "cpu/pool_grad/max_blocks.h"

namespace cudml::cpu::CUDML_ISA {

void max_blocks(const PoolGradPlan& plan, const Arrays& a) {
  visit(plan.forward.dtype, FloatTypes{}, [&]<class T>() {
    MaxBlocks<T>(BlockShape(plan), a.inputs[0], a.inputs[1], a.outputs[0]).run();
  });
}

}  // namespace cudml::cpu::CUDML_ISA
