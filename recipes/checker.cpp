// SPDX-License-Identifier: Apache-2.0
#include "recipes/checker.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/file_pattern.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "recipes/scalars.hpp"

namespace autotuned::recipes {
namespace {

// A longer word is not a misspelling of a known one, and comparing it is slow.
constexpr std::size_t kMaxComparedBytes = 64;

std::string below(const std::string& where, std::string_view key) {
  return where.empty() ? std::string(key) : where + "." + std::string(key);
}

std::string in(const std::string& where) {
  return where.empty() ? "" : " in " + where;
}

// A path in quotation marks, whole, because the end of a path says most; only one that is too long for a file is
// shortened.
std::string shown_path(const std::string& path) {
  constexpr std::size_t kMaxBytes = 512;
  constexpr std::size_t kMaxBytesOfName = 255;
  const std::size_t name_bytes = path.size() - (path.rfind('/') + 1);
  const bool is_whole = path.size() <= kMaxBytes && name_bytes <= kMaxBytesOfName;
  return is_whole ? printable("\"" + path + "\"") : quote_for_message(path);
}

std::optional<Json> in_range(const Field& field, std::optional<double> value) {
  if (!value || !field.range.contains(*value)) return std::nullopt;
  return Json(*value);
}

std::optional<Json> duration_ns(const Field& field, const std::string& text) {
  const Result<std::chrono::nanoseconds> duration = parse_duration(text);
  if (!duration) return std::nullopt;
  if (!field.range.contains(std::chrono::duration<double>(*duration).count())) return std::nullopt;
  return Json(duration->count());
}

// {"ratio": …} or {"bytes": …}; see Checker::store.
std::optional<Json> memory_limit(const std::string& text) {
  const Result<double> ratio = parse_ratio(text);
  const Range share{.minimum = 0, .maximum = 1, .open_minimum = true};
  if (ratio && share.contains(*ratio) && (text.ends_with('%') || *ratio < 1)) {
    return Json{{"ratio", *ratio}};
  }
  const Result<std::int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes < (1 << 20)) return std::nullopt;
  return Json{{"bytes", *bytes}};
}

// Whether the value of a field may be shown in a remedy as it is: a short number or word.
bool is_plain(const Field& field, const YamlNode& node) {
  if (field.type == FieldType::integer && !read_integer(node.scalar)) return false;
  if (field.type == FieldType::number && !read_number(node.scalar)) return false;
  constexpr std::size_t kMaxBytes = 32;
  static constexpr std::string_view kOthers = ".-+_/%";
  return node.kind == YamlNode::Kind::scalar && !node.is_quoted && !node.scalar.empty() &&
         node.scalar.size() <= kMaxBytes && std::ranges::all_of(node.scalar, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  kOthers.find(c) != std::string_view::npos;
         });
}

}  // namespace

std::string map_remedy(const std::vector<Field>& fields, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar || fields.empty()) return {};
  std::vector<std::string> required;
  for (const Field& field : fields)
    if (field.is_required) required.emplace_back(field.key);
  if (required.empty()) return "; its keys are " + joined(keys_of(fields));
  // The value of the one key that must be there was meant.
  const bool is_meant = required.size() == 1 && fields.front().key == required.front() &&
                        is_plain(fields.front(), node);
  std::string form;
  for (const std::string& key : required)
    form += (form.empty() ? "{" : ", ") + key + ": " + (is_meant ? node.scalar : "...");
  return "; write " + form + "}";
}

std::string found_text(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return (node.is_quoted ? "the quoted text " : "") + quote_for_message(node.scalar);
}

Checker::Checker(std::string file, std::filesystem::path folder, std::vector<Diagnostic>& problems,
                 NamedFiles files)
    : file_(std::move(file)), folder_(std::move(folder)), problems_(problems), files_(files) {}

void Checker::report(const YamlNode& at, std::string message) {
  if (problems_.size() < kMaxProblems) {
    problems_.push_back({file_, at.line, at.column, std::move(message)});
  }
}

std::string Checker::suggestion(std::string_view name,
                                const std::vector<std::string>& known) const {
  if (name.size() <= kMaxComparedBytes && problems_.size() < kMaxProblems) {
    if (const auto nearest = nearest_name(name, known))
      return "; did you mean \"" + *nearest + "\"?";
  }
  return "; known are " + joined(known);
}

std::nullopt_t Checker::unexpected(const Field& field, const YamlNode& node,
                                   const std::string& where, std::string_view remedy) {
  report(node, (where.empty() ? "" : where + ": ") + "expected " + field.expected() + ", found " +
                   found_text(node) + std::string(remedy));
  return std::nullopt;
}

std::optional<Json> Checker::check(const Field& field, const YamlNode& node,
                                   const std::string& where) {
  if (!field.keyword.empty() && node.kind == YamlNode::Kind::scalar &&
      node.scalar == field.keyword) {
    return Json(node.scalar);
  }
  const bool is_list = node.kind == YamlNode::Kind::sequence;
  if (field.shape == Shape::list || (field.shape == Shape::single_or_list && is_list)) {
    return check_list(field, node, where);
  }
  return check_single(field, node, where);
}

