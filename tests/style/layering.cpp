// SPDX-License-Identifier: Apache-2.0
#include "tests/style/layering.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <stdexcept>
#include <utility>

namespace autotuned::style {
namespace {

constexpr std::string_view kAnything = "anything";

struct Include {
  std::string name;
  bool is_quoted = false;
  std::size_t line = 0;
};

struct Name {
  std::string text;
  bool is_refused = false;
};

// The names in backticks of a table cell; "but not" in front of one refuses it.
std::vector<Name> names_in(const std::string& cell) {
  static const std::regex kName("(but not )?`([^`]+)`");
  std::vector<Name> names;
  for (auto it = std::sregex_iterator(cell.begin(), cell.end(), kName);
       it != std::sregex_iterator(); ++it) {
    names.push_back({(*it)[2].str(), (*it)[1].matched});
  }
  return names;
}

using Row = std::array<std::string, 3>;

// The rows below the heading of the table between `<!-- name:begin -->` and `<!-- name:end -->`, of two cells or three.
std::vector<Row> table(std::string_view text, const std::string& name) {
  const std::string begin = "<!-- " + name + ":begin -->";
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find("<!-- " + name + ":end -->");
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) {
    throw std::runtime_error("no table between the markers '" + name + ":begin' and ':end'");
  }
  static const std::regex kRow(R"(^\|([^|]*)\|([^|]*)\|(?:([^|]*)\|)?\s*$)");
  std::vector<Row> rows;
  for (const std::string& line : lines_of(text.substr(from, to - from))) {
    std::smatch match;
    if (!std::regex_match(line, match, kRow)) continue;
    rows.push_back(Row{match[1].str(), match[2].str(), match[3].str()});
  }
  if (rows.size() < 3) throw std::runtime_error("the table '" + name + "' has no rows");
  rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

std::vector<Include> includes_of(const SourceFile& file) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<Include> includes;
  std::size_t number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    // The regex is slow under sanitizers and nearly every line has none.
    if (line.find('#') == std::string::npos) continue;
    std::smatch match;
    if (std::regex_match(line, match, kInclude)) {
      includes.push_back({match[2].str(), match[1].str() == "\"", number});
    }
  }
  return includes;
}

// "" for a file at the root.
std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "" : path.substr(0, slash));
}

// The row of this very name, else the longest pattern that it matches; null for none.
const FolderRule* rule_of(const Rules& rules, const std::string& folder) {
  if (const auto found = rules.folders.find(folder); found != rules.folders.end()) {
    return &found->second;
  }
  const std::pair<const std::string, FolderRule>* best = nullptr;
  for (const auto& row : rules.folders) {
    if (!matches(row.first, folder)) continue;
    if (best == nullptr || row.first.size() > best->first.size()) best = &row;
  }
  return best == nullptr ? nullptr : &best->second;
}

bool is_allowed(const FolderRule& rule, std::string_view folder) {
  return std::ranges::any_of(rule.allowed,
                             [&](const std::string& pattern) { return matches(pattern, folder); });
}

std::set<std::string> folders_of(const std::vector<SourceFile>& files) {
  std::set<std::string> folders;
  for (const SourceFile& file : files) {
    if (is_cpp(file.path)) folders.insert(folder_of(file.path));
  }
  return folders;
}

// Finds the circles in a graph, each where the search closes it.
class Circles {
 public:
  using Edges = std::map<std::string, std::set<std::string>>;

  explicit Circles(const Edges& edges) : edges_(edges) {}

  std::vector<std::string> find() {
    for (const auto& [node, unused] : edges_)
      visit(node);
    return std::move(found_);
  }

 private:
  void visit(const std::string& node) {
    if (const auto begin = std::ranges::find(path_, node); begin != path_.end()) {
      std::string text;
      for (auto it = begin; it != path_.end(); ++it)
        text += *it + " -> ";
      found_.push_back(text + node);
      return;
    }
    const auto next = edges_.find(node);
    if (next == edges_.end() || !done_.insert(node).second) return;
    path_.push_back(node);
    for (const std::string& other : next->second)
      visit(other);
    path_.pop_back();
  }

  const Edges& edges_;
  std::set<std::string> done_;
  std::vector<std::string> path_;  // from where the search began to where it is
  std::vector<std::string> found_;
};

class Checker {
 public:
  Checker(const Rules& rules, const std::vector<SourceFile>& files) : rules_(rules) {
    for (const SourceFile& file : files) {
      if (is_cpp(file.path)) includes_[file.path] = includes_of(file);
    }
  }

  std::vector<std::string> run() {
    for (const auto& [path, includes] : includes_)
      check(path, includes);
    return std::move(found_);
  }

 private:
  [[nodiscard]] static bool may_include(const Boundary& boundary, std::string_view path) {
    const auto hits = [&](const std::string& pattern) { return matches(pattern, path); };
    return std::ranges::any_of(boundary.allowed, hits) &&
           std::ranges::none_of(boundary.refused, hits);
  }

  void report(const std::string& path, std::size_t line, const std::string& what) {
    found_.push_back(path + ":" + std::to_string(line) + ": " + what);
  }

  void check(const std::string& path, const std::vector<Include>& includes) {
    const FolderRule* const rule = rule_of(rules_, folder_of(path));
    if (rule == nullptr) {
      report(path, 1, "is in a folder that docs/architecture.md does not list");
      return;
    }
    const bool is_free = is_allowed(*rule, kAnything) || path.ends_with("_test.cpp");
    for (const Include& include : includes) {
      if (include.is_quoted) {
        check_own(path, *rule, is_free, include);
      } else if (!is_free) {
        check_foreign(path, include);
      }
    }
  }

