// Checks of the environment that need the lists of kernels and paths.
#include "library/environment.h"

#include <functional>
#include <string>
#include <string_view>

#include "choose/path.h"
#include "core/check.h"
#include "core/environment.h"
#include "cpu/isa/backend.h"
#include "cuda/choose.h"

namespace cudml::library {
namespace {

/// A name in CUDML_KERNEL is a kernel's or a path's.
void check_forced_name(const char* op, std::string_view name) {
  if (name.empty()) return;
  const std::string names = cuda::kernel_names() + ", " + cpu::path_names();
  const bool is_known =
      name.find(',') == name.npos && (", " + names + ",").find(join(", ", name, ",")) != name.npos;
  if (!is_known) refuse_variable(op, "CUDML_KERNEL", name, "it must be one of " + names);
}

}  // namespace

uint64_t check_environment(const char* op) {
  environment(op);
  const std::string_view name = choose::forced_name();
  check_forced_name(op, name);
  return std::hash<std::string_view>()(name);
}

uint64_t forced_kernel_now() { return std::hash<std::string_view>()(choose::forced_name()); }

}  // namespace cudml::library