std::optional<Json> Checker::check_list(const Field& field, const YamlNode& node,
                                        const std::string& where) {
  if (node.kind != YamlNode::Kind::sequence) return unexpected(field, node, where);
  if (field.length > 0 ? node.items.size() != field.length
                       : node.items.empty() && field.shape == Shape::single_or_list) {
    report(node, where + ": expected " + field.expected() + ", found a list of " +
                     std::to_string(node.items.size()));
    return std::nullopt;
  }
  Field item = field;
  item.shape = Shape::single;
  Json list = Json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string item_where = where + "[" + std::to_string(i) + "]";
    if (auto value = check_single(item, node.items[i], item_where)) {
      list.push_back(std::move(*value));
    }
  }
  if (list.size() != node.items.size()) return std::nullopt;
  return list;
}

std::optional<Json> Checker::check_single(const Field& field, const YamlNode& node,
                                          const std::string& where) {
  switch (field.type) {
    case FieldType::map:
      if (node.kind != YamlNode::Kind::map) {
        return unexpected(field, node, where,
                          where.empty() ? std::string() : map_remedy(field.fields, node));
      }
      return check_map(field.fields, field.rule, node, where, false);
    case FieldType::typed:
      return check_typed(field, node, where);
    case FieldType::transforms:
      return check_transforms(field, node, where);
    case FieldType::knobs:
      // The caller checks the values, because it knows the knobs.
      if (node.kind != YamlNode::Kind::map) return unexpected(field, node, where);
      return Json::object();
    default:
      return check_scalar(field, node, where);
  }
}

std::optional<Json> Checker::check_scalar(const Field& field, const YamlNode& node,
                                          const std::string& where) {
  if (node.kind != YamlNode::Kind::scalar) return unexpected(field, node, where);
  const std::string& text = node.scalar;
  std::optional<Json> value;
  switch (field.type) {
    case FieldType::boolean:
      if (const auto flag = read_boolean(text); flag && !node.is_quoted) value = Json(*flag);
      break;
    case FieldType::integer:
      if (const auto number = read_integer(text);
          number && !node.is_quoted && field.range.contains(double(*number))) {
        value = Json(*number);
      }
      break;
    case FieldType::number:
      if (!node.is_quoted) value = in_range(field, read_number(text));
      if (value && !fits_float32(value->get<double>())) {
        return unexpected(field, node, where,
                          "; a training computes in float32, which holds 0 and magnitudes from "
                          "1.2e-38 to 3.4e38: write such a number");
      }
      if (const auto with_point = without_decimal_comma(text); !value && with_point) {
        return unexpected(field, node, where,
                          "; write a point instead of the comma: " + *with_point);
      }
      break;
    case FieldType::ratio:
      if (const Result<double> ratio = parse_ratio(text)) value = in_range(field, *ratio);
      break;
    case FieldType::duration:
      value = duration_ns(field, text);
      break;
    case FieldType::memory:
      value = memory_limit(text);
      break;
    case FieldType::text:
      if (is_line(text)) value = Json(text);
      break;
    case FieldType::name:
      if (is_name(text)) value = Json(text);
      if (printable(text) != text) {
        return unexpected(field, node, where,
                          "; it contains an invisible character, such as a control character");
      }
      break;
    case FieldType::device:
      if (is_device(text)) value = Json(text);
      break;
    case FieldType::choice:
      if (std::ranges::find(field.choices, text) != field.choices.end()) return Json(text);
      if (const auto nearest =
              text.size() <= kMaxComparedBytes ? nearest_name(text, field.choices) : std::nullopt) {
        return unexpected(field, node, where, "; did you mean \"" + *nearest + "\"?");
      }
      break;
    case FieldType::folder:
      if (is_line(text)) {
        std::error_code ignored;
        value = Json(std::filesystem::absolute(text, ignored).lexically_normal().string());
      }
      break;
    case FieldType::path:
      if (is_line(text)) return check_file(node, where);
      break;
    case FieldType::files:
      if (is_line(text)) return check_files(field, node, where);
      break;
    default:
      break;
  }
  if (!value) return unexpected(field, node, where);
  return value;
}

std::optional<Json> Checker::check_file(const YamlNode& node, const std::string& where) {
  const std::filesystem::path path = (folder_ / node.scalar).lexically_normal();
  if (files_ == NamedFiles::may_be_missing) return Json(path.string());
  const std::string shown = shown_path(path.string());
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    std::string remedy;
    if (path.string().starts_with("/usr/share/datasets/fashion-mnist/")) {
      remedy = "; install the package dataset-fashion-mnist";
    } else if (std::filesystem::path(node.scalar).is_relative()) {
      remedy = "; paths are relative to the recipe's folder";
    }
    report(node, where + ": there is no file " + shown + remedy);
    return std::nullopt;
  }
  if (!std::filesystem::is_regular_file(status)) {
    report(node, where + ": expected the path of a file, but " + shown + " is not a regular file");
    return std::nullopt;
  }
  if (::access(path.c_str(), R_OK) != 0) {
    report(node, where + ": this user may not read the file " + shown + "; check its mode");
    return std::nullopt;
  }
  return Json(path.string());
}

