// SPDX-License-Identifier: Apache-2.0
#include "plugins/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/text.hpp"

namespace autotuned::plugins {
namespace {

constexpr std::array<std::string_view, 5> kSections = {"environment", "job", "recipe", "starting",
                                                       "incumbent"};
constexpr std::size_t kMostCharacters = 500;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ')
    text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  return text;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// "31%" is 0.31.
std::optional<double> number_in(std::string_view text) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text = trimmed(text.substr(0, text.size() - 1));
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  if (!is_whole || !std::isfinite(number)) return std::nullopt;
  return is_percent ? number / 100.0 : number;
}

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string plain(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string joined;
    for (const Json& item : value)
      joined += (joined.empty() ? "" : ", ") + plain(item);
    return joined;
  }
  return to_line(value);
}

}  // namespace

bool Fact::is_sectioned(std::string_view text) {
  return std::ranges::any_of(kSections, [&](std::string_view section) {
    return text.starts_with(section) && text.substr(section.size()).starts_with('.');
  });
}

Parsed<Fact> Fact::parse(std::string_view name) {
  Fact fact;
  fact.name_ = name;
  const bool is_name = !name.empty() && std::ranges::all_of(name, is_name_character) &&
                       name.front() >= 'a' && name.front() <= 'z' && name.back() != '.';
  if (!is_name) {
    return tl::unexpected(fmt::format(
        "'{}' is no name of a metric or a fact, such as step.data_wait_ratio or job.device", name));
  }
  const std::size_t dot = name.find('.');
  if (is_sectioned(name)) {
    fact.section_ = name.substr(0, dot);
    fact.key_ = name.substr(dot + 1);
  } else {
    fact.section_ = "metrics";
    fact.key_ = name;
  }
  return fact;
}

const Json& Fact::of(const sdk::Situation& situation) const {
  return sdk::member(situation.section(section_), key_);
}

std::string Fact::text(const sdk::Situation& situation) const {
  const Json& value = of(situation);
  if (value.is_null()) return "unknown";
  if (!value.is_number()) return plain(value);
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > 9e18) return "unknown";
  const std::string_view key = key_;
  if (key.ends_with("_ratio")) return sdk::percent(number);
  if (key.ends_with("_bytes")) return format_bytes(std::llround(number));
  if (key.ends_with("_ns")) return format_duration(std::chrono::nanoseconds(std::llround(number)));
  if (number == std::round(number)) return format_count(std::llround(number));
  return fmt::format("{:.3g}", number);
}

Parsed<Condition> Condition::parse(std::string_view text) {
  struct Spelling {
    std::string_view text;
    Operator meaning;
  };
  // Longer ones first.
  constexpr std::array<Spelling, 7> kOperators = {{{"<=", Operator::less_equal},
                                                   {">=", Operator::greater_equal},
                                                   {"==", Operator::equal},
                                                   {"!=", Operator::not_equal},
                                                   {"<", Operator::less},
                                                   {">", Operator::greater},
                                                   {"has ", Operator::has}}};
  const auto malformed = [&] {
    return tl::unexpected(fmt::format(
        "'{}' is no condition; expected NAME OPERATOR VALUE with <, <=, >, >=, ==, != or has",
        text));
  };
  if (text.size() > kMostCharacters)
    return tl::unexpected(std::string("the condition is too long"));
  const std::string_view whole = trimmed(text);
  const auto name_end = std::ranges::find_if_not(whole, is_name_character);
  const auto name_size = static_cast<std::size_t>(name_end - whole.begin());
  if (name_size == 0) return malformed();
  auto fact = Fact::parse(whole.substr(0, name_size));
  if (!fact) return tl::unexpected(fact.error());

  const std::string_view rest = trimmed(whole.substr(name_size));
  const auto found = std::ranges::find_if(
      kOperators, [&](const Spelling& spelling) { return rest.starts_with(spelling.text); });
  if (found == kOperators.end()) return malformed();
  const std::string_view right = trimmed(rest.substr(found->text.size()));
  if (right.empty() || right.front() == '=') return malformed();

  Condition condition;
  condition.text_ = whole;
  condition.left_.push_back(std::move(*fact));
  condition.operator_ = found->meaning;
  if (Fact::is_sectioned(right)) {
    auto right_fact = Fact::parse(right);
    if (!right_fact) return tl::unexpected(right_fact.error());
    condition.right_ = std::move(*right_fact);
  } else {
    condition.right_ = Literal{std::string(right), number_in(right)};
  }
  const auto* literal = std::get_if<Literal>(&condition.right_);
  const bool is_order =
      found->meaning == Operator::less || found->meaning == Operator::less_equal ||
      found->meaning == Operator::greater || found->meaning == Operator::greater_equal;
  if (is_order && literal != nullptr && !literal->number) {
    return tl::unexpected(
        fmt::format("'{}' is compared with {}, which needs a number", right, found->text));
  }
  return condition;
}

