// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/run_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/trial.hpp"
#include "daemon/report/characters.hpp"
#include "daemon/report/rank_report.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/test_report.hpp"
#include "daemon/report/token_report.hpp"
#include "daemon/report/tuning_time.hpp"
#include "daemon/screen/finding_lines.hpp"
#include "daemon/screen/trial_lines.hpp"

namespace autotuned::daemon {

namespace {

// How many unreadable files are named.
constexpr std::int64_t kMaxDamagedNamed = 3;
// An upper bound that is as good as reached says nothing.
constexpr double kMinAbove = 0.01;

using Lines = std::vector<Line>;

// Few lines: nobody waits for each of them, and a log of many runs stays short.
bool is_brief(const LineStyle& style) {
  return !style.has_panel && !style.is_verbose;
}

// The lower rungs of the ladder only for those who want to know everything.
Lines upper_bound_lines(const Json& event, const RunProgress& progress, const LineStyle& style) {
  // Later upper bounds are shown in the panel, and the last one on the card.
  if (progress.upper_bounds > 1 && !style.is_verbose) return {};
  Lines lines = labelled(
      label("ceiling"),
      fmt::format("at least {}, bound by {}", rate_text(number_in(event, "samples_per_second")),
                  text_in(event, "bound_by")),
      style);
  const std::string bounds = ladder_text(member(event, "ladder"));
  if (style.is_verbose && !bounds.empty()) append(lines, labelled(label("bounds"), bounds, style));
  return lines;
}

Lines answer_lines(const Json& event, const RunProgress& progress, const LineStyle& style) {
  const bool is_failure = flag_in(event, "is_failure");
  if (!progress.said.answer || (!is_failure && !style.is_verbose)) return {};
  return labelled(is_failure ? label("left out", Tone::bad) : label("nothing"),
                  text_in(event, "plugin") + ": " + text_in(event, "outcome"), style);
}

Lines tuned_lines(const Json& event, const LineStyle& style) {
  const std::string change = text_in(event, "change");
  const std::string shortage = text_in(event, kShortage);
  const bool is_kept = change != "nothing";
  if (member(event, "is_searched") == false || (!shortage.empty() && !is_kept)) {
    const char* const none = "the budget is 0, so the job trains with its starting configuration";
    const std::string why = shortage.empty() ? none : shortage;
    return labelled(label("tuned", Tone::strong), "nothing: " + why, style);
  }
  const Estimate estimate{.ratio = number_in(event, "speedup"),
                          .low = number_in(event, "speedup_low"),
                          .high = number_in(event, "speedup_high"),
                          .pairs = 1};
  Lines lines = labelled(label("tuned", estimate.low > 1.0 ? Tone::good : Tone::strong),
                         is_kept ? estimate_text(estimate) + ": " + change
                                 : "nothing faster: the starting configuration stays",
                         style);
  std::string left;
  if (!shortage.empty()) {
    left = "nothing new was tried: " + shortage;
  } else if (flag_in(event, "is_budget_spent")) {
    // A gain may be left undecided, though every proposal was tried.
    const bool is_tried = event.contains("untried") ? integer_in(event, "untried") == 0
                                                    : flag_in(event, "is_complete");
    left = is_tried ? kNoSecondLook
                    : "the budget did not suffice for every proposal: the "
                      "next run goes on, and --budget gives it more";
  }
  if (!left.empty()) append(lines, labelled(label(""), left, style));
  const std::string taken = searched_by_text(event);
  if (!taken.empty()) append(lines, labelled(label(""), taken, style));
  return lines;
}

// ", 5.2 s left", until none is.
std::string left_text(const TrainingUnderWay& training, std::chrono::nanoseconds now) {
  const std::chrono::nanoseconds left = training.left(now);
  return left.count() > 0 ? ", " + format_duration(left) + " left" : std::string();
}

std::string training_text(const TrainingUnderWay& training, std::chrono::nanoseconds now) {
  return fmt::format("{:3.0f} %, step {}, {}, {}{}", 100 * training.done_ratio(),
                     format_count(training.step), loss_text(training.loss), training.rate_text(),
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

Lines training_lines(const Json& told, const RunProgress& progress, const LineStyle& style) {
  if (const Json& evaluation = member(told, "evaluation"); evaluation.is_object()) {
    if (!progress.said.evaluation && !style.is_verbose) return {};
    return labelled(
        label(fmt::format("epoch {}", integer_in(evaluation, "epoch"))),
        fmt::format("{}test {}{}", figures_text(evaluation), loss_text(loss_in(evaluation)),
                    flag_in(evaluation, "is_best") ? ", the best so far" : ""),
        style);
  }
  if (style.has_panel || !progress.said.training || !progress.training) return {};
  const TrainingUnderWay& training = *progress.training;
  return labelled(label("training"), training_text(training, training.told_at), style);
}

Lines damage_lines(const Json& event, const RunProgress& progress, const LineStyle& style) {
  if (progress.damaged > kMaxDamagedNamed + 1 && !style.is_verbose) return {};
  if (progress.damaged > kMaxDamagedNamed && !style.is_verbose) {
    return labelled(label("skipped"), "and more: the end of the run says how many", style);
  }
  return labelled(label("skipped"),
                  fmt::format("{}: {} ({} so far)", text_in(event, "file"), text_in(event, "what"),
                              progress.damaged),
                  style);
}

// "22 of 33 plugins not applicable so far (--verbose)". Without a panel the count at the end suffices (plugin_lines()).
Lines inapplicable_lines(const RunProgress& progress, const LineStyle& style) {
  if (!progress.said.inapplicable || style.is_verbose || !style.has_panel) return {};
  const PluginCounts counts = progress.plugins.counts();
  const std::string text =
      fmt::format("{} of {} plugin{} not applicable so far (--verbose)", counts.inapplicable,
                  counts.asked, counts.asked == 1 ? "" : "s");
  return labelled({"", Tone::plain}, text, style, Tone::quiet);
}

// "33 asked: 8 tried, 2 not tried, 23 not applicable", as `explain` counts them.
Lines plugin_lines(const RunProgress& progress, const LineStyle& style) {
  const PluginCounts counts = progress.plugins.counts();
  if (counts.asked == 0) return {};
  return labelled(label("plugins"), fmt::format("{} asked: {}", counts.asked, counts.text()),
                  style);
}

// Lines about the trials of an earlier process of the run.
Lines earlier_lines(const RunProgress& progress, const LineStyle& style) {
  if (!progress.said.before) return {};
  std::string text = fmt::format("{} trial{} decided", progress.trials_before,
                                 progress.trials_before == 1 ? "" : "s");
  if (!progress.kept.empty() && !progress.confirmed) {
    text += ", " + format_ratio(progress.best_ratio()) + " x provisional";
  }
  return labelled(label("before"), text, style);
}

std::string best_text(const RunProgress& progress, int columns) {
  std::vector<std::string> parts;
  if (progress.confirmed && progress.confirmed->ratio == 1.0) {
    parts.emplace_back("the starting configuration stays");
  } else if (progress.confirmed) {
    parts = {estimate_text(*progress.confirmed), "confirmed against the start"};
  } else if (!progress.kept.empty()) {
    parts.push_back(format_ratio(progress.best_ratio()) + " x the start, provisional");
  } else {
    parts = {"the start", rate_text(progress.start_samples_per_second)};
  }
  // The bound is a lower limit, as a multiple of the start like the ratio before it.
  const double bound_ratio = progress.best_ratio() * progress.free_input_ratio;
  if (bound_ratio >= progress.best_ratio() + kMinAbove) {
    parts.push_back(fmt::format("upper bound {} x or more", format_ratio(bound_ratio)));
  }
  return joined(parts, columns);
}

// `left` where the line begins and `right` at its end; without `right` where both do not fit.
Line spread(Line left, Span right, const LineStyle& style) {
  const int gap = style.columns - columns_of(left) - columns_of({right});
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
    case Stage::checking:
      return progress.doing;
    case Stage::ended:
      return {};
  }
  return {};
}

// Tenths of a second at least: the panel is not drawn more often, and the first frame comes after some hundred nanoseconds.
std::string elapsed_text(std::chrono::nanoseconds elapsed) {
  if (elapsed >= std::chrono::seconds(1)) return format_duration(elapsed);
  return fmt::format("{:.1f} s", std::chrono::duration<double>(elapsed).count());
}

// A different one every quarter of a second: somebody looks whether anything still moves.
Span spinner_at(std::chrono::nanoseconds elapsed) {
  static constexpr std::array kFrames = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
  const auto quarters = elapsed / std::chrono::milliseconds(250);
  return {kFrames.at(static_cast<std::size_t>(quarters) % kFrames.size()), Tone::good};
}

void add_budget(Lines& lines, const RunProgress& progress, std::chrono::nanoseconds now,
                const LineStyle& style) {
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
  const int room = style.columns - kLabelColumns - columns_of(text) - 1;
  const double ratio =
      progress.budget->count() > 0
          ? static_cast<double>(spent.count()) / static_cast<double>(progress.budget->count())
          : 1.0;
  // A bar of a few characters says nothing.
  const std::string drawn_bar = room >= 8 ? bar(ratio, std::min(room, 24)) + " " : "";
  lines.push_back(Line{label("budget"), {drawn_bar, Tone::good}, {text, Tone::plain}});
}

void add_trial(Lines& lines, const TrialUnderWay& trial, const LineStyle& style) {
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
  lines.push_back(Line{label(""), {joined(parts, style.columns - kLabelColumns), Tone::plain}});
}

void add_training(Lines& lines, const TrainingUnderWay& training, std::chrono::nanoseconds now,
                  const LineStyle& style) {
  const int columns = style.columns - kLabelColumns;
  const std::string text =
      fmt::format("{:.0f} %{}", 100 * training.done_ratio(), left_text(training, now));
  const int room = columns - columns_of(text) - 1;
  const std::string drawn_bar =
      room >= 8 ? bar(training.done_ratio(), std::min(room, 24)) + " " : "";
  lines.push_back(Line{label("done"), {drawn_bar, Tone::good}, {text, Tone::plain}});
  lines.push_back({label(""),
                   {joined({fmt::format("step {} of {}", format_count(training.step),
                                        format_count(training.steps_total)),
                            loss_text(training.loss), training.rate_text()},
                           columns),
                    Tone::plain}});
}

// The first notice of a wait, the later ones with the time so far, and the end of it. The panel shows the time itself.
Lines waiting_lines(const Json& event, const LineStyle& style) {
  const std::chrono::nanoseconds waited(integer_in(event, "waited_ns"));
  const std::string what = text_in(event, "for");
  if (text_in(event, "event") == "waited") {
    return labelled(label("waited"), format_duration(waited) + " for " + what, style);
  }
  if (waited.count() > 0 && style.has_panel) return {};
  const std::string so_far = waited.count() > 0 ? ", " + format_duration(waited) + " so far" : "";
  return labelled({"waiting: ", Tone::doubtful}, what + so_far, style);
}

Lines event_lines(const Json& event, const RunProgress& progress, const LineStyle& style) {
  const std::string name = text_in(event, "event");
  Lines lines = finding_lines(progress, style);
  append(lines, inapplicable_lines(progress, style));
  if (name == "phase" && !style.has_panel) {
    const std::string recipe = text_in(event, "recipe");
    if (recipe.empty()) return {Line{{text_in(event, "phase"), Tone::plain}}};
    return labelled(label(text_in(event, "phase")), recipe, style);
  }
  if (name == "run") {
    return labelled({flag_in(event, "is_continued") ? "continuing " : "run ", Tone::strong},
                    fmt::format("{} of {} on {}{}", text_in(event, "run"), text_in(event, "recipe"),
                                text_in(event, "device"), told_ranks(event)),
                    style);
  }
  if (name == "waiting" || name == "waited") return waiting_lines(event, style);
  if (name == "baseline") {
    return labelled(label("start"), told_rate(event), style);
  }
  if (name == "ceiling") return upper_bound_lines(event, progress, style);
  if (name == "tuning") return earlier_lines(progress, style);
  if (name == "profiled") return left_finding_lines(event, style);
  if (name == "answered") return answer_lines(event, progress, style);
  if (name == "trial_finished") {
    const Json& trial = member(event, "trial");
    if (progress.said.is_rejection && is_brief(style)) return {};
    return finished_trial_lines(trial, progress.said.withdrawn, style);
  }
  if (name == "tuned") {
    append(lines, tuned_lines(event, style));
    append(lines, plugin_lines(progress, style));
  }
  if (name == "damaged") return damage_lines(event, progress, style);
  if (name == "training") return training_lines(member(event, "progress"), progress, style);
  if (name == "machine") {
    return labelled(label("machine"), text_in(event, "subject") + ": " + text_in(event, "text"),
                    style);
  }
  if (name == "note") return labelled(label("note"), text_in(event, "text"), style);
  if (name == "cancelling") {
    const std::string after = progress.has_begun ? ". The same command continues the run" : "";
    return labelled({"", Tone::plain}, "stopping; once more to end at once" + after, style,
                    Tone::doubtful);
  }
  if (name == "warning" || name == "error") {
    return labelled({name + ": ", name == "error" ? Tone::bad : Tone::doubtful},
                    text_in(event, "text"), style);
  }
  return lines;
}

}  // namespace

Lines lasting_lines(const Json& event, const RunProgress& progress, const LineStyle& style) {
  if (!is_brief(style)) return event_lines(event, progress, style);
  Lines lines = rejection_lines(progress.said.rejections, style);
  append(lines, event_lines(event, progress, style));
  return lines;
}

Lines panel_lines(const RunProgress& progress, std::chrono::nanoseconds now,
                  const LineStyle& style) {
  if (progress.stage == Stage::ended) return {};
  const std::chrono::nanoseconds elapsed = now - progress.started;
  Lines lines = {spread({spinner_at(elapsed), {" " + stage_text(progress), Tone::strong}},
                        {elapsed_text(elapsed), Tone::quiet}, style)};
  if (!progress.waits_for.empty()) {
    lines.push_back(Line{label("for"), {progress.waits_for, Tone::plain}});
  } else if (progress.trial) {
    add_trial(lines, *progress.trial, style);
  } else if (progress.training) {
    add_training(lines, *progress.training, now, style);
  } else if (!progress.doing.empty() && progress.stage != Stage::checking) {
    lines.push_back(Line{label("now"), {progress.doing, Tone::plain}});
  }
  add_budget(lines, progress, now, style);
  if (progress.start_samples_per_second > 0.0) {
    const Tone tone = progress.confirmed      ? Tone::good
                      : progress.kept.empty() ? Tone::plain
                                              : Tone::doubtful;
    lines.push_back(
        Line{label("best"), {best_text(progress, style.columns - kLabelColumns), tone}});
  }
  const char* const hint = progress.is_only_watched ? "Ctrl-C leaves; the run goes on"
                           : progress.is_stopping   ? "Ctrl-C ends it at once"
                                                    : "Ctrl-C stops; the same command goes on";
  lines.push_back(Line{{hint, Tone::quiet}});
  return lines;
}

}  // namespace autotuned::daemon
