// SPDX-License-Identifier: Apache-2.0
#include "base/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "base/digest.hpp"

namespace autotuned {
namespace {

// The shortest text that reads back as the same double, recognisable as one ("1.0", not "1").
std::string double_text(double value) {
  if (value == 0) value = 0;  // -0 equals 0, so it must read the same.
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Names and texts stand bare in canonical text when they cannot be mistaken for its structure.
std::string canonical_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::none_of(word, [](char character) {
    return character == '=' || character == '"' || static_cast<unsigned char>(character) <= ' ' ||
           static_cast<unsigned char>(character) >= 0x7f;
  });
  if (is_plain) return word;
  std::string quoted = "\"";
  for (const char character : word) {
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += character;
    } else if (static_cast<unsigned char>(character) < ' ') {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(character));
    } else {
      quoted += character;
    }
  }
  return quoted + '"';
}

template <class T>
const T& typed(const Configuration& configuration, std::string_view name) {
  const KnobValue* value = configuration.find(name);
  assert(value != nullptr && "the configuration lacks the knob");
  const T* held = std::get_if<T>(value);
  assert(held != nullptr && "the knob has another type");
  return *held;
}

}  // namespace

std::string to_text(const KnobValue& value) {
  struct Visitor {
    std::string operator()(bool is_on) const { return is_on ? "on" : "off"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return double_text(number); }
    std::string operator()(const std::string& text) const { return text; }
  };
  return std::visit(Visitor{}, value);
}

Json to_json(const KnobValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Result<KnobValue> knob_value_from(const Json& value) {
  if (value.is_boolean()) return KnobValue(value.get<bool>());
  if (value.is_string()) return KnobValue(value.get<std::string>());
  if (value.is_number_float()) return KnobValue(value.get<double>());
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return fail(ErrorKind::invalid, "the integer " + to_line(value) + " is too large for a knob");
  }
  if (value.is_number_integer()) return KnobValue(value.get<std::int64_t>());
  return fail(
      ErrorKind::invalid,
      std::string("a knob takes true, false, a number or a string, found ") + value.type_name());
}

void Configuration::set(std::string name, KnobValue value) {
  values_.insert_or_assign(std::move(name), std::move(value));
}

void Configuration::erase(std::string_view name) {
  const auto found = values_.find(name);
  if (found != values_.end()) values_.erase(found);
}

const KnobValue* Configuration::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool Configuration::flag(std::string_view name) const {
  return typed<bool>(*this, name);
}

std::int64_t Configuration::integer(std::string_view name) const {
  return typed<std::int64_t>(*this, name);
}

const std::string& Configuration::text(std::string_view name) const {
  return typed<std::string>(*this, name);
}

bool Configuration::contains(const Configuration& change) const {
  return std::ranges::all_of(change.values_, [&](const auto& turned) {
    const KnobValue* const value = find(turned.first);
    return value != nullptr && *value == turned.second;
  });
}

Configuration Configuration::with(const Configuration& change) const {
  Configuration result = *this;
  for (const auto& [name, value] : change.values_)
    result.set(name, value);
  return result;
}

Configuration Configuration::change_to(const Configuration& other) const {
  Configuration change;
  for (const auto& [name, value] : other.values_) {
    const KnobValue* here = find(name);
    if (here == nullptr || *here != value) change.set(name, value);
  }
  return change;
}

std::string Configuration::canonical_text() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += ' ';
    const std::string* word = std::get_if<std::string>(&value);
    text += canonical_word(name) + '=' + (word != nullptr ? canonical_word(*word) : to_text(value));
  }
  return text;
}

std::string Configuration::hash() const {
  return sha256_hex(canonical_text()).substr(0, 16);
}

Json Configuration::to_json() const {
  Json object = Json::object();
  for (const auto& [name, value] : values_)
    object[name] = autotuned::to_json(value);
  return object;
}

Result<Configuration> Configuration::from_json(const Json& value) {
  if (!value.is_object()) {
    return fail(ErrorKind::invalid,
                std::string("a configuration is an object of knobs, found ") + value.type_name());
  }
  Configuration configuration;
  for (const auto& [name, held] : value.items()) {
    Result<KnobValue> knob = knob_value_from(held);
    if (!knob) {
      knob.error().where = name;
      return tl::unexpected(std::move(knob.error()));
    }
    configuration.set(name, *std::move(knob));
  }
  return configuration;
}

}  // namespace autotuned
