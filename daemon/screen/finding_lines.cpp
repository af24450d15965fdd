// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/finding_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace autotuned::daemon {

namespace {

constexpr std::size_t kMaxFindings = 1;

// Whether the last answer of the plugin that acts on a finding was no proposal.
bool is_declined(const Json& finding, const RunProgress& progress) {
  const auto answer = progress.outcomes.find(text_in(finding, "plugin"));
  return answer != progress.outcomes.end() && !answer->second.empty();
}

// The plugin that acts on a finding, if its last answer was a proposal.
std::string remedy_text(const Json& finding, const RunProgress& progress) {
  const std::string plugin = text_in(finding, "plugin");
  if (!progress.outcomes.contains(plugin) || is_declined(finding, progress)) return {};
  return "; the plugin " + plugin + " acts on it";
}

std::string finding_text(const Json& finding) {
  const std::string severity = text_in(finding, "severity");
  return text_in(finding, "id") + (severity.empty() ? "" : " (" + severity + ")") + ": " +
         text_in(finding, "evidence");
}

}  // namespace

std::vector<Line> finding_lines(const RunProgress& progress, const LineStyle& style) {
  const Json& findings = progress.findings;
  if (!progress.said.findings || !findings.is_array() || findings.empty()) return {};
  std::vector<const Json*> ordered;
  for (const Json& finding : findings)
    ordered.push_back(&finding);
  const auto less_severe = std::ranges::find_if(ordered, [&findings](const Json* finding) {
    return text_in(*finding, "severity") != text_in(findings[0], "severity");
  });
  std::stable_partition(ordered.begin(), less_severe, [&progress](const Json* finding) {
    return !is_declined(*finding, progress);
  });
  const std::size_t shown = style.is_verbose ? ordered.size() : kMaxFindings;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == shown && shown < ordered.size();
    const std::string rest =
        is_last ? fmt::format("; {} more: `autotuned explain`", ordered.size() - shown) : "";
    append(lines,
           labelled(label(i > 0 ? "" : "found"),
                    finding_text(*ordered[i]) + remedy_text(*ordered[i], progress) + rest, style));
  }
  return lines;
}

std::vector<Line> left_finding_lines(const Json& event, const LineStyle& style) {
  const Json& findings = member(event, "findings");
  const bool is_start = get_bool(event, "is_start").value_or(true);
  if (is_start || !style.is_verbose || !findings.is_array()) return {};
  std::vector<Line> lines;
  for (const Json& finding : findings)
    append(lines, labelled(label(lines.empty() ? "left" : ""), finding_text(finding), style));
  return lines;
}

}  // namespace autotuned::daemon
