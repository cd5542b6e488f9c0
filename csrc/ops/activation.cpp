// Activations as callers name them: look-up, defaults, rules for the parameters.
#include "ops/activation.h"

#include <cctype>
#include <cmath>

namespace cudml {
namespace {

constexpr ActivationInfo kActivations[] = {
#define ENTRY(kind, dml, p0, d0, p1, d1, required, fusable, level) \
  {ActivationKind::kind, #kind, dml, {p0, p1}, {d0, d1}, required, fusable, level},
    CUDML_ACTIVATIONS(ENTRY)
#undef ENTRY
};

std::string known_names() {
  std::string names;
  for (const ActivationInfo& info : kActivations)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

std::string parameter_names(const ActivationInfo& info) {
  if (info.parameter_count() == 0) return "it has no parameters";
  std::string text = "its parameters are " + snake_case(info.parameters[0]);
  if (info.parameter_count() == 2) text += " and " + snake_case(info.parameters[1]);
  return text;
}

int find_parameter(const ActivationInfo& info, std::string_view name) {
  for (int i = 0; i < info.parameter_count(); ++i)
    if (snake_case(info.parameters[i]) == name) return i;
  return -1;
}

/// What is left of an activation whose parameters of 0 count as 0 even against an infinite input.
Activation simplified(Activation f) {
  using enum ActivationKind;
  const Activation zero{constant, 0, 0};
  switch (f.kind) {
    case linear: return f.a == 0 ? Activation{constant, 0, f.b} : f;
    case leaky_relu: return f.a == 0 ? Activation{relu} : f;
    case scaled_elu: return f.b == 0 ? zero : f;
    case scaled_tanh: return f.b == 0 ? zero : f;
    case hard_sigmoid: return f.a == 0 ? Activation{constant, 0, clamp_to_unit(f.b)} : f;
    case hard_swish: return f.a == 0 ? simplified({linear, clamp_to_unit(f.b), 0}) : f;
    case swish: return f.a == 0 ? Activation{linear, 0.5, 0} : f;
    case parametric_softplus:
      if (f.a == 0) return zero;
      return f.b == 0 ? Activation{constant, 0, f.a * std::log(2.0)} : f;
    default: return f;
  }
}

}  // namespace

std::span<const ActivationInfo> activations() { return kActivations; }

const ActivationInfo* find_activation(std::string_view name) {
  for (const ActivationInfo& info : kActivations)
    if (info.name == name) return &info;
  return nullptr;
}

const ActivationInfo* find_activation(ActivationKind kind) {
  for (const ActivationInfo& info : kActivations)
    if (info.kind == kind) return &info;
  return nullptr;
}

std::string snake_case(std::string_view camel_case) {
  std::string snake;
  for (char c : camel_case) {
    if (std::isupper(static_cast<unsigned char>(c)) && !snake.empty()) snake += '_';
    snake += char(std::tolower(static_cast<unsigned char>(c)));
  }
  return snake;
}

Activation make_activation(const char* op, std::string_view name,
                           const std::vector<std::pair<std::string, double>>& parameters) {
  const ActivationInfo* info = find_activation(name);
  check(info, op, ": FusedActivation is \"", name, "\"; it must be one of ", known_names());
  double values[2] = {info->defaults[0], info->defaults[1]};
  bool given[2] = {false, false};
  for (const auto& [key, value] : parameters) {
    const int i = find_parameter(*info, key);
    check(i >= 0, op, ": FusedActivation ", name, " is given \"", key, "\"; ",
          parameter_names(*info));
    values[i] = value;
    given[i] = true;
  }
  for (int i = 0; info->required && i < info->parameter_count(); ++i)
    check(given[i], op, ": FusedActivation ", name, " is given no ",
          snake_case(info->parameters[i]), ", which has no default; ", parameter_names(*info));
  return {info->kind, values[0], values[1]};
}

void check_parameters(const char* op, Activation& activation, Dtype dtype) {
  const ActivationInfo* info = find_activation(activation.kind);
  if (!info) return;
  double* values[2] = {&activation.a, &activation.b};
  for (int i = 0; i < info->parameter_count(); ++i) {
    const double given = *values[i];
    if (dtype != Dtype::float64) *values[i] = static_cast<float>(given);
    check(std::isfinite(*values[i]), op, ": FusedActivation.", info->parameters[i], " is ", given,
          "; it must be finite", dtype == Dtype::float64 ? "" : " as a FLOAT");
  }
  if (activation.kind == ActivationKind::softplus)
    check(activation.a > 0, op, ": FusedActivation.Steepness is ", activation.a,
          "; it must be greater than 0");
  if (activation.kind == ActivationKind::celu)
    check(activation.a != 0, op, ": FusedActivation.Alpha is ", activation.a, "; it must not be 0");
}

void check_activation(const char* op, Activation& activation, Dtype dtype) {
  check_parameters(op, activation, dtype);
  activation = simplified(activation);
}

}  // namespace cudml
