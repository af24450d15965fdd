// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/run_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "daemon/report/rank_report.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/token_report.hpp"
#include "daemon/screen/characters.hpp"
#include "daemon/screen/next_commands.hpp"

namespace autotuned::daemon {

namespace {

// Of files that could not be read, by name.
constexpr std::int64_t kMostDamagedNamed = 3;
constexpr std::size_t kMostFindings = 1;
constexpr int kWhole = std::numeric_limits<int>::max();  // columns of a text that is not cut

using Lines = std::vector<Line>;

void add(Lines& lines, Lines more) {
  for (Line& line : more)
    lines.push_back(std::move(line));
}

Tone tone_of(const std::string& verdict, bool is_provisional) {
  if (verdict == "accepted") return is_provisional ? Tone::doubtful : Tone::good;
  if (verdict == "failed") return Tone::bad;
  return Tone::quiet;
}

// A word for the reason of a rejected trial, where that says enough.
std::string short_reason(const std::string& rejection) {
  if (rejection == "slower") return "slower";
  if (rejection == "no_gain") return "no gain";
  if (rejection == "undecided_in_time") return "undecided";
  return {};
}

// The title gives way to what the trial came to. Where too little of it would be left, that goes to a line of its own.
Lines verdict_lines(const Span& verdict, const std::string& title, const std::string& outcome,
                    const Look& look) {
  constexpr int kLeastTitle = 20;
  const std::string told = outcome.empty() ? "" : ", " + outcome;
  if (look.columns <= 0) return {Line{verdict, {title, Tone::plain}, {told, verdict.tone}}};
  Look of_title;
  of_title.columns = look.columns - columns_of(verdict.text) - columns_of(told);
  if (of_title.columns < std::min(kLeastTitle, columns_of(title))) {
    of_title.columns = look.columns - columns_of(verdict.text);
    Lines lines = {Line{verdict, {drawn(Line{{title, Tone::plain}}, of_title), Tone::plain}}};
    if (!outcome.empty()) add(lines, labelled(label(""), outcome, look, verdict.tone));
    return lines;
  }
  const std::string shown = drawn(Line{{title, Tone::plain}}, of_title);
  return {Line{verdict, {shown, Tone::plain}, {told, verdict.tone}}};
}

Lines finished_trial_lines(const Json& trial, const RunProgress& progress, const Look& look) {
  const std::string verdict = text_in(trial, "verdict");
  const std::string kind = text_in(trial, "kind");
  const bool is_provisional = verdict == "accepted" && kind == "proposal";
  const Estimate estimate = estimate_of(trial);
  const std::string word = short_reason(text_in(trial, "rejection"));
  std::vector<std::string> outcome;
  // What a trial that failed has measured decides nothing: its reason is the message.
  if (estimate.pairs > 0 && verdict != "failed") outcome.push_back(estimate_text(estimate));
  if (is_provisional) outcome.emplace_back("provisional");
  if (!word.empty() && verdict == "rejected") outcome.push_back(word);
  Lines lines = verdict_lines(label(verdict, tone_of(verdict, is_provisional)), title_of(trial),
                              joined(outcome, kWhole), look);
  const std::string reason = text_in(trial, "reason");
  // Of one that was stopped the run says why, and of a rejected one often the word.
  const bool is_explained = verdict == "interrupted" || !word.empty();
  const bool says_more = verdict != "accepted" && (!is_explained || look.is_verbose);
  if (!reason.empty() && says_more) add(lines, labelled(label(""), reason, look));
  const std::string cause = kind == "ablation" ? "the rest is as fast without it"
                                               : "the confirmation did not hold: " + reason;
  for (const KeptChange& change : progress.said.withdrawn) {
    add(lines, labelled(label("withdrawn", Tone::doubtful), change.title + ": " + cause, look));
  }
  return lines;
}

// Of the ladder what the job reaches of each rung: the rates are in the report.
Lines upper_bound_lines(const Json& event, const RunProgress& progress, const Look& look) {
  // Those of later configurations are in the panel, and the last one is on the card.
  if (progress.upper_bounds > 1 && !look.is_verbose) return {};
  Lines lines = labelled(
      label("ceiling"),
      fmt::format("at least {}, bound by {}", rate_text(number_in(event, "samples_per_second")),
                  text_in(event, "bound_by")),
      look);
  const std::string reached = ladder_text(member(event, "ladder"));
  if (look.is_verbose && !reached.empty()) {
    add(lines, labelled(label(""), "reached: " + reached, look));
  }
  return lines;
}

// The first of them, which are the most severe; `explain` tells the rest.
Lines finding_lines(const Json& event, const Look& look) {
  const Json& findings = member(event, "findings");
  const bool is_start = get_bool(event, "is_start").value_or(true);
  if (!findings.is_array() || (!is_start && !look.is_verbose)) return {};
  const std::size_t shown =
      std::min(look.is_verbose ? findings.size() : kMostFindings, findings.size());
  Lines lines;
  for (std::size_t i = 0; i < shown; ++i) {
    const char* const name = i > 0 ? "" : is_start ? "found" : "left";
    const bool is_last = i + 1 == shown && shown < findings.size();
    const std::string rest =
        is_last ? fmt::format("; {} more: `autotuned explain`", findings.size() - shown) : "";
    const std::string severity = text_in(findings[i], "severity");
    add(lines,
        labelled(label(name),
                 text_in(findings[i], "id") + (severity.empty() ? "" : " (" + severity + ")") +
                     ": " + text_in(findings[i], "evidence") + rest,
                 look));
  }
  return lines;
}

Lines answer_lines(const Json& event, const RunProgress& progress, const Look& look) {
  const bool is_failure = flag_in(event, "is_failure");
  if (!progress.said.answer || (!is_failure && !look.is_verbose)) return {};
  return labelled(is_failure ? label("left out", Tone::bad) : label("nothing"),
                  text_in(event, "plugin") + ": " + text_in(event, "outcome"), look);
}

Lines tuned_lines(const Json& event, const Look& look) {
  if (member(event, "is_searched") == false) {
    return labelled(label("tuned", Tone::strong),
                    "nothing: the budget is 0, so the job trains with its starting configuration",
                    look);
  }
  const Estimate estimate{.ratio = number_in(event, "speedup"),
                          .low = number_in(event, "speedup_low"),
                          .high = number_in(event, "speedup_high"),
                          .pairs = 1};
  const bool is_faster = estimate.low > 1.0;
  const std::string change = text_in(event, "change");
  Lines lines = labelled(label("tuned", is_faster ? Tone::good : Tone::strong),
                         change == "nothing" ? "nothing faster: the starting configuration stays"
                                             : estimate_text(estimate) + ": " + change,
                         look);
  if (flag_in(event, "is_budget_spent")) {
    add(lines, labelled(label(""),
                        flag_in(event, "is_complete")
                            ? "the budget did not suffice for a second look at what was close; "
                              "--budget gives more"
                            : "the budget did not suffice for every proposal: the next run goes "
                              "on, and --budget gives it more",
                        look));
  }
  return lines;
}

// ", 5.2 s left", until none is.
std::string left_text(const TrainingUnderWay& training, std::chrono::nanoseconds now) {
  const std::chrono::nanoseconds left = training.left(now);
  return left.count() > 0 ? ", " + format_duration(left) + " left" : std::string();
}

std::string training_text(const TrainingUnderWay& training, std::chrono::nanoseconds now) {
  return fmt::format("{:3.0f} %, step {}, loss {:.4f}, {}{}", 100 * training.done_ratio(),
                     format_count(training.step), training.loss, training.rate_text(),
                     left_text(training, now));
}

// "accuracy 88.86 %, ", of numbers "mean absolute error 0.0412, R² 0.9713, ", of tags
// "micro-F1 0.9120, ", of masks "mean IoU 0.7312, pixel accuracy 93.10 %, ".
std::string figures_text(const Json& evaluation) {
  std::string text;
  const bool has_masks = evaluation.contains("miou");
  if (const auto share = get_number(evaluation, "miou")) {
    text += fmt::format("mean IoU {:.4f}, ", *share);
  }
  if (const auto accuracy = get_number(evaluation, "accuracy")) {
    text += fmt::format("{}accuracy {:.2f} %, ", has_masks ? "pixel " : "", *accuracy * 100);
  }
  text += token_figures_text(evaluation, "", "", ", ");
  if (const auto error = get_number(evaluation, "mae")) {
    text += fmt::format("mean absolute error {:.4g}, ", *error);
  }
  if (const auto share = get_number(evaluation, "r2")) {
    text += fmt::format("R² {:.4f}, ", *share);
  }
  if (const auto share = get_number(evaluation, "f1")) {
    text += fmt::format("micro-F1 {:.4f}, ", *share);
  }
  return text;
}

Lines training_lines(const Json& told, const RunProgress& progress, const Look& look) {
  if (const Json& evaluation = member(told, "evaluation"); evaluation.is_object()) {
    if (!progress.said.evaluation && !look.is_verbose) return {};
    return labelled(
        label(fmt::format("epoch {}", integer_in(evaluation, "epoch"))),
        fmt::format("{}test loss {:.4f}", figures_text(evaluation), number_in(evaluation, "loss")),
        look);
  }
  if (look.has_panel || !progress.said.training || !progress.training) return {};
  const TrainingUnderWay& training = *progress.training;
  return labelled(label("training"), training_text(training, training.told_at), look);
}

Lines damage_lines(const Json& event, const RunProgress& progress, const Look& look) {
  if (progress.damaged > kMostDamagedNamed + 1 && !look.is_verbose) return {};
  if (progress.damaged > kMostDamagedNamed && !look.is_verbose) {
    return labelled(label("skipped"), "and more: the end of the run says how many", look);
  }
  return labelled(label("skipped"),
                  fmt::format("{}: {} ({} so far)", text_in(event, "file"), text_in(event, "what"),
                              progress.damaged),
                  look);
}

// "22 of 33 plugins not applicable so far (--verbose)".
Lines inapplicable_lines(const RunProgress& progress, const Look& look) {
  if (!progress.said.inapplicable || look.is_verbose) return {};
  const PluginCounts counts = progress.plugins.counts();
  const std::string text =
      fmt::format("{} of {} plugin{} not applicable so far (--verbose)", counts.inapplicable,
                  counts.asked, counts.asked == 1 ? "" : "s");
  return labelled({"", Tone::plain}, text, look, Tone::quiet);
}

// "33 asked: 8 tried, 2 not tried, 23 not applicable", as `explain` counts them.
Lines plugin_lines(const RunProgress& progress, const Look& look) {
  const PluginCounts counts = progress.plugins.counts();
  if (counts.asked == 0) return {};
  return labelled(label("plugins"), fmt::format("{} asked: {}", counts.asked, counts.text()), look);
}

// What an earlier process of the run has left.
Lines earlier_lines(const RunProgress& progress, const Look& look) {
  if (progress.trials_before == 0 || progress.trial || progress.trials_about > 0) return {};
  std::string text = fmt::format("{} trial{} decided", progress.trials_before,
                                 progress.trials_before == 1 ? "" : "s");
  if (!progress.kept.empty() && !progress.confirmed) {
    text += fmt::format(", {:.2f} x provisional", progress.best_ratio());
  }
  return labelled(label("before"), text, look);
}

std::string best_text(const RunProgress& progress, int columns) {
  std::vector<std::string> parts;
  if (progress.confirmed && progress.confirmed->ratio == 1.0) {
    parts.emplace_back("the starting configuration stays");
  } else if (progress.confirmed) {
    parts = {estimate_text(*progress.confirmed), "confirmed against the start"};
  } else if (!progress.kept.empty()) {
    parts.push_back(fmt::format("{:.2f} x the start, provisional", progress.best_ratio()));
  } else {
    parts = {"the start", rate_text(progress.start_samples_per_second)};
  }
  const double bound_ratio =
      progress.start_samples_per_second > 0.0
          ? progress.upper_bound_samples_per_second / progress.start_samples_per_second
          : 0.0;
  // It is a lower limit, and of the configuration that it was measured with.
  if (bound_ratio > progress.best_ratio()) {
    parts.push_back(fmt::format("upper bound {:.2f} x or more", bound_ratio));
  }
  return joined(parts, columns);
}

// `left` where the line begins and `right` at its end; without `right` where both do not fit.
Line spread(Line left, Span right, const Look& look) {
  const int gap = look.columns - columns_of(left) - columns_of({right});
  if (gap < 2) return left;
  left.push_back({std::string(static_cast<std::size_t>(gap), ' '), Tone::plain});
  left.push_back(std::move(right));
  return left;
}

std::string stage_text(const RunProgress& progress) {
  if (progress.is_stopping) return "stopping";
  if (!progress.waits_for.empty()) return "waiting";
  switch (progress.stage) {
    case Stage::starting:
      return progress.recipe.empty() ? "starting" : "starting " + progress.recipe;
    case Stage::tuning: {
      const auto& trial = progress.trial;
      const int about = progress.trials_about;
      if (!trial) return "tuning";
      if (about == 0) return fmt::format("tuning, trial {}", trial->number);
      return fmt::format("tuning, trial {} of about {}", trial->number,
                         std::max(about, trial->number));
    }
    case Stage::training:
      if (!progress.training || progress.training->epochs_total == 0) return "training";
      return fmt::format("training, epoch {} of {}", progress.training->epoch,
                         progress.training->epochs_total);
    case Stage::ended:
      return {};
  }
  return {};
}

// A different one every quarter of a second: somebody looks whether anything still moves.
Span spinner_at(std::chrono::nanoseconds elapsed) {
  static constexpr std::array kFrames = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
  const auto quarters = elapsed / std::chrono::milliseconds(250);
  return {kFrames.at(static_cast<std::size_t>(quarters) % kFrames.size()), Tone::good};
}

void add_budget(Lines& lines, const RunProgress& progress, std::chrono::nanoseconds now,
                const Look& look) {
  if (!progress.budget || progress.stage != Stage::tuning) return;
  const std::chrono::nanoseconds spent = progress.spent(now);
  const std::chrono::nanoseconds left = *progress.budget - spent;
  std::string text = format_duration(spent) + " used";
  if (progress.budget->count() == 0) {
    text = "none, " + text;
  } else if (left.count() > 0) {
    text += ", " + format_duration(left) + " left";
  } else {
    text += " of " + format_duration(*progress.budget);
  }
  const int room = look.columns - kLabelColumns - columns_of(text) - 1;
  const double ratio =
      progress.budget->count() > 0
          ? static_cast<double>(spent.count()) / static_cast<double>(progress.budget->count())
          : 1.0;
  // A bar of a few characters says nothing.
  const std::string drawn_bar = room >= 8 ? bar(ratio, std::min(room, 24)) + " " : "";
  lines.push_back(Line{label("budget"), {drawn_bar, Tone::good}, {text, Tone::plain}});
}

void add_trial(Lines& lines, const TrialUnderWay& trial, const Look& look) {
  lines.push_back(Line{label("trying"), {trial.title, Tone::strong}});
  const Estimate& estimate = trial.estimate;
  std::vector<std::string> parts = {"the first blocks run"};
  if (estimate.pairs > 0) {
    const bool has_end = has_interval(estimate);
    parts = {has_end ? estimate_text(estimate) : fmt::format("{:.2f} x", estimate.ratio),
             fmt::format("{} pair{}", estimate.pairs, estimate.pairs == 1 ? "" : "s")};
    if (!has_end) parts.emplace_back("no interval yet");
  }
  if (!trial.checked.empty()) parts = {"checked: " + trial.checked};
  lines.push_back(Line{label(""), {joined(parts, look.columns - kLabelColumns), Tone::plain}});
}

void add_training(Lines& lines, const TrainingUnderWay& training, std::chrono::nanoseconds now,
                  const Look& look) {
  const int columns = look.columns - kLabelColumns;
  const std::string text =
      fmt::format("{:.0f} %{}", 100 * training.done_ratio(), left_text(training, now));
  const int room = columns - columns_of(text) - 1;
  const std::string drawn_bar =
      room >= 8 ? bar(training.done_ratio(), std::min(room, 24)) + " " : "";
  lines.push_back(Line{label("done"), {drawn_bar, Tone::good}, {text, Tone::plain}});
  lines.push_back({label(""),
                   {joined({fmt::format("step {} of {}", format_count(training.step),
                                        format_count(training.steps_total)),
                            fmt::format("loss {:.4f}", training.loss), training.rate_text()},
                           columns),
                    Tone::plain}});
}

// Its path below `here`, where it is there.
std::string path_text(const std::filesystem::path& path, const std::filesystem::path& here) {
  const std::filesystem::path relative = path.lexically_relative(here);
  const bool is_below = !relative.empty() && !relative.native().starts_with("..");
  return (is_below ? relative : path).string();
}

}  // namespace

Lines lasting_lines(const Json& event, const RunProgress& progress, const Look& look) {
  const std::string name = text_in(event, "event");
  Lines lines = inapplicable_lines(progress, look);
  if (name == "phase" && !look.has_panel) {
    const std::string recipe = text_in(event, "recipe");
    if (recipe.empty()) return {Line{{text_in(event, "phase"), Tone::plain}}};
    return labelled(label(text_in(event, "phase")), recipe, look);
  }
  if (name == "run") {
    return labelled({flag_in(event, "is_continued") ? "continuing " : "run ", Tone::strong},
                    fmt::format("{} of {} on {}{}", text_in(event, "run"), text_in(event, "recipe"),
                                text_in(event, "device"), told_ranks(event)),
                    look);
  }
  if (name == "waiting")
    return labelled({"waiting: ", Tone::doubtful}, text_in(event, "for"), look);
  if (name == "baseline") {
    return labelled(label("start"), told_rate(event), look);
  }
  if (name == "ceiling") return upper_bound_lines(event, progress, look);
  if (name == "tuning") return earlier_lines(progress, look);
  if (name == "profiled") return finding_lines(event, look);
  if (name == "answered") return answer_lines(event, progress, look);
  if (name == "trial_finished") {
    return finished_trial_lines(member(event, "trial"), progress, look);
  }
  if (name == "tuned") {
    add(lines, tuned_lines(event, look));
    add(lines, plugin_lines(progress, look));
  }
  if (name == "damaged") return damage_lines(event, progress, look);
  if (name == "training") return training_lines(member(event, "progress"), progress, look);
  if (name == "machine") {
    return labelled(label("machine"), text_in(event, "subject") + ": " + text_in(event, "text"),
                    look);
  }
  if (name == "note") return labelled(label("note"), text_in(event, "text"), look);
  if (name == "cancelling") {
    return labelled({"", Tone::plain},
                    "stopping; once more to end at once. The same command continues the run", look,
                    Tone::doubtful);
  }
  if (name == "warning" || name == "error") {
    return labelled({name + ": ", name == "error" ? Tone::bad : Tone::doubtful},
                    text_in(event, "text"), look);
  }
  return lines;
}

Lines panel_lines(const RunProgress& progress, std::chrono::nanoseconds now, const Look& look) {
  if (progress.stage == Stage::ended) return {};
  const std::chrono::nanoseconds elapsed = now - progress.started;
  Lines lines = {spread({spinner_at(elapsed), {" " + stage_text(progress), Tone::strong}},
                        {format_duration(elapsed), Tone::quiet}, look)};
  if (!progress.waits_for.empty()) {
    lines.push_back(Line{label("for"), {progress.waits_for, Tone::plain}});
  } else if (progress.trial) {
    add_trial(lines, *progress.trial, look);
  } else if (progress.training) {
    add_training(lines, *progress.training, now, look);
  } else if (!progress.doing.empty()) {
    lines.push_back(Line{label("now"), {progress.doing, Tone::plain}});
  }
  add_budget(lines, progress, now, look);
  if (progress.start_samples_per_second > 0.0) {
    const Tone tone = progress.confirmed      ? Tone::good
                      : progress.kept.empty() ? Tone::plain
                                              : Tone::doubtful;
    lines.push_back(Line{label("best"), {best_text(progress, look.columns - kLabelColumns), tone}});
  }
  const char* const hint = progress.is_only_watched ? "Ctrl-C leaves; the run goes on"
                           : progress.is_stopping   ? "Ctrl-C ends it at once"
                                                    : "Ctrl-C stops; the same command goes on";
  lines.push_back(Line{{hint, Tone::quiet}});
  return lines;
}

Lines card_lines(const Json& result, const std::string& text, const std::filesystem::path& here,
                 const Look& look) {
  constexpr std::size_t kSummaryLabel = 9;  // of summary_text()
  const auto wide = [](std::string_view name) {
    Span span = label(name);
    span.text.resize(kSummaryLabel, ' ');
    return span;
  };
  const std::string run = text_in(result, "run");
  const std::string state = text_in(result, "state");
  Lines lines(1);  // an empty one
  if (state != "finished" && !run.empty()) {
    add(lines, labelled(wide("run"), run + ", " + state, look));
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.size() <= kSummaryLabel) continue;
    const std::string_view name = line.substr(0, kSummaryLabel);
    const bool is_speedup = name.starts_with("faster");
    const bool is_problem = name.starts_with("error") || name.starts_with("slow");
    const Tone tone = is_speedup ? Tone::good : is_problem ? Tone::bad : Tone::plain;
    add(lines, labelled({std::string(name), Tone::quiet}, line.substr(kSummaryLabel), look, tone));
  }
  const std::filesystem::path output = text_in(result, "output");
  if (state == "finished" && !output.empty()) {
    // A run with --tune-only has trained nothing.
    if (member(result, "training").contains("steps")) {
      add(lines, labelled(wide("model"), path_text(output / "model.pt", here), look));
    }
    add(lines, labelled(wide("recipe"), path_text(output / "best.yaml", here), look));
  }
  if (!run.empty()) {
    add(lines, labelled(wide("next"), next_commands(result), look, Tone::strong));
  }
  return lines;
}

}  // namespace autotuned::daemon