  void check_own(const std::string& path, const FolderRule& rule, bool is_free,
                 const Include& include) {
    if (!includes_.contains(include.name)) {
      report(path, include.line, "\"" + include.name + "\" is not a file of this tree");
      return;
    }
    if (is_free) return;
    const std::string folder = folder_of(path);
    const std::string target = folder_of(include.name);
    if (target != folder && !is_allowed(rule, target)) {
      report(path, include.line, folder + " may not include " + target + " (" + include.name + ")");
    }
    std::set<std::string> seen;
    for (const std::string& header : foreign_headers(include.name, seen)) {
      for (const Boundary& boundary : rules_.boundaries) {
        if (is_behind(boundary, header) && !may_include(boundary, path)) {
          report(path, include.line, include.name + " brings in <" + header + ">");
        }
      }
    }
  }

  void check_foreign(const std::string& path, const Include& include) {
    for (const Boundary& boundary : rules_.boundaries) {
      if (is_behind(boundary, include.name) && !may_include(boundary, path)) {
        report(path, include.line, "may not include <" + include.name + ">");
      }
    }
  }

  [[nodiscard]] static bool is_behind(const Boundary& boundary, const std::string& header) {
    return std::ranges::any_of(
        boundary.headers, [&](const std::string& prefix) { return header.starts_with(prefix); });
  }

  // Every third-party header that `path` includes, itself or through others.
  std::set<std::string> foreign_headers(const std::string& path, std::set<std::string>& seen) {
    std::set<std::string> headers;
    const auto found = includes_.find(path);
    if (found == includes_.end() || !seen.insert(path).second) return headers;
    for (const Include& include : found->second) {
      if (include.is_quoted) {
        headers.merge(foreign_headers(include.name, seen));
      } else {
        headers.insert(include.name);
      }
    }
    return headers;
  }

  const Rules& rules_;
  std::map<std::string, std::vector<Include>> includes_;
  std::vector<std::string> found_;
};

}  // namespace

Rules read_rules(std::string_view architecture) {
  Rules rules;
  for (const auto& [left, right, purpose] : table(architecture, "layering")) {
    FolderRule rule;
    for (const Name& name : names_in(right))
      rule.allowed.insert(name.text);
    if (right.find(kAnything) != std::string::npos) rule.allowed.emplace(kAnything);
    const std::size_t begin = purpose.find_first_not_of(' ');
    if (begin != std::string::npos) {
      rule.purpose = purpose.substr(begin, purpose.find_last_not_of(' ') - begin + 1);
    }
    for (const Name& name : names_in(left))
      rules.folders[name.text] = rule;
  }
  for (const auto& [left, right, unused] : table(architecture, "boundaries")) {
    Boundary boundary;
    for (const Name& name : names_in(left))
      boundary.headers.push_back(name.text);
    for (const Name& name : names_in(right)) {
      (name.is_refused ? boundary.refused : boundary.allowed).push_back(name.text);
    }
    rules.boundaries.push_back(std::move(boundary));
  }
  return rules;
}

std::vector<std::string> violations(const Rules& rules, const std::vector<SourceFile>& files) {
  return Checker(rules, files).run();
}

std::vector<std::string> useless_rows(const Rules& rules, const std::vector<SourceFile>& files) {
  const std::set<std::string> folders = folders_of(files);
  const auto holds_sources = [&](const std::string& pattern) {
    return std::ranges::any_of(folders,
                               [&](const std::string& folder) { return matches(pattern, folder); });
  };
  std::vector<std::string> found;
  for (const auto& [row, rule] : rules.folders) {
    if (!holds_sources(row)) found.push_back(row + " holds no sources");
    if (rule.purpose.empty()) found.push_back(row + " is listed without saying what it is for");
    for (const std::string& name : rule.allowed) {
      if (name == kAnything || holds_sources(name)) continue;
      found.push_back(row + " may include " + name + ", which holds no sources");
    }
  }
  return found;
}

std::vector<std::string> row_cycles(const Rules& rules) {
  Circles::Edges edges;
  for (const auto& [row, rule] : rules.folders) {
    std::set<std::string>& next = edges[row];
    for (const auto& [other, unused] : rules.folders) {
      if (is_allowed(rule, other)) next.insert(other);
    }
  }
  return Circles(edges).find();
}

std::vector<std::string> include_cycles(const std::vector<SourceFile>& files) {
  Circles::Edges edges;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    std::set<std::string>& next = edges[file.path];
    for (const Include& include : includes_of(file)) {
      if (include.is_quoted) next.insert(include.name);
    }
  }
  return Circles(edges).find();
}

std::vector<std::string> crowded_folders(const std::vector<SourceFile>& files, std::size_t most) {
  std::map<std::string, std::set<std::string>> units;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path) || file.path.starts_with("tests/")) continue;
    units[folder_of(file.path)].insert(file.path.substr(0, file.path.rfind('.')));
  }
  std::vector<std::string> found;
  for (const auto& [folder, names] : units) {
    if (names.size() <= most) continue;
    found.push_back(folder + " holds " + std::to_string(names.size()) + " units, more than " +
                    std::to_string(most) + ": sort them into sub-folders");
  }
  return found;
}

}  // namespace autotuned::style
