// SPDX-License-Identifier: Apache-2.0
// The small language of YAML plugins (sdk/README.md): facts, conditions over them and sentences.
// Everything is parsed when the file is read. Evaluation cannot fail: where a fact is missing, the result is "not known".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "plugins/sdk/situation.hpp"

namespace autotuned::plugins {

// An error is a message without a place: the caller knows where in the file the text stands.
template <class T>
using Parsed = tl::expected<T, std::string>;

inline constexpr std::size_t kMaxExpressionCharacters = 500;

// A named figure of a situation: `environment.cpus_allowed`, `job.device`, `recipe.optimizer`,
// `starting.batch_size`, `incumbent.loader.workers`; any other name is a metric. Of several, `NAME or NAME`, the
// first one that is known.
class Fact {
 public:
  struct Name {
    std::string section;  // of the situation, such as "environment" or "metrics"
    std::string key;
  };
  [[nodiscard]] static Parsed<Fact> parse(std::string_view name);
  // Whether the text begins with the name of a section, such as `job.`: such a text is a fact, not a plain word.
  [[nodiscard]] static bool is_sectioned(std::string_view text);

  [[nodiscard]] const std::string& name() const { return name_; }
  // One, or those between the words `or`.
  [[nodiscard]] const std::vector<Name>& names() const { return names_; }
  // The value of the fact; null when it is not known. The reference is valid as long as `situation`.
  [[nodiscard]] const Json& of(const sdk::Situation& situation) const;
  // The value for people, formatted by the unit in the name: a `_ratio` of 0.31 is "31 %".
  [[nodiscard]] std::string text(const sdk::Situation& situation) const;

 private:
  [[nodiscard]] static Parsed<Name> parse_one(std::string_view text);
  // The first of `names_` whose value is known; if none is, the last.
  [[nodiscard]] const Name& known_in(const sdk::Situation& situation) const;

  std::string name_;  // as written
  std::vector<Name> names_;
};

// `the step spends {step.zero_grad_ratio} of its time on filling`.
class Sentence {
 public:
  [[nodiscard]] static Parsed<Sentence> parse(std::string_view text);
  [[nodiscard]] std::string fill(const sdk::Situation& situation) const;
  // Those in braces, in their order. They live as long as the sentence.
  [[nodiscard]] std::vector<const Fact*> facts() const;

 private:
  std::vector<std::variant<std::string, Fact>> parts_;
};

// `60% of step.data_wait_ratio * input.decode_ratio`: what a change hopes to save, as a part of a share of the step.
// The share is a product of metrics that are shares, or of the rest of one: `(1 - input.decode_ratio)`. `PRODUCT or
// PRODUCT` takes the first product whose metrics are all known.
class Saving {
 public:
  // Whether the text is meant as a Saving, and not as a plain number.
  [[nodiscard]] static bool is_meant(std::string_view text);
  [[nodiscard]] static Parsed<Saving> parse(std::string_view text);

  // The value of the product, from 0 to 1; nothing if every product has a metric that is not known.
  [[nodiscard]] std::optional<double> share(const sdk::Situation& situation) const;
  // The part of the share that the change is expected to save, above 0 and up to 1.
  [[nodiscard]] double hoped_ratio() const { return hoped_ratio_; }
  // Of all products, in their order. They live as long as this.
  [[nodiscard]] std::vector<const Fact*> facts() const;

 private:
  struct Factor {
    Fact fact;
    bool is_rest = false;  // 1 minus the metric
  };
  using Product = std::vector<Factor>;
  [[nodiscard]] static Parsed<Product> parse_product(std::string_view text);
  [[nodiscard]] static Parsed<Factor> parse_factor(std::string_view text);
  [[nodiscard]] static std::optional<double> value_of(const Product& product,
                                                      const sdk::Situation& situation);

  std::vector<Product> products_;
  double hoped_ratio_ = 0.0;
};

// `cpu.utilization_ratio < 0.9`, `job.device == cpu`, `environment.cpu_features has avx512_bf16`,
// `incumbent.threads.intra_op < environment.cpus_allowed`.
class Condition {
 public:
  [[nodiscard]] static Parsed<Condition> parse(std::string_view text);
  // Returns why the condition does not hold (`otherwise`, if it is given); empty when it holds. A condition over an
  // unknown fact does not hold.
  [[nodiscard]] std::string failure(const sdk::Situation& situation,
                                    const std::optional<Sentence>& otherwise = {}) const;
  // One, or two. They live as long as the condition.
  [[nodiscard]] std::vector<const Fact*> facts() const;

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

}  // namespace autotuned::plugins
