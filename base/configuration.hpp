// SPDX-License-Identifier: Apache-2.0
// A configuration: knobs with their values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned {

using KnobValue = std::variant<bool, std::int64_t, double, std::string>;

[[nodiscard]] std::string to_text(const KnobValue& value);  // on/off, 3, 0.5, bf16
[[nodiscard]] Json to_json(const KnobValue& value);         // booleans are JSON booleans
[[nodiscard]] Result<KnobValue> knob_value_from(const Json& value);

// Values by knob name. Used both whole (every knob of the job) and as a change (some knobs).
// A value type; equal configurations have equal canonical text and equal hash.
class Configuration {
 public:
  void set(std::string name, KnobValue value);
  void erase(std::string_view name);
  // Null when the knob is not named here. The pointer lives as long as this is not modified.
  [[nodiscard]] const KnobValue* find(std::string_view name) const;

  // Typed reads of a knob that must be there with that type (asserts): for code that holds a
  // complete configuration which has been checked against the knob table.
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;

  [[nodiscard]] const std::map<std::string, KnobValue, std::less<>>& values() const {
    return values_;
  }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  // Whether every knob of `change` has its value here.
  [[nodiscard]] bool contains(const Configuration& change) const;

  // This with every value of `change` set over it.
  [[nodiscard]] Configuration with(const Configuration& change) const;
  // The knobs whose value in `other` differs from here, with the value they have in `other`.
  [[nodiscard]] Configuration change_to(const Configuration& other) const;

  // "batch_size=32 loader.workers=2", sorted by name: for people, logs and hashing. As long as each
  // knob has one type, different configurations have different texts.
  [[nodiscard]] std::string canonical_text() const;
  // 16 hexadecimal digits over canonical_text(); stable between versions.
  [[nodiscard]] std::string hash() const;

  [[nodiscard]] Json to_json() const;  // {"batch_size": 32, "loader.workers": 2}
  [[nodiscard]] static Result<Configuration> from_json(const Json& value);

  friend bool operator==(const Configuration&, const Configuration&) = default;

 private:
  std::map<std::string, KnobValue, std::less<>> values_;
};

}  // namespace autotuned
