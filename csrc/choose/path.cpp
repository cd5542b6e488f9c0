// What is said of choices.
#include "choose/path.h"

#include "core/check.h"

namespace cudml::choose {

void append(std::string& text, const char* separator, std::string_view part) {
  if (!text.empty()) text += separator;
  text += part;
}

void refuse_forced(const char* op, const char* missing) {
  refuse(op, ": CUDML_KERNEL is \"", forced_name(), "\", which needs that ", missing);
}

std::string because_of(const char* name, std::string words) {
  if (words.empty()) words = "it takes every plan";
  if (forced_name() == name) words += "; forced by CUDML_KERNEL";
  return words;
}

void append_refusal(std::string& text, const char* name, const char* missing) {
  text += "; not ";
  text += name;
  text += ", which needs that ";
  text += missing;
}

}  // namespace cudml::choose
