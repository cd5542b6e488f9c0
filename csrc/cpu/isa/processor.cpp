// Tells processors apart that have one instruction set and want different loops.
#include "cpu/isa/processor.h"

#include <unistd.h>

#include <string_view>

#include "core/environment.h"
#include "cpu/simd/identity.h"

namespace cudml::cpu {
namespace {

bool is_zen4() {
  const auto [family, model] = amd_model();
  const bool has_model = (model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0x80) ||
                         (model >= 0xa0 && model < 0xb0);
  return family == 0x19 && has_model;
}

/// As CUDML_PREFETCH says: "runs", or "apart", pieces alone that are far from each other.
bool is_told_of_runs() {
  const std::string_view wish = environment_text("CUDML_PREFETCH");
  return wish.empty() ? !is_zen4() : wish == "runs";
}

int64_t level1_bytes() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  const int64_t found = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (found > 0) return found;
#endif
  return Processor().level1_bytes;
}

}  // namespace

const Processor processor = {is_told_of_runs(), level1_bytes()};

}  // namespace cudml::cpu
