// SPDX-License-Identifier: Apache-2.0
// Untrusted YAML as a tree with positions. The only file pair that knows yaml-cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned::recipes {

// Something wrong at a place in a file. Columns and lines count from 1; 0 means the whole file.
struct Diagnostic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;

  [[nodiscard]] std::string text() const;  // "recipe.yaml:3:5: unknown key …"
};

// Of the files that a recipe names, such as its data.
enum class NamedFiles { must_exist, may_be_missing };

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  int line = 0;
  int column = 0;
  std::string scalar;              // as written, without quotes
  bool is_quoted = false;          // a quoted scalar is text, whatever it looks like
  std::vector<YamlNode> items;     // sequence
  std::vector<YamlEntry> entries;  // map, in written order

  [[nodiscard]] const YamlNode* find(std::string_view key) const;
};

struct YamlEntry {
  YamlNode key;  // a scalar
  YamlNode value;
};

inline constexpr std::size_t kMaxYamlBytes = 1U << 20U;
// Reported for one file. More help nobody, and a hostile file could ask for a hundred thousand.
inline constexpr std::size_t kMaxProblems = 100;

// Reads one document. Refused with a position: aliases and anchors, tags, duplicate keys, keys that are
// not scalars, more than one document, depth over 32, more than 100,000 nodes, over kMaxYamlBytes.
[[nodiscard]] tl::expected<YamlNode, std::vector<Diagnostic>> parse_yaml(std::string_view text,
                                                                         std::string file);
// The same for callers that add mistakes of their own, so that a person sees all of them at once:
// problems such as a duplicate key leave a tree (without the refused part); a syntax error does not.
struct YamlReading {
  std::optional<YamlNode> root;
  std::vector<Diagnostic> problems;
};
[[nodiscard]] YamlReading read_as_far_as_possible(std::string_view text, const std::string& file);

}  // namespace autotuned::recipes
