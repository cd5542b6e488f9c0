// The lowering of max unpooling and batch normalization.
#pragma once

#include "directml/reader.h"

namespace cudml::directml {

void lower_max_unpooling(const Reader& reader, Lowered& lowered);

void lower_batch_normalization(const Reader& reader, DML_FEATURE_LEVEL level, Lowered& lowered);

/// `part` for statistics that are constants, `whole` for those of the input itself.
void lower_batch_normalization_grad(const Reader& reader, MvnGradKind kind, Lowered& lowered);

}  // namespace cudml::directml
