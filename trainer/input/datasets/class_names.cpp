// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/class_names.hpp"

#include <algorithm>
#include <cstddef>

#include "base/table_file.hpp"
#include "base/text.hpp"
#include "trainer/input/datasets/data_file.hpp"

namespace autotuned::input {
namespace {

constexpr std::size_t kMaxNamed = 20;

}  // namespace

Result<ClassNumbers> number_classes(const std::set<std::string>& found,
                                    std::span<const std::string> known, const std::string& where) {
  ClassNumbers numbers;
  const auto add = [&numbers](const std::string& name) {
    numbers.emplace(name, static_cast<std::int64_t>(numbers.size()));
  };
  if (known.empty()) {
    for (const std::string& name : found)
      add(name);
    return numbers;
  }
  for (const std::string& name : known)
    add(name);
  std::vector<std::string> unknown;
  for (const std::string& name : found)
    if (!numbers.contains(name)) unknown.push_back(name);
  if (unknown.empty()) return numbers;
  return fail(ErrorKind::invalid,
              "has classes that the training data do not have: " + named(unknown), where,
              "the training data have the classes " + named({known.begin(), known.end()}));
}

std::vector<std::string> names_of(const ClassNumbers& numbers) {
  std::vector<std::string> names(numbers.size());
  for (const auto& [name, number] : numbers)
    names[static_cast<std::size_t>(number)] = name;
  return names;
}

std::string plain_form(std::string_view name) {
  name = autotuned::trimmed(name);
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  while (name.size() > 1 && name.front() == '0' && is_digit(name[1]))
    name.remove_prefix(1);
  return lower_case(name);
}

std::string alike_names_text(std::span<const std::string> names) {
  std::map<std::string, const std::string*> first_of;  // by plain form
  std::int64_t alike = 0;
  std::string example;
  for (const std::string& name : names) {
    const auto [found, is_first] = first_of.emplace(plain_form(name), &name);
    if (is_first) continue;
    if (alike++ == 0)
      example = "\"" + shown_text(*found->second) + "\" and \"" + shown_text(name) + "\"";
  }
  if (alike == 0) return {};
  return format_count(alike) + (alike == 1 ? " name differs" : " names differ") +
         " from another one only in zeros in front, blanks or case, such as " + example +
         ": each is a class of its own";
}

std::string named(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i)
    text += (i == 0 ? "" : ", ") + shown_text(names[i]);
  if (names.size() > kMaxNamed) {
    text += " and " + format_count(static_cast<std::int64_t>(names.size() - kMaxNamed)) + " others";
  }
  return text;
}

}  // namespace autotuned::input
