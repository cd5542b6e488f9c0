// Tells processors apart that have one instruction set and want different loops.
#include "cpu/isa/processor.h"

#include "cpu/simd/identity.h"

namespace cudml::cpu {
namespace {

bool is_zen4() {
  const auto [family, model] = amd_model();
  const bool has_model = (model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0x80) ||
                         (model >= 0xa0 && model < 0xb0);
  return family == 0x19 && has_model;
}

/// Of Zen 5's successors nothing is known.
bool is_zen5() { return amd_model().family == 0x1a; }

}  // namespace

const Processor processor = {!is_zen4(), is_zen5() ? 65536 : 3072};

}  // namespace cudml::cpu
