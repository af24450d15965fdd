// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/trial_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/trial.hpp"
#include "daemon/report/characters.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

namespace {

using Lines = std::vector<Line>;

Tone tone_of(const std::string& verdict, bool is_provisional) {
  if (verdict == "accepted") return is_provisional ? Tone::doubtful : Tone::good;
  if (verdict == "failed") return Tone::bad;
  return Tone::quiet;
}

// A word that is wider than `columns` is cut: names of plugins and knobs may be long, and nobody copies them from here.
std::string with_cut_words(std::string_view text, int columns) {
  LineStyle style;
  style.columns = std::max(columns, 1);
  std::string cut;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    cut += drawn(Line{{std::string(text.substr(0, end)), Tone::plain}}, style);
    text.remove_prefix(end);
    if (text.empty()) break;
    cut += ' ';
    text.remove_prefix(1);
  }
  return cut;
}

// The lines of a verdict. The outcome gets a line of its own if title and outcome do not fit into one.
Lines verdict_lines(const Span& verdict, const std::string& title, const std::string& outcome,
                    const LineStyle& style) {
  const std::string told = outcome.empty() ? "" : ", " + outcome;
  Line whole = {verdict, {title, Tone::plain}, {told, verdict.tone}};
  if (style.columns <= 0 || columns_of(whole) <= style.columns) return {std::move(whole)};
  const int room = style.columns - columns_of(verdict.text);
  Lines lines = labelled(verdict, with_cut_words(title, room), style);
  if (!outcome.empty()) append(lines, labelled(label(""), outcome, style, verdict.tone));
  return lines;
}

// The changes of a confirmation were told one by one, and the line `tuned` has them together.
std::string title_of_finished(const Json& trial, const LineStyle& style) {
  const std::size_t changes = member(trial, "change").size();
  if (style.is_verbose || changes < 2 || text_in(trial, "kind") != "confirmation") {
    return title_of(trial);
  }
  return fmt::format("confirmation of {} changes", changes);
}

}  // namespace

Lines finished_trial_lines(const Json& trial, const std::vector<KeptChange>& withdrawn,
                           const LineStyle& style) {
  const std::string verdict = text_in(trial, "verdict");
  const std::string kind = text_in(trial, "kind");
  const bool is_provisional = verdict == "accepted" && kind == "proposal";
  const Estimate estimate = estimate_of(trial);
  const std::string reason = text_in(trial, "reason");
  const std::string word = rejection_word(trial);
  std::vector<std::string> outcome;
  // The ratio of a failed trial is left out: only its reason matters.
  if (estimate.pairs > 0 && verdict != "failed") outcome.push_back(estimate_text(estimate));
  if (is_provisional) outcome.emplace_back("provisional");
  if (!word.empty() && verdict == "rejected") outcome.push_back(word);
  Lines lines = verdict_lines(label(verdict, tone_of(verdict, is_provisional)),
                              title_of_finished(trial, style),
                              fmt::format("{}", fmt::join(outcome, ", ")), style);
  // The run says why a trial was stopped, and the verdict often says why it was rejected.
  // That of a confirmation is told with what is withdrawn.
  const bool is_disturbed =
      verdict == "rejected" && kind != "confirmation" && !text_in(trial, "failure").empty();
  const bool is_explained = verdict == "interrupted" || (!word.empty() && !is_disturbed);
  const bool says_more = verdict != "accepted" && (!is_explained || style.is_verbose);
  if (!reason.empty() && says_more) append(lines, labelled(label(""), reason, style));
  const std::string cause = kind == "ablation" ? "the rest is as fast without it"
                                               : "the confirmation did not hold: " + reason;
  for (const KeptChange& change : withdrawn) {
    append(lines, labelled(label("withdrawn", Tone::doubtful), change.title + ": " + cause, style));
  }
  return lines;
}

Lines rejection_lines(const std::vector<Json>& trials, const LineStyle& style) {
  if (trials.size() == 1) return finished_trial_lines(trials.front(), {}, style);
  // The reasons in the order in which they come, each with its changes. One that was tried twice is named once.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const Json& trial : trials) {
    const std::string reason = rejection_word(trial);
    const std::string change = change_of(trial);
    auto group = std::ranges::find(groups, reason, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(group, {reason, {}});
    if (std::ranges::find(group->second, change) == group->second.end()) {
      group->second.push_back(change);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [reason, changes] : groups)
    texts.push_back(fmt::format("{}: {}", reason, fmt::join(changes, ", ")));
  if (texts.empty()) return {};
  return labelled(label("rejected"), fmt::format("{}", fmt::join(texts, "; ")), style);
}

}  // namespace autotuned::daemon
