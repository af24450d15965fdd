// SPDX-License-Identifier: Apache-2.0
// Which values a knob may have, and how a person writes one.
#include <algorithm>
#include <charconv>

#include "base/utf8.hpp"
#include "recipes/knobs.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;

std::string list_text(const Knob& knob) {
  std::string result = knob.choices.front() + ", or a list of";
  for (std::size_t i = 1; i < knob.choices.size(); ++i)
    result += (i == 1 ? " " : ", ") + knob.choices[i];
  return result + " and names, separated by commas";
}

bool is_list_word(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_list_of(const Knob& knob, std::string_view text) {
  if (text == knob.choices.front()) return true;
  if (text.size() > kMaxTextBytes) return false;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (!is_list_word(word) || word == knob.choices.front()) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// The values that a knob may have, in words.
std::string domain_text(const Knob& knob) {
  switch (knob.type) {
    case KnobType::boolean:
      return "on or off";
    case KnobType::integer:
      return "an integer from " + std::to_string(knob.minimum) + " to " +
             std::to_string(knob.maximum);
    case KnobType::text:
      return "one line of text";
    case KnobType::list:
      return list_text(knob);
    case KnobType::choice:
      break;
  }
  std::string result = "one of ";
  for (std::size_t i = 0; i < knob.choices.size(); ++i) {
    result += (i == 0 ? "" : ", ") + knob.choices[i];
  }
  return result;
}

tl::unexpected<Error> outside(const Knob& knob, std::string_view found) {
  return fail(ErrorKind::invalid,
              "expected " + domain_text(knob) + ", found " + quote_for_message(found), knob.name);
}

}  // namespace

Result<void> check_value(const Knob& knob, const KnobValue& value) {
  bool is_inside = false;
  switch (knob.type) {
    case KnobType::boolean:
      is_inside = std::holds_alternative<bool>(value);
      break;
    case KnobType::integer:
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        is_inside = *number >= knob.minimum && *number <= knob.maximum;
      }
      break;
    case KnobType::choice:
      if (const auto* text = std::get_if<std::string>(&value)) {
        is_inside = std::ranges::find(knob.choices, *text) != knob.choices.end();
      }
      break;
    case KnobType::list:
      if (const auto* text = std::get_if<std::string>(&value)) is_inside = is_list_of(knob, *text);
      break;
    case KnobType::text:
      if (const auto* text = std::get_if<std::string>(&value)) {
        is_inside = text->size() <= kMaxTextBytes && std::ranges::none_of(*text, [](char c) {
                      return static_cast<unsigned char>(c) < 0x20;
                    });
      }
      break;
  }
  if (!is_inside) return outside(knob, to_text(value));
  if (!knob.unavailable.empty() && value != knob.default_value) {
    return fail(ErrorKind::unsupported, knob.unavailable, knob.name);
  }
  if (const auto* choice = std::get_if<std::string>(&value); choice != nullptr) {
    const auto found = knob.unavailable_choices.find(*choice);
    if (found != knob.unavailable_choices.end()) {
      return fail(ErrorKind::unsupported, *choice + " " + found->second, knob.name);
    }
  }
  return {};
}

Result<KnobValue> parse_value(const Knob& knob, std::string_view text) {
  KnobValue value = std::string(text);
  if (knob.type == KnobType::boolean) {
    if (text == "on" || text == "true") {
      value = true;
    } else if (text == "off" || text == "false") {
      value = false;
    }
  } else if (knob.type == KnobType::integer) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{} && stop == end) value = number;
  }
  if (const auto checked = check_value(knob, value); !checked) {
    return tl::unexpected(checked.error());
  }
  return value;
}

}  // namespace autotuned::recipes
