// SPDX-License-Identifier: Apache-2.0
// The parameters that a recipe gives to a plugin: `model: {plugin: mine, hidden: 32}` gives `hidden`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace autotuned::sdk {

// Reads throw std::invalid_argument, which ends the run with that text, the plugin's name and the line of the recipe. A
// parameter that the plugin never reads is unknown to it: refuse_unknown(), which the program calls afterwards, throws
// for it.
class Parameters {
 public:
  explicit Parameters(const std::string& json) : values_(nlohmann::json::parse(json)) {}

  // The parameter, or `otherwise` if the recipe does not give it. Without `otherwise` the parameter is required.
  [[nodiscard]] std::int64_t integer(const std::string& name,
                                     std::optional<std::int64_t> otherwise = {}) const {
    const nlohmann::json* const value = find(name, otherwise.has_value());
    if (value == nullptr) return *otherwise;
    if (!value->is_number_integer()) refuse(name, "an integer", *value);
    return value->get<std::int64_t>();
  }
  // The same, limited to `least` .. `most`.
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise,
                                     std::int64_t least, std::int64_t most) const {
    const std::int64_t value = integer(name, otherwise);
    if (value < least || value > most) {
      refuse(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most),
             value);
    }
    return value;
  }
  [[nodiscard]] double number(const std::string& name, std::optional<double> otherwise = {}) const {
    const nlohmann::json* const value = find(name, otherwise.has_value());
    if (value == nullptr) return *otherwise;
    if (!value->is_number()) refuse(name, "a number", *value);
    return value->get<double>();
  }
  [[nodiscard]] bool flag(const std::string& name, std::optional<bool> otherwise = {}) const {
    const nlohmann::json* const value = find(name, otherwise.has_value());
    if (value == nullptr) return *otherwise;
    if (!value->is_boolean()) refuse(name, "true or false", *value);
    return value->get<bool>();
  }
  [[nodiscard]] std::string text(const std::string& name,
                                 const std::optional<std::string>& otherwise = {}) const {
    const nlohmann::json* const value = find(name, otherwise.has_value());
    if (value == nullptr) return *otherwise;
    if (!value->is_string()) refuse(name, "text", *value);
    return value->get<std::string>();
  }
  // A value of any other type, such as a list; null if it is not given.
  [[nodiscard]] nlohmann::json value(const std::string& name) const {
    const nlohmann::json* const found = find(name, true);
    return found == nullptr ? nlohmann::json() : *found;
  }

  void refuse_unknown() const {
    for (const auto& [name, value] : values_.items()) {
      if (asked_.contains(name)) continue;
      std::string known;
      for (const std::string& one : asked_)
        known += (known.empty() ? "" : ", ") + one;
      throw std::invalid_argument("there is no parameter '" + name + "'; known are " +
                                  (known.empty() ? "none" : known));
    }
  }

 private:
  const nlohmann::json* find(const std::string& name, bool is_optional) const {
    asked_.insert(name);
    const auto found = values_.find(name);
    if (found != values_.end()) return &*found;
    if (!is_optional) throw std::invalid_argument("the parameter '" + name + "' is missing");
    return nullptr;
  }
  [[noreturn]] static void refuse(const std::string& name, const std::string& expected,
                                  const nlohmann::json& found) {
    throw std::invalid_argument("parameter '" + name + "': expected " + expected + ", found " +
                                found.dump());
  }

  nlohmann::json values_;
  mutable std::set<std::string> asked_;
};

}  // namespace autotuned::sdk
