// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <cmath>
#include <limits>
#include <new>

namespace autotuned {
namespace {

// A message of the parser quotes the last token, which may be as long as the text.
constexpr std::size_t kMaxParserMessageBytes = 240;

// Whether brackets nest deeper than `max_depth`. Exact for every prefix that is valid JSON; the parser reads no further than that.
bool nests_deeper_than(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_string) {
      if (character == '\\') {
        ++i;
      } else if (character == '"') {
        in_string = false;
      }
    } else if (character == '"') {
      in_string = true;
    } else if (character == '[' || character == '{') {
      if (++depth > max_depth) return true;
    } else if (character == ']' || character == '}') {
      --depth;
    }
  }
  return false;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without the bracket.
std::string parser_message(std::string_view message) {
  if (message.starts_with('[')) {
    const std::size_t end = message.find("] ");
    if (end != std::string_view::npos) message.remove_prefix(end + 2);
  }
  std::string text(message.substr(0, kMaxParserMessageBytes));
  if (message.size() > kMaxParserMessageBytes) text += "…";
  return text;
}

tl::unexpected<Error> wrong_type(const char* field, const char* expected, const Json& found) {
  if (found.is_null()) {
    return fail(ErrorKind::invalid,
                std::string("the field \"") + field + "\" (" + expected + ") is missing");
  }
  constexpr std::size_t kMaxShownBytes = 60;
  std::string shown = found.is_structured() ? std::string(found.type_name()) : to_line(found);
  if (shown.size() > kMaxShownBytes) shown = shown.substr(0, kMaxShownBytes) + "…";
  return fail(ErrorKind::invalid,
              std::string("the field \"") + field + "\" must be " + expected + ", found " + shown);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string where, std::size_t max_bytes,
                        int max_depth) {
  if (text.size() > max_bytes) {
    return fail(ErrorKind::invalid,
                "the text has " + std::to_string(text.size()) + " bytes, at most " +
                    std::to_string(max_bytes) + " are allowed",
                std::move(where));
  }
  if (nests_deeper_than(text, max_depth)) {
    return fail(ErrorKind::invalid,
                "the JSON nests deeper than " + std::to_string(max_depth) + " levels",
                std::move(where));
  }
  try {
    return Json::parse(text);
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "not enough memory to parse the JSON", std::move(where));
  } catch (const std::exception& error) {
    return fail(ErrorKind::invalid, "not valid JSON (" + parser_message(error.what()) + ")",
                std::move(where));
  }
}

std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_lines(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> get_string(const Json& object, const char* field) {
  const Json& value = member(object, field);
  if (!value.is_string()) return wrong_type(field, "a string", value);
  return value.get_ref<const std::string&>();
}

Result<std::int64_t> get_integer(const Json& object, const char* field) {
  const Json& value = member(object, field);
  const bool fits =
      value.is_number_integer() &&
      !(value.is_number_unsigned() &&
        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!fits) return wrong_type(field, "an integer of 64 bits", value);
  return value.get<std::int64_t>();
}

Result<double> get_number(const Json& object, const char* field) {
  const Json& value = member(object, field);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return wrong_type(field, "a finite number", value);
  }
  return value.get<double>();
}

Result<bool> get_bool(const Json& object, const char* field) {
  const Json& value = member(object, field);
  if (!value.is_boolean()) return wrong_type(field, "true or false", value);
  return value.get<bool>();
}

const Json& member(const Json& object, const char* field) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(field);
  return found == object.end() ? kNull : *found;
}

std::vector<std::string> strings_in(const Json& object, const char* field) {
  std::vector<std::string> texts;
  const Json& list = member(object, field);
  if (!list.is_array()) return texts;
  for (const Json& one : list) {
    if (one.is_string()) texts.push_back(one.get<std::string>());
  }
  return texts;
}

}  // namespace autotuned
