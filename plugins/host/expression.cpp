// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/expression.hpp"

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
constexpr std::string_view kOf = "% of ";  // after how much of a share is hoped for
constexpr std::string_view kOr = " or ";

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

// The length of the names at the beginning, with the words between them.
std::size_t names_size(std::string_view text) {
  std::size_t size = 0;
  while (true) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(size);
    size = static_cast<std::size_t>(std::find_if_not(begin, text.end(), is_name_character) -
                                    text.begin());
    if (!text.substr(size).starts_with(kOr)) return size;
    size += kOr.size();
  }
}

// The texts between the words `or`.
std::vector<std::string_view> alternatives_in(std::string_view text) {
  std::vector<std::string_view> alternatives;
  for (std::size_t at = text.find(kOr); at != std::string_view::npos; at = text.find(kOr)) {
    alternatives.push_back(trimmed(text.substr(0, at)));
    text.remove_prefix(at + kOr.size());
  }
  alternatives.push_back(trimmed(text));
  return alternatives;
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
  for (const std::string_view alternative : alternatives_in(name)) {
    auto one = parse_one(alternative);
    if (!one) return tl::unexpected(std::move(one.error()));
    fact.names_.push_back(std::move(*one));
  }
  return fact;
}

Parsed<Fact::Name> Fact::parse_one(std::string_view name) {
  const bool is_name = !name.empty() && std::ranges::all_of(name, is_name_character) &&
                       name.front() >= 'a' && name.front() <= 'z' && name.back() != '.';
  if (!is_name) {
    return tl::unexpected(fmt::format(
        "'{}' is no name of a metric or a fact, such as step.data_wait_ratio or job.device", name));
  }
  const std::size_t dot = name.find('.');
  if (is_sectioned(name)) {
    return Name{std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
  }
  return Name{"metrics", std::string(name)};
}

const Fact::Name& Fact::known_in(const sdk::Situation& situation) const {
  const auto known = std::ranges::find_if(names_, [&](const Name& name) {
    return !sdk::member(situation.section(name.section), name.key).is_null();
  });
  return known == names_.end() ? names_.back() : *known;
}

const Json& Fact::of(const sdk::Situation& situation) const {
  const Name& name = known_in(situation);
  return sdk::member(situation.section(name.section), name.key);
}

std::string Fact::text(const sdk::Situation& situation) const {
  const std::string_view key = known_in(situation).key;
  const Json& value = of(situation);
  if (value.is_null()) return "unknown";
  if (!value.is_number()) return plain(value);
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > 9e18) return "unknown";
  if (key.ends_with("_ratio")) return sdk::percent(number);
  if (key.ends_with("_bytes")) return format_bytes(std::llround(number));
  if (key.ends_with("_ns")) return format_duration(std::chrono::nanoseconds(std::llround(number)));
  // From a hundred on, the fraction of a mean per step is left out.
  if (number == std::round(number) || std::abs(number) >= 99.95) {
    return format_count(std::llround(number));
  }
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
  if (text.size() > kMaxExpressionCharacters)
    return tl::unexpected(std::string("the condition is too long"));
  const std::string_view whole = trimmed(text);
  const std::size_t name_size = names_size(whole);
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
  } else if (right.find(kOr) != std::string_view::npos) {
    return tl::unexpected(fmt::format("'{}' is one word for {}, not two: `or` stands between facts",
                                      right, found->text));
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

std::string Condition::failure(const sdk::Situation& situation,
                               const std::optional<Sentence>& otherwise) const {
  const Fact& fact = left_.front();
  const Json& left = fact.of(situation);
  if (left.is_null()) return fmt::format("it is not known whether {}", text_);
  const auto* const literal = std::get_if<Literal>(&right_);
  static const Json kNull;
  const Json& right = literal != nullptr ? kNull : std::get<Fact>(right_).of(situation);
  if (literal == nullptr && right.is_null()) {
    return fmt::format("it is not known whether {}", text_);
  }
  if (holds(left, right, literal)) return {};
  if (otherwise) return otherwise->fill(situation);
  return fmt::format("'{}' does not hold: {} is {}", text_, fact.name(), fact.text(situation));
}

std::vector<const Fact*> Condition::facts() const {
  std::vector<const Fact*> found = {&left_.front()};
  if (const auto* const right = std::get_if<Fact>(&right_)) found.push_back(right);
  return found;
}

bool Saving::is_meant(std::string_view text) {
  return text.find(kOf) != std::string_view::npos;
}

Parsed<Saving> Saving::parse(std::string_view text) {
  if (text.size() > kMaxExpressionCharacters)
    return tl::unexpected(std::string("the expectation is too long"));
  if (!is_meant(text)) {
    return tl::unexpected(
        fmt::format("'{}' is no part of a share, such as 15% of operators.gemm_conv_ratio", text));
  }
  const std::size_t of = text.find(kOf);
  const std::string_view part = trimmed(text.substr(0, of + 1));
  const auto hoped = number_in(part);
  if (!hoped || *hoped <= 0.0 || *hoped > 1.0) {
    return tl::unexpected(fmt::format(
        "'{}' is no part of a share; expected a percentage above 0 and up to 100", part));
  }
  Saving saving;
  saving.hoped_ratio_ = *hoped;
  for (const std::string_view alternative : alternatives_in(text.substr(of + kOf.size()))) {
    auto product = parse_product(alternative);
    if (!product) return tl::unexpected(std::move(product.error()));
    saving.products_.push_back(std::move(*product));
  }
  return saving;
}

Parsed<Saving::Product> Saving::parse_product(std::string_view text) {
  Product product;
  for (bool is_last = false; !is_last;) {
    const std::size_t times = text.find('*');
    is_last = times == std::string_view::npos;
    auto factor = parse_factor(trimmed(text.substr(0, times)));
    if (!factor) return tl::unexpected(std::move(factor.error()));
    product.push_back(std::move(*factor));
    if (!is_last) text.remove_prefix(times + 1);
  }
  return product;
}

Parsed<Saving::Factor> Saving::parse_factor(std::string_view text) {
  std::string_view name = text;
  const bool is_rest = name.starts_with('(') && name.ends_with(')');
  if (is_rest) {
    name = trimmed(name.substr(1, name.size() - 2));
    const bool is_from_one = name.starts_with('1') && trimmed(name.substr(1)).starts_with('-');
    if (!is_from_one) {
      return tl::unexpected(
          fmt::format("'{}' is not the rest of a share, such as (1 - input.decode_ratio)", text));
    }
    name = trimmed(trimmed(name.substr(1)).substr(1));
  }
  auto fact = Fact::parse(name);
  if (!fact) return tl::unexpected(std::move(fact.error()));
  if (!name.ends_with("_ratio")) {
    return tl::unexpected(
        fmt::format("'{}' is no share; expected a metric whose name ends in _ratio", name));
  }
  return Factor{std::move(*fact), is_rest};
}

std::optional<double> Saving::share(const sdk::Situation& situation) const {
  for (const Product& product : products_) {
    if (const auto share = value_of(product, situation)) return share;
  }
  return std::nullopt;
}

std::vector<const Fact*> Saving::facts() const {
  std::vector<const Fact*> found;
  for (const Product& product : products_) {
    for (const Factor& factor : product)
      found.push_back(&factor.fact);
  }
  return found;
}

std::optional<double> Saving::value_of(const Product& product, const sdk::Situation& situation) {
  double share = 1.0;
  for (const Factor& factor : product) {
    const auto value = sdk::as<double>(factor.fact.of(situation));
    if (!value || std::isnan(*value)) return std::nullopt;
    const double ratio = std::clamp(*value, 0.0, 1.0);
    share *= factor.is_rest ? 1.0 - ratio : ratio;
  }
  return share;
}

Parsed<Sentence> Sentence::parse(std::string_view text) {
  Sentence sentence;
  if (trimmed(text).empty()) return tl::unexpected(std::string("the sentence is empty"));
  if (text.size() > kMaxExpressionCharacters)
    return tl::unexpected(std::string("the sentence is too long"));
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

std::vector<const Fact*> Sentence::facts() const {
  std::vector<const Fact*> found;
  for (const auto& part : parts_) {
    if (const auto* const fact = std::get_if<Fact>(&part)) found.push_back(fact);
  }
  return found;
}

std::string Sentence::fill(const sdk::Situation& situation) const {
  std::string text;
  for (const auto& part : parts_) {
    const auto* const fact = std::get_if<Fact>(&part);
    text += fact != nullptr ? fact->text(situation) : std::get<std::string>(part);
  }
  return text;
}

}  // namespace autotuned::plugins
