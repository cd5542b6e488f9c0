// Chooses the instruction set, once.
#include <atomic>
#include <string>
#include <string_view>

#include "core/environment.h"
#include "cpu/isa/backend.h"

namespace cudml::cpu {
namespace {

struct Level {
  const char* name;  // as CUDML_CPU_ISA spells it
  const Backend* table;
  bool is_supported;
};

#ifdef CUDML_X86_LEVELS
// The features that tell the levels apart; older compilers do not know the levels by name.
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

const Backend& choose() {
  const Level levels[] = {
      {"base", &base::backend, true},
#ifdef CUDML_X86_LEVELS
      {"v3", &v3::backend, has_v3()},
      {"v4", &v4::backend, has_v3() && has_v4()},
#endif
  };
  const std::string_view forced = environment_text("CUDML_CPU_ISA");
  const Backend* best = nullptr;
  std::string permitted;
  for (const Level& level : levels) {
    if (!level.is_supported) continue;
    if (forced == level.name) return *level.table;
    best = level.table;
    permitted += (permitted.empty() ? "" : ", ") + std::string(level.name);
  }
  if (!forced.empty())
    refuse_variable("cudml", "CUDML_CPU_ISA", forced, "this processor permits " + permitted);
  return *best;
}

// Without a lock: a child that is forked while another thread initializes something waits for that
// for ever.
std::atomic<const Backend*> known{nullptr};

}  // namespace

const Backend& backend() {
  const Backend* first = known.load(std::memory_order_acquire);
  if (first) return *first;
  const Backend& chosen = choose();
  return known.compare_exchange_strong(first, &chosen) ? chosen : *first;
}

const char* built_instruction_sets() {
#ifdef CUDML_X86_LEVELS
  return "base,v3,v4";
#else
  return "base";
#endif
}

}  // namespace cudml::cpu
