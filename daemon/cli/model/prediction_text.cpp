// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/model/prediction_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/report/characters.hpp"

namespace autotuned::daemon {
namespace {

// An answer has one of these for each output.
constexpr std::array kFigures = {"probability", "share", "value"};
constexpr double kLikely = 0.5;

std::size_t number_of(const Json& output) {
  const std::int64_t number = get_integer(output, "output").value_or(0);
  return number < 0 ? 0 : static_cast<std::size_t>(number);
}

std::string name_of(const Json& output, std::string_view target,
                    std::span<const std::string> names) {
  const std::size_t number = number_of(output);
  if (number < names.size()) return names[number];
  const std::string_view what = target == "numbers" ? "number" : target == "tags" ? "tag" : "class";
  return fmt::format("{} {}", what, number);
}

// "93.1 %" of shares and probabilities, "1.25" of values; "?" where it is no number.
std::string figure_text(const Json& output) {
  for (const char* const figure : kFigures) {
    if (!output.contains(figure)) continue;
    const auto value = get_number(output, figure);
    if (!value) return "?";
    return figure == std::string_view("value") ? fmt::format("{:.6g}", *value)
                                               : fmt::format("{:.1f} %", *value * 100);
  }
  return "?";
}

}  // namespace

std::string prediction_text(const Json& prediction, std::span<const std::string> names) {
  const std::string target = get_string(prediction, "target").value_or("");
  std::string text;
  const Json* likeliest = nullptr;
  double most = -1;
  for (const Json& output : member(prediction, "outputs")) {
    if (target == "tags") {
      const double probability = get_number(output, "probability").value_or(0);
      if (probability > most) {
        most = probability;
        likeliest = &output;
      }
      if (probability <= kLikely) continue;
    }
    text += (text.empty() ? "" : ", ") + name_of(output, target, names) + " " + figure_text(output);
  }
  if (target == "tags" && text.empty()) {
    text = "no tag";
    if (likeliest != nullptr) {
      text += "; most likely " + name_of(*likeliest, target, names) + " " + figure_text(*likeliest);
    }
  }
  if (target != "masks") return text;
  text = fmt::format("{} x {}: {}", get_integer(prediction, "height").value_or(0),
                     get_integer(prediction, "width").value_or(0), text);
  const auto mask = get_string(prediction, "mask");
  return mask ? text + " → " + *mask : text;
}

Json prediction_json(const Json& prediction, const std::string& picture,
                     std::span<const std::string> names) {
  Json json = prediction.is_object() ? prediction : Json::object();
  json["file"] = picture;
  Json outputs = Json::array();
  for (const Json& output : member(prediction, "outputs")) {
    Json named = output;
    if (!named.is_object()) continue;
    const std::size_t number = number_of(output);
    named.erase("output");
    named["number"] = number;
    named["name"] = number < names.size() ? Json(names[number]) : Json();
    outputs.push_back(std::move(named));
  }
  json["outputs"] = std::move(outputs);
  return json;
}

std::string padded_to(std::string name, int columns) {
  const int blanks = std::max(columns - columns_of(name), 0);
  name.append(static_cast<std::size_t>(blanks), ' ');
  return name;
}

}  // namespace autotuned::daemon
