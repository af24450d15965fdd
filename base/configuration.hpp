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

[[nodiscard]] std::string to_text(const KnobValue& value);  // "on", "3", "0.5" or "bf16"
[[nodiscard]] Json to_json(const KnobValue& value);         // booleans are JSON booleans
[[nodiscard]] Result<KnobValue> knob_value_from(const Json& value);

// Values by knob name. Used both whole (every knob of the job) and as a change (some knobs).
// A value type; equal configurations have equal canonical text and equal hash.
class Configuration {
 public:
  void set(std::string name, KnobValue value);
  void erase(std::string_view name);
  // Returns the value of the knob; null if the configuration does not name it. The pointer is valid until the configuration is
  // modified.
  [[nodiscard]] const KnobValue* find(std::string_view name) const;

  // Return the value of a knob. REQUIRES (asserted): the configuration names the knob, with a value of that type, as a complete
  // configuration does that was checked against the knob table.
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;

  [[nodiscard]] const std::map<std::string, KnobValue, std::less<>>& values() const {
    return values_;
  }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  // Whether every knob of `change` has the same value here.
  [[nodiscard]] bool contains(const Configuration& change) const;

  // Returns a copy in which the knobs of `change` have the values that `change` gives them.
  [[nodiscard]] Configuration with(const Configuration& change) const;
  // Returns the knobs whose values differ, with their values in `other`.
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
