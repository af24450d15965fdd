// SPDX-License-Identifier: Apache-2.0
// The small language of YAML plugins (sdk/README.md): facts, conditions over them, values to try and
// sentences. Everything is parsed when the file is read; evaluating cannot fail, only not know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "plugins/sdk/situation.hpp"

namespace autotuned::plugins {

// What went wrong, without a place: the caller knows where the text stood.
template <class T>
using Parsed = tl::expected<T, std::string>;

// A named figure of a situation: `environment.cpus_allowed`, `job.device`, `recipe.optimizer`,
// `starting.batch_size`, `incumbent.loader.workers`; any other name is a metric.
class Fact {
 public:
  [[nodiscard]] static Parsed<Fact> parse(std::string_view name);
  // Whether the text begins like one that is no metric, so that it is not taken for a plain word.
  [[nodiscard]] static bool is_sectioned(std::string_view text);

  [[nodiscard]] const std::string& name() const { return name_; }
  // Null when it is not known. Lives as long as the situation.
  [[nodiscard]] const Json& of(const sdk::Situation& situation) const;
  // For people, by the unit in the name: 0.31 of a `_ratio` is "31 %".
  [[nodiscard]] std::string text(const sdk::Situation& situation) const;

 private:
  std::string name_;
  std::string section_;
  std::string key_;
};

// `cpu.utilization_ratio < 0.9`, `job.device == cpu`, `environment.cpu_features has avx512_bf16`,
// `incumbent.threads.intra_op < environment.cpus_allowed`.
class Condition {
 public:
  [[nodiscard]] static Parsed<Condition> parse(std::string_view text);
  // Why it does not hold; empty when it does. What is not known does not hold.
  [[nodiscard]] std::string failure(const sdk::Situation& situation) const;

 private:
  enum class Operator { less, less_equal, greater, greater_equal, equal, not_equal, has };
  struct Literal {
    std::string text;
    std::optional<double> number;
  };
  [[nodiscard]] bool holds(const Json& left, const Json& right, const Literal* literal) const;

  std::string text_;
  std::variant<Literal, Fact> right_;
  std::vector<Fact> left_;  // exactly one; a Fact has no empty state
  Operator operator_ = Operator::less;
};

// The values of one knob that an alternative tries: a literal, a fact, several of them, or the
// neighbours of the incumbent's value in a range such as `1..environment.cpus_allowed`.
class Values {
 public:
  struct Literal {
    std::string text;
    bool is_quoted = false;
  };
  [[nodiscard]] static Parsed<Values> parse_scalar(std::string_view text, bool is_quoted);
  void append(Values other);

  [[nodiscard]] bool may_be_several() const { return items_.size() > 1 || has_range_; }
  // In the knob's type and domain; values outside of it are left out. An error when a value can never
  // be of the knob's type.
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

// `the step spends {step.zero_grad_ratio} of its time on filling`.
class Sentence {
 public:
  [[nodiscard]] static Parsed<Sentence> parse(std::string_view text);
  [[nodiscard]] std::string fill(const sdk::Situation& situation) const;

 private:
  std::vector<std::variant<std::string, Fact>> parts_;
};

}  // namespace autotuned::plugins
