// Tells processors apart that have one instruction set and want different loops.
#include "cpu/isa/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cudml::cpu {
namespace {

#if defined(__x86_64__)
bool is_zen4() {
  unsigned highest = 0, vendor = 0, signature = 0, unused = 0;
  if (!__get_cpuid(0, &highest, &vendor, &unused, &unused)) return false;
  constexpr unsigned kAmd = 0x68747541;  // "Auth", of "AuthenticAMD"
  if (vendor != kAmd || !__get_cpuid(1, &signature, &unused, &unused, &unused)) return false;
  const unsigned family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
  const unsigned model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
  const bool has_model = (model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0x80) ||
                         (model >= 0xa0 && model < 0xb0);
  return family == 0x19 && has_model;
}
#else
bool is_zen4() { return false; }
#endif

}  // namespace

const Processor processor = {!is_zen4()};

}  // namespace cudml::cpu