bool Condition::holds(const Json& left, const Json& right, const Literal* literal) const {
  const std::string right_text = literal != nullptr ? literal->text : plain(right);
  if (operator_ == Operator::has) {
    if (left.is_string())
      return left.get_ref<const std::string&>().find(right_text) != std::string::npos;
    return left.is_array() &&
           std::ranges::any_of(left, [&](const Json& item) { return plain(item) == right_text; });
  }
  const std::optional<double> a = sdk::as<double>(left);
  const std::optional<double> b = literal != nullptr ? literal->number : sdk::as<double>(right);
  if (a && b) {
    switch (operator_) {
      case Operator::less:
        return *a < *b;
      case Operator::less_equal:
        return *a <= *b;
      case Operator::greater:
        return *a > *b;
      case Operator::greater_equal:
        return *a >= *b;
      case Operator::equal:
        return *a == *b;
      default:
        return *a != *b;
    }
  }
  bool is_same = plain(left) == right_text;
  if (left.is_boolean()) is_same = is_same || (left.get<bool>() ? "true" : "false") == right_text;
  if (operator_ == Operator::equal) return is_same;
  return operator_ == Operator::not_equal && !is_same;
}

std::string Condition::failure(const sdk::Situation& situation) const {
  const Fact& fact = left_.front();
  const Json& left = fact.of(situation);
  if (left.is_null()) return fmt::format("{} is not known, which '{}' needs", fact.name(), text_);
  const auto* const literal = std::get_if<Literal>(&right_);
  static const Json kNull;
  const Json& right = literal != nullptr ? kNull : std::get<Fact>(right_).of(situation);
  if (literal == nullptr && right.is_null()) {
    return fmt::format("{} is not known, which '{}' needs", std::get<Fact>(right_).name(), text_);
  }
  if (holds(left, right, literal)) return {};
  return fmt::format("'{}' does not hold: {} is {}", text_, fact.name(), fact.text(situation));
}

Parsed<Values::Bound> Values::parse_bound(std::string_view text) {
  if (const auto number = integer_in(text)) return Bound(*number);
  if (!Fact::is_sectioned(text)) {
    return tl::unexpected(
        fmt::format("'{}' is no bound of a range; expected an integer or a fact such as "
                    "environment.cpus_allowed",
                    text));
  }
  auto fact = Fact::parse(text);
  if (!fact) return tl::unexpected(fact.error());
  return Bound(std::move(*fact));
}

Parsed<Values> Values::parse_scalar(std::string_view text, bool is_quoted) {
  Values values;
  if (text.size() > kMostCharacters) return tl::unexpected(std::string("the value is too long"));
  const std::string_view whole = is_quoted ? text : trimmed(text);
  const std::size_t dots = whole.find("..");
  if (!is_quoted && dots != std::string_view::npos) {
    auto low = parse_bound(trimmed(whole.substr(0, dots)));
    if (!low) return tl::unexpected(low.error());
    auto high = parse_bound(trimmed(whole.substr(dots + 2)));
    if (!high) return tl::unexpected(high.error());
    values.items_.emplace_back(Range{std::move(*low), std::move(*high)});
    values.has_range_ = true;
  } else if (!is_quoted && Fact::is_sectioned(whole)) {
    auto fact = Fact::parse(whole);
    if (!fact) return tl::unexpected(fact.error());
    values.items_.emplace_back(std::move(*fact));
  } else {
    values.items_.emplace_back(Literal{std::string(whole), is_quoted});
  }
  return values;
}

