// What the processor says of itself: its features, and who made which one of them.
#pragma once

#include <string>
#include <vector>

namespace cudml::cpu {

/// Names of the features that loops use, of those that it has.
std::vector<std::string> features();

/// Family and model as AMD numbers its processors; 0 of others.
struct AmdModel {
  unsigned family = 0, model = 0;
};
AmdModel amd_model();

}  // namespace cudml::cpu
