// Operators from descriptors, whatever the caller's rounding mode.
#include "library/operator.h"

#include "cpu/simd/float_state.h"

namespace cudml::library {

std::shared_ptr<const Operator> make_operator(const DML_OPERATOR_DESC& desc,
                                              DML_FEATURE_LEVEL level) {
  const FloatState state;  // numbers of the descriptor are rounded here
  return std::make_shared<const Operator>(directml::lower(desc, level));
}

std::shared_ptr<const Operator> make_operator(const directml::Schema& own, const void* desc) {
  const FloatState state;
  return std::make_shared<const Operator>(directml::lower_own(own, desc));
}

}  // namespace cudml::library
