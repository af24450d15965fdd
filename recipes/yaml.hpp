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

// A mistake at a place in a file. Lines and columns count from 1; line 0 means the whole file.
struct Diagnostic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;

  [[nodiscard]] std::string text() const;  // "recipe.yaml:3:5: unknown key …"
};

// Whether the files that a recipe names, such as its data, must exist.
enum class NamedFiles { must_exist, may_be_missing };

struct YamlEntry;

// A value with its place. Lines and columns count from 1.
struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  int line = 0;
  int column = 0;
  std::string scalar;              // as written, without quotes
  bool is_quoted = false;          // a quoted scalar is always text
  std::vector<YamlNode> items;     // sequence
  std::vector<YamlEntry> entries;  // map, in written order

  [[nodiscard]] const YamlNode* find(
      std::string_view key) const;  // map: the value; null if it lacks the key
};

struct YamlEntry {
  YamlNode key;  // a scalar
  YamlNode value;
};

inline constexpr std::size_t kMaxYamlBytes = 1U << 20U;
// The most problems that are reported for one file. A hostile file could have a hundred thousand.
inline constexpr std::size_t kMaxProblems = 100;

// Reads one document. Refuses, with a position: aliases and anchors, tags, duplicate keys, keys that are not scalars, more than one
// document, a depth over 32, more than 100,000 nodes, more than kMaxYamlBytes.
[[nodiscard]] tl::expected<YamlNode, std::vector<Diagnostic>> parse_yaml(std::string_view text,
                                                                         std::string file);
// The same for callers that add mistakes of their own, so that all are reported at once. After problems such as a duplicate key there
// is a tree without the refused part; after a syntax error there is none.
struct YamlReading {
  std::optional<YamlNode> root;
  std::vector<Diagnostic> problems;
};
[[nodiscard]] YamlReading read_as_far_as_possible(std::string_view text, const std::string& file);

}  // namespace autotuned::recipes
