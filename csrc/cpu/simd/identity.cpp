// Asks the processor: the one file that is compiled once and knows of instruction sets.
#include "cpu/simd/identity.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cudml::cpu {

#if defined(__x86_64__)

std::vector<std::string> features() {
  std::vector<std::string> found;
#define CUDML_FEATURE(name) \
  if (__builtin_cpu_supports(name)) found.push_back(name);
  CUDML_FEATURE("sse4.2")
  CUDML_FEATURE("avx")
  CUDML_FEATURE("fma")
  CUDML_FEATURE("avx2")
  CUDML_FEATURE("avx512f")
  CUDML_FEATURE("avx512bw")
  CUDML_FEATURE("avx512vl")
  CUDML_FEATURE("avx512bf16")
#undef CUDML_FEATURE
  return found;
}

AmdModel amd_model() {
  unsigned highest = 0, vendor = 0, signature = 0, unused = 0;
  if (!__get_cpuid(0, &highest, &vendor, &unused, &unused)) return {};
  constexpr unsigned kAmd = 0x68747541;  // "Auth", of "AuthenticAMD"
  if (vendor != kAmd || !__get_cpuid(1, &signature, &unused, &unused, &unused)) return {};
  return {(signature >> 8 & 0xf) + (signature >> 20 & 0xff),
          (signature >> 4 & 0xf) | (signature >> 12 & 0xf0)};
}

#else

std::vector<std::string> features() { return {}; }
AmdModel amd_model() { return {}; }

#endif

}  // namespace cudml::cpu
