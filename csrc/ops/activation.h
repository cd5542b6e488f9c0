// Activations as callers name them: the table to look in, and the rules for their parameters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "math/activation.h"

namespace cudml {

/// One row of CUDML_ACTIVATIONS.
struct ActivationInfo {
  ActivationKind kind;
  const char* name;           // "leaky_relu"
  const char* dml_name;       // "ACTIVATION_LEAKY_RELU"
  const char* parameters[2];  // "Alpha"; "" where there is none
  double defaults[2];
  bool required;    // parameters have no defaults
  bool fusable;     // DirectML fuses it into a normalization
  int first_level;  // 0x1000 is feature level 1_0

  int parameter_count() const { return (*parameters[0] != 0) + (*parameters[1] != 0); }
};

std::span<const ActivationInfo> activations();

/// By name ("leaky_relu") or by kind; null where there is none.
const ActivationInfo* find_activation(std::string_view name);
const ActivationInfo* find_activation(ActivationKind kind);

/// "SigmoidInputScale" becomes "sigmoid_input_scale".
std::string snake_case(std::string_view camel_case);

/// A name and parameters (in snake_case) become an activation, defaults filled in. Refuses unknown
/// names and parameters, and missing ones that have no default.
Activation make_activation(const char* op, std::string_view name,
                           const std::vector<std::pair<std::string, double>>& parameters);

/// Rounds the parameters to FLOAT for data other than FLOAT64 and refuses those the formula cannot
/// take (D-ACT-7).
void check_parameters(const char* op, Activation& activation, Dtype dtype);

/// The same, and settles what a parameter of 0 times an infinite input is (D-ACT-16).
void check_activation(const char* op, Activation& activation, Dtype dtype);

}  // namespace cudml
