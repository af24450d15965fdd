// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace autotuned::plugins {
namespace {

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A literal in the type of a knob; empty when it can never be one.
std::optional<Json> typed(const Values::Literal& literal, std::string_view type) {
  if (type == "boolean" && !literal.is_quoted) {
    if (literal.text == "on" || literal.text == "true") return Json(true);
    if (literal.text == "off" || literal.text == "false") return Json(false);
    return std::nullopt;
  }
  if (type == "integer" && !literal.is_quoted) {
    const auto number = integer_in(literal.text);
    return number ? std::optional<Json>(*number) : std::nullopt;
  }
  if (type == "choice" || type == "text" || type == "list") return Json(literal.text);
  return std::nullopt;
}

bool is_in_domain(const Json& value, const sdk::Knob& knob) {
  if (knob.type == "integer") {
    const auto number = sdk::as<std::int64_t>(value);
    return number && *number >= knob.minimum && *number <= knob.maximum;
  }
  if (knob.type == "choice") {
    if (!value.is_string()) return false;
    const auto& choice = value.get_ref<const std::string&>();
    return std::ranges::find(knob.choices, choice) != knob.choices.end() &&
           !knob.unavailable_choices.contains(choice);
  }
  return knob.type == "boolean" ? value.is_boolean() : value.is_string();
}

}  // namespace

std::string no_value_text(std::string_view value, std::string_view type, std::string_view knob) {
  return fmt::format("'{}' is no value of the {}{}knob {}", value, type, type.empty() ? "" : " ",
                     knob);
}

bool Values::Literal::may_be(std::string_view type) const {
  return typed(*this, type).has_value();
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
  if (text.size() > kMaxExpressionCharacters)
    return tl::unexpected(std::string("the value is too long"));
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

std::vector<const Values::Literal*> Values::literals() const {
  std::vector<const Literal*> found;
  for (const auto& item : items_) {
    if (const auto* const literal = std::get_if<Literal>(&item)) found.push_back(literal);
  }
  return found;
}

std::vector<const Fact*> Values::facts() const {
  std::vector<const Fact*> found;
  for (const auto& item : items_) {
    if (const auto* const fact = std::get_if<Fact>(&item)) found.push_back(fact);
    const auto* const range = std::get_if<Range>(&item);
    if (range == nullptr) continue;
    for (const Bound* const bound : {&range->low, &range->high}) {
      if (const auto* const fact = std::get_if<Fact>(bound)) found.push_back(fact);
    }
  }
  return found;
}

Parsed<std::vector<Json>> Values::resolve(const sdk::Situation& situation,
                                          const sdk::Knob& knob) const {
  std::vector<Json> values;
  const auto bound = [&](const Bound& which) -> std::optional<std::int64_t> {
    if (const auto* number = std::get_if<std::int64_t>(&which)) return *number;
    return sdk::as<std::int64_t>(std::get<Fact>(which).of(situation));
  };
  for (const auto& item : items_) {
    if (const auto* literal = std::get_if<Literal>(&item)) {
      std::optional<Json> value = typed(*literal, knob.type);
      if (!value) {
        return tl::unexpected(no_value_text(literal->text, knob.type, knob.name));
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