std::optional<Json> Checker::check_files(const Field& field, const YamlNode& node,
                                         const std::string& where) {
  const std::filesystem::path folder = as_pattern(folder_.string());
  const std::string pattern = (folder / node.scalar).lexically_normal().string();
  if (files_ == NamedFiles::may_be_missing) return Json(pattern);
  const std::string shown = shown_path(pattern);
  const Result<std::vector<std::string>> files = files_matching(pattern);
  if (!files) {
    report(node, where + ": " + files.error().message());
    return std::nullopt;
  }
  if (files->empty()) {
    std::string remedy;
    if (!field.remedy.empty()) remedy = "; " + std::string(field.remedy);
    if (std::filesystem::path(node.scalar).is_relative()) {
      remedy += "; patterns are relative to the recipe's folder";
    }
    report(node, where + ": no file matches " + shown + remedy);
    return std::nullopt;
  }
  for (const std::string& file : *files) {
    std::error_code unknown;
    if (::access(file.c_str(), R_OK) != 0) {
      report(node,
             where + ": this user may not read the file " + shown_path(file) + "; check its mode");
      return std::nullopt;
    }
    if (!std::filesystem::is_regular_file(file, unknown)) {
      report(node, where + ": " + shown_path(file) +
                       " is not a regular file; remove it, or write a pattern that leaves it out");
      return std::nullopt;
    }
  }
  return Json(pattern);
}

Json Checker::check_map(const std::vector<Field>& fields, Rule rule, const YamlNode& node,
                        const std::string& where, bool has_type) {
  Json values = Json::object();
  for (const auto& [key, value] : node.entries) {
    if (has_type && key.scalar == "type") continue;
    const Field* field = find_field(fields, key.scalar);
    if (field == nullptr) {
      if (report_decimal_comma(node, {key, value}, where)) continue;
      std::vector<std::string> known = keys_of(fields);
      if (has_type) known.insert(known.begin(), "type");
      report(key, "unknown key " + quote_for_message(key.scalar) + in(where) +
                      suggestion(key.scalar, known));
      continue;
    }
    if (auto checked = check(*field, value, below(where, field->key))) {
      store(*field, std::move(*checked), values);
    }
  }
  for (const Field& field : fields) {
    if (node.find(field.key) != nullptr) continue;
    if (field.is_required) {
      report(node, "\"" + std::string(field.key) + "\" is missing" + in(where) + ": expected " +
                       field.expected());
    } else {
      add_default(field, where, values);
    }
  }
  if (rule != nullptr) {
    if (std::string wrong = rule(node, values); !wrong.empty()) {
      report(node, (where.empty() ? "" : where + ": ") + std::move(wrong));
    }
  }
  return values;
}

// A default has the form of a value in a recipe, so the same code reads it.
void Checker::add_default(const Field& field, const std::string& where, Json& values) {
  if (field.default_text.empty()) return;
  const auto node = parse_yaml(field.default_text, file_);
  if (!node) return;  // a test reads every default of the table
  if (auto value = check(field, *node, below(where, field.key))) {
    store(field, std::move(*value), values);
  }
}

void Checker::store(const Field& field, Json value, Json& values) const {
  if (field.type != FieldType::memory) {
    values[field.checked_key()] = std::move(value);
    return;
  }
  for (const auto& [unit, amount] : value.items()) {
    values[std::string(field.key) + "_" + unit] = amount;
  }
}

// In a map in braces, YAML takes the text after a decimal comma for the next key.
bool Checker::report_decimal_comma(const YamlNode& map, const YamlEntry& entry,
                                   const std::string& where) {
  if (entry.value.kind != YamlNode::Kind::null) return false;
  const YamlEntry* before = nullptr;
  for (const YamlEntry& one : map.entries) {
    if (one.key.line == entry.key.line && one.key.column == entry.key.column) break;
    before = &one;
  }
  if (before == nullptr || before->value.kind != YamlNode::Kind::scalar) return false;
  const auto number = without_decimal_comma(before->value.scalar + "," + entry.key.scalar);
  if (!number) return false;
  const std::string key = (where.empty() ? "" : where + ".") + before->key.scalar;
  report(before->value, key + ": a comma in braces ends the value, so YAML reads " +
                            quote_for_message(before->value.scalar) + " and a key " +
                            quote_for_message(entry.key.scalar) + "; write a point: " + *number);
  return true;
}

}  // namespace autotuned::recipes
