// Choosing among ways to compute a plan: ordered lists, predicates with names, a plain way last.
// The kernels of a GPU and the paths of the CPU are such lists.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/environment.h"

namespace cudml::choose {

inline constexpr int kMostPredicates = 6;

/// `Situation` is what a choice depends on beside the plan.
template <class Plan, class Situation>
struct Predicate {
  const char* name = nullptr;  // reads as the end of "because …": "rows are at most 512 elements"
  bool (*holds)(const Plan& plan, const Situation& situation) = nullptr;
};

/// What must hold for a way to take a plan; ends at the first predicate without a name.
template <class Plan, class Situation>
using Needs = Predicate<Plan, Situation>[kMostPredicates];

/// The first predicate of a way that fails, or null.
template <class Way, class Plan, class Situation>
const char* refusal(const Way& way, const Plan& plan, const Situation& situation) {
  for (const Predicate<Plan, Situation>& p : way.needs)
    if (p.name && !p.holds(plan, situation)) return p.name;
  return nullptr;
}

/// The name CUDML_KERNEL gives, empty where none; read at every call, so that tests can change it.
inline std::string_view forced_name() { return environment_text("CUDML_KERNEL"); }

/// The place of a name in a list, or -1.
template <class Way>
int find(std::span<const Way> ways, std::string_view name) {
  for (size_t i = 0; i < ways.size(); ++i)
    if (name == ways[i].name) return int(i);
  return -1;
}

/// Adds to a text in which every part but the first follows `separator`.
void append(std::string& text, const char* separator, std::string_view part);

/// The names in some lists, comma-separated.
template <class... Ways>
std::string names_of(std::span<const Ways>... lists) {
  std::string text;
  const auto add = [&](const auto& ways) {
    for (const auto& way : ways) append(text, ", ", way.name);
  };
  (add(lists), ...);
  return text;
}

/// Refuses a way that CUDML_KERNEL forces and that lacks something.
[[noreturn]] void refuse_forced(const char* op, const char* missing);

/// The place of the way that CUDML_KERNEL forces, refused where it cannot take the plan, or -1
/// where it names none of the list. `op` begins the refusal.
template <class Way, class Plan, class Situation>
int forced(const char* op, std::span<const Way> ways, const Plan& plan,
           const Situation& situation) {
  const std::string_view name = forced_name();
  const int index = name.empty() ? -1 : find(ways, name);
  if (index < 0) return -1;
  if (const char* missing = refusal(ways[size_t(index)], plan, situation))
    refuse_forced(op, missing);
  return index;
}

/// The place of the first way that takes the plan. The last has no predicates.
template <class Way, class Plan, class Situation>
int first(std::span<const Way> ways, const Plan& plan, const Situation& situation) {
  int index = 0;
  while (refusal(ways[size_t(index)], plan, situation)) ++index;
  return index;
}

/// How a chosen way's words end: what there is to say where it has no predicates or is forced.
std::string because_of(const char* name, std::string words);

/// What holds for the chosen way, as the end of "because …".
template <class Way>
std::string because(std::span<const Way> ways, int chosen) {
  const Way& way = ways[size_t(chosen)];
  std::string text;
  for (const auto& p : way.needs)
    if (p.name) append(text, ", ", p.name);
  return because_of(way.name, std::move(text));
}

/// "; not NAME, which needs that MISSING".
void append_refusal(std::string& text, const char* name, const char* missing);

/// For every earlier way the predicate that failed.
template <class Way, class Plan, class Situation>
std::string instead_of(std::span<const Way> ways, int chosen, const Plan& plan,
                       const Situation& situation) {
  std::string text;
  for (const Way& way : ways.first(size_t(chosen)))
    if (const char* missing = refusal(way, plan, situation))
      append_refusal(text, way.name, missing);
  return text;
}

}  // namespace cudml::choose
