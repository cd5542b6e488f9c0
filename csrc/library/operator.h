// An operator of a DirectML descriptor, checked and lowered: what every way into the library makes
// of a descriptor.
#pragma once

#include <memory>

#include "directml/own.h"

namespace cudml::library {

using Operator = directml::Lowered;

/// Throws what `directml::lower` throws. Nothing of the descriptor is kept.
std::shared_ptr<const Operator> make_operator(const DML_OPERATOR_DESC& desc,
                                              DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_6_4);

/// The same of a description of the library's own, which lies as its schema says.
std::shared_ptr<const Operator> make_operator(const directml::Schema& own, const void* desc);

}  // namespace cudml::library
