// SPDX-License-Identifier: Apache-2.0
// The values that a YAML plugin tries (sdk/README.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "plugins/host/expression.hpp"
#include "plugins/sdk/situation.hpp"

namespace autotuned::plugins {

// "'many' is no value of the integer knob threads.intra_op". An empty type is left out: "'kep' is no value of the knob
// memory.malloc".
[[nodiscard]] std::string no_value_text(std::string_view value, std::string_view type,
                                        std::string_view knob);

// The values that one alternative of a YAML plugin tries for a knob: a literal, a fact, a list of these, or the
// neighbours of the incumbent's value in a range such as `1..environment.cpus_allowed`.
class Values {
 public:
  struct Literal {
    std::string text;
    bool is_quoted = false;

    // Whether it is a value of some knob of this type ("integer").
    [[nodiscard]] bool may_be(std::string_view type) const;
  };
  [[nodiscard]] static Parsed<Values> parse_scalar(std::string_view text, bool is_quoted);
  void append(Values other);

  [[nodiscard]] bool may_be_several() const { return items_.size() > 1 || has_range_; }
  // Those that are written, and those that a situation says, bounds of ranges included. They live as long as the values.
  [[nodiscard]] std::vector<const Literal*> literals() const;
  [[nodiscard]] std::vector<const Fact*> facts() const;
  // Returns the values in the knob's type, without those outside its domain. An error if a value can never have the
  // knob's type.
  [[nodiscard]] Parsed<std::vector<Json>> resolve(const sdk::Situation& situation,
                                                  const sdk::Knob& knob) const;

 private:
  using Bound = std::variant<std::int64_t, Fact>;
  struct Range {
    Bound low;
    Bound high;
  };
  [[nodiscard]] static Parsed<Bound> parse_bound(std::string_view text);

  std::vector<std::variant<Literal, Fact, Range>> items_;
  bool has_range_ = false;
};

}  // namespace autotuned::plugins
