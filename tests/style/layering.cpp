// SPDX-License-Identifier: Apache-2.0
#include "tests/style/layering.hpp"

#include <algorithm>
#include <regex>
#include <stdexcept>

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

// The rows below the heading of the table between `<!-- name:begin -->` and `<!-- name:end -->`.
std::vector<std::pair<std::string, std::string>> table(std::string_view text,
                                                       const std::string& name) {
  const std::string begin = "<!-- " + name + ":begin -->";
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find("<!-- " + name + ":end -->");
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) {
    throw std::runtime_error("no table between the markers '" + name + ":begin' and ':end'");
  }
  static const std::regex kRow(R"(^\|([^|]*)\|([^|]*)\|\s*$)");
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string& line : lines_of(text.substr(from, to - from))) {
    std::smatch match;
    if (std::regex_match(line, match, kRow)) rows.emplace_back(match[1].str(), match[2].str());
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
  // The longest listed folder that holds `path`, or "".
  [[nodiscard]] std::string folder_of(std::string_view path) const {
    std::string best;
    for (const auto& [folder, unused] : rules_.folders) {
      if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
    }
    return best;
  }

  [[nodiscard]] static bool may_include(const Boundary& boundary, std::string_view path) {
    const auto hits = [&](const std::string& pattern) { return matches(pattern, path); };
    return std::ranges::any_of(boundary.allowed, hits) &&
           std::ranges::none_of(boundary.refused, hits);
  }

  void report(const std::string& path, std::size_t line, const std::string& what) {
    found_.push_back(path + ":" + std::to_string(line) + ": " + what);
  }

  void check(const std::string& path, const std::vector<Include>& includes) {
    const std::string folder = folder_of(path);
    if (folder.empty()) {
      report(path, 1, "is in a folder that docs/architecture.md does not list");
      return;
    }
    const bool is_free =
        rules_.folders.at(folder).contains(std::string(kAnything)) || path.ends_with("_test.cpp");
    for (const Include& include : includes) {
      if (include.is_quoted) {
        check_own(path, folder, is_free, include);
      } else if (!is_free) {
        check_foreign(path, include);
      }
    }
  }

  void check_own(const std::string& path, const std::string& folder, bool is_free,
                 const Include& include) {
    if (!includes_.contains(include.name)) {
      report(path, include.line, "\"" + include.name + "\" is not a file of this tree");
      return;
    }
    if (is_free) return;
    const std::string target = folder_of(include.name);
    if (target != folder && !rules_.folders.at(folder).contains(target)) {
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
  for (const auto& [left, right] : table(architecture, "layering")) {
    std::set<std::string> allowed;
    for (const Name& name : names_in(right))
      allowed.insert(name.text);
    if (right.find(kAnything) != std::string::npos) allowed.emplace(kAnything);
    for (const Name& name : names_in(left))
      rules.folders[name.text] = allowed;
  }
  for (const auto& [left, right] : table(architecture, "boundaries")) {
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

}  // namespace autotuned::style
