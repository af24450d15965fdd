// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a JSON text without parsing them: a plugin is asked often, and needs only a small part
// of the situation.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace autotuned::sdk::detail {

// A member of an object or an element of an array, whose name is empty.
struct JsonPart {
  std::string name;
  std::size_t begin = 0;  // of its value, in the whole text
  std::size_t size = 0;
};

// Walks over a text from a position. Throws std::invalid_argument if it meets no JSON. Parts that it skips
// are not checked; parsing them later can still fail.
class JsonWalk {
 public:
  JsonWalk(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  [[nodiscard]] char next() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    if (at_ == text_.size()) fail();
    return text_[at_];
  }
  void take(char expected) {
    if (next() != expected) fail();
    ++at_;
  }
  // A value, from its first to its last character.
  [[nodiscard]] JsonPart value() {
    const char first = next();
    const std::size_t begin = at_;
    if (first == '"') {
      step_over_text();
    } else if (first == '{' || first == '[') {
      step_over_list();
    } else {
      while (at_ < text_.size() && !ends_number(text_[at_]))
        ++at_;
      if (at_ == begin) fail();
    }
    return {{}, begin, at_ - begin};
  }

 private:
  [[noreturn]] void fail() const {
    throw std::invalid_argument("no JSON at character " + std::to_string(at_));
  }
  static bool ends_number(char c) {
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
  }
  void step_over_text() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return;
      }
    }
    at_ = text_.size();
    fail();
  }
  void step_over_list() {
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        step_over_text();
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return;
    }
    fail();
  }

  std::string_view text_;
  std::size_t at_;
};

// The parts of the object or array that begins at `begin`; none of another value.
[[nodiscard]] inline std::vector<JsonPart> json_parts(std::string_view text, std::size_t begin) {
  std::vector<JsonPart> parts;
  JsonWalk walk(text, begin);
  const char open = walk.next();
  if (open != '{' && open != '[') return parts;
  const char close = open == '{' ? '}' : ']';
  walk.take(open);
  if (walk.next() == close) return parts;
  while (true) {
    std::string name;
    if (open == '{') {
      if (walk.next() != '"') walk.take('"');
      const JsonPart key = walk.value();
      const std::string_view quoted = text.substr(key.begin, key.size);
      name = quoted.find('\\') == quoted.npos ? std::string(quoted.substr(1, quoted.size() - 2))
                                              : nlohmann::json::parse(quoted).get<std::string>();
      walk.take(':');
    }
    JsonPart part = walk.value();
    part.name = std::move(name);
    parts.push_back(std::move(part));
    if (walk.next() == close) return parts;
    walk.take(',');
  }
}

}  // namespace autotuned::sdk::detail
