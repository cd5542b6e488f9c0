// Names of places.
#include "library/place.h"

#include "core/check.h"
#include "cuda/device.h"

namespace cudml::library {

std::string name_of(Place place) { return place.is_cuda() ? join("cuda:", place.device) : "cpu"; }

std::optional<Place> place_named(const std::string& name) {
  constexpr size_t kPrefix = 5;  // "cuda:"
  if (name == "cpu") return Place{};
  if (name == "cuda") return Place{cuda::current_device()};
  const bool is_numbered = name.size() > kPrefix && name.size() < kPrefix + 4 &&
                           name.starts_with("cuda:") &&
                           name.find_first_not_of("0123456789", kPrefix) == std::string::npos;
  if (!is_numbered) return std::nullopt;
  return Place{std::stoi(name.substr(kPrefix))};
}

}  // namespace cudml::library
