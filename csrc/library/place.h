// Where tensors live and work is done.
#pragma once

#include <optional>
#include <string>

namespace cudml::library {

struct Place {
  int device = -1;  // a CUDA device's number, or -1 for the CPU

  bool is_cuda() const { return device >= 0; }
  bool operator==(const Place&) const = default;
};
std::string name_of(Place place);  // "cpu", "cuda:1"

/// The place called "cpu", "cuda" (the current device) or "cuda:<number>"; nothing else has a
/// place. Throws cuda::Error where CUDA is asked for and there is none.
std::optional<Place> place_named(const std::string& name);

}  // namespace cudml::library
