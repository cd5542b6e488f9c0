// The library's own operator descriptions, of functions that DirectML has no descriptor for. They
// have fields as DirectML's structs have, and no number: only Python makes them.
#pragma once

#include <string_view>

#include "directml/lower.h"
#include "directml/schema.h"

namespace cudml::directml {

/// By the function's name; null where there is none.
const Schema* find_own(std::string_view name);

/// Throws what `lower` throws. `desc` is memory with the fields at their places.
Lowered lower_own(const Schema& own, const void* desc);

}  // namespace cudml::directml