void Values::append(Values other) {
  for (auto& item : other.items_)
    items_.push_back(std::move(item));
  has_range_ = has_range_ || other.has_range_;
}

Parsed<Sentence> Sentence::parse(std::string_view text) {
  Sentence sentence;
  if (trimmed(text).empty()) return tl::unexpected(std::string("the sentence is empty"));
  if (text.size() > kMostCharacters) return tl::unexpected(std::string("the sentence is too long"));
  while (!text.empty()) {
    const std::size_t open = std::min(text.find_first_of("{}"), text.size());
    if (open > 0) sentence.parts_.emplace_back(std::string(text.substr(0, open)));
    text.remove_prefix(open);
    if (text.empty()) break;
    const std::size_t close = text.find('}');
    if (text.front() == '}' || close == std::string_view::npos) {
      return tl::unexpected(std::string("the sentence has a brace without its other half"));
    }
    auto fact = Fact::parse(text.substr(1, close - 1));
    if (!fact) return tl::unexpected(fact.error());
    sentence.parts_.emplace_back(std::move(*fact));
    text.remove_prefix(close + 1);
  }
  return sentence;
}

std::string Sentence::fill(const sdk::Situation& situation) const {
  std::string text;
  for (const auto& part : parts_) {
    const auto* const fact = std::get_if<Fact>(&part);
    text += fact != nullptr ? fact->text(situation) : std::get<std::string>(part);
  }
  return text;
}

namespace {

// A literal in the knob's type; empty when it can never be one.
std::optional<Json> typed(const Values::Literal& literal, const sdk::Knob& knob) {
  if (knob.type == "boolean" && !literal.is_quoted) {
    if (literal.text == "on" || literal.text == "true") return Json(true);
    if (literal.text == "off" || literal.text == "false") return Json(false);
    return std::nullopt;
  }
  if (knob.type == "integer" && !literal.is_quoted) {
    const auto number = integer_in(literal.text);
    return number ? std::optional<Json>(*number) : std::nullopt;
  }
  if (knob.type == "choice" || knob.type == "text") return Json(literal.text);
  return std::nullopt;
}

bool is_in_domain(const Json& value, const sdk::Knob& knob) {
  if (knob.type == "integer") {
    const auto number = sdk::as<std::int64_t>(value);
    return number && *number >= knob.minimum && *number <= knob.maximum;
  }
  if (knob.type == "choice") {
    return value.is_string() &&
           std::ranges::find(knob.choices, value.get_ref<const std::string&>()) !=
               knob.choices.end();
  }
  return knob.type == "boolean" ? value.is_boolean() : value.is_string();
}

}  // namespace

Parsed<std::vector<Json>> Values::resolve(const sdk::Situation& situation,
                                          const sdk::Knob& knob) const {
  std::vector<Json> values;
  const auto bound = [&](const Bound& which) -> std::optional<std::int64_t> {
    if (const auto* number = std::get_if<std::int64_t>(&which)) return *number;
    return sdk::as<std::int64_t>(std::get<Fact>(which).of(situation));
  };
  for (const auto& item : items_) {
    if (const auto* literal = std::get_if<Literal>(&item)) {
      std::optional<Json> value = typed(*literal, knob);
      if (!value) {
        return tl::unexpected(
            fmt::format("'{}' is no value of the {} knob {}", literal->text, knob.type, knob.name));
      }
      values.push_back(std::move(*value));
    } else if (const auto* fact = std::get_if<Fact>(&item)) {
      values.push_back(fact->of(situation));
    } else {
      const Range& range = std::get<Range>(item);
      const auto low = bound(range.low);
      const auto high = bound(range.high);
      const auto now = situation.incumbent<std::int64_t>(knob.name);
      if (!low || !high || !now || *low > *high) continue;
      // The nearest inside the range on either side; fewer first.
      if (*now > *low) values.emplace_back(std::min(*now - 1, *high));
      if (*now < *high) values.emplace_back(std::max(*now + 1, *low));
    }
  }
  std::erase_if(values, [&](const Json& value) { return !is_in_domain(value, knob); });
  return values;
}

}  // namespace autotuned::plugins
