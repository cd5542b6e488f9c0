// Explanations and the log.
#include "library/explain.h"

#include <cstdio>

#include "core/check.h"
#include "core/environment.h"
#include "cpu/isa/backend.h"

namespace cudml::library {

template <class Plan>
Explanation explain_cpu(const Plan& plan, const cpu::Path<Plan>& path) {
  return {path.name, cpu::reason(plan, path), plan.compulsory_bytes(), cpu_workspace_bytes(plan),
          std::nullopt};
}

template <class Plan>
Explanation explain_cuda(const Plan& plan, const cuda::Situation& situation,
                         const cuda::Choice& choice) {
  return {choice.name, cuda::reason(plan, situation, choice), plan.compulsory_bytes(),
          choice.geometry.workspace_bytes, choice.geometry};
}

#define CUDML_INSTANTIATE(Plan)                                          \
  template Explanation explain_cpu(const Plan&, const cpu::Path<Plan>&); \
  template Explanation explain_cuda(const Plan&, const cuda::Situation&, const cuda::Choice&);
CUDML_PLANS(CUDML_INSTANTIATE)
#undef CUDML_INSTANTIATE

bool is_logging() { return environment().is_logging; }

void log_call(const char* op, Place place, void* stream, const Explanation& e,
              NamedTensors tensors) {
  TextStream line;
  line << "cudml: " << op;
  for (const NamedTensor& t : tensors)
    line << ' ' << t.field << '=' << name_of(t.desc->dtype) << t.desc->sizes << "strides"
         << t.desc->strides;
  line << " device=" << name_of(place) << " stream=";
  if (place.is_cuda())
    line << "0x" << std::hex << reinterpret_cast<uintptr_t>(stream) << std::dec;
  else
    line << "none";
  line << " kernel=" << e.kernel << " bytes=" << e.bytes << " reason=\"" << e.reason << "\"\n";
  const std::string text = line.str();
  std::fwrite(text.data(), 1, text.size(), stderr);  // at once: threads' lines must not mix
}

}  // namespace cudml::library
