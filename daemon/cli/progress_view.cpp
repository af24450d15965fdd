// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/progress_view.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/configuration.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

namespace {

constexpr auto kTrainingLineEvery = std::chrono::seconds(10);

std::string text_of(const Json& object, const char* field) {
  return get_string(object, field).value_or("");
}

double number_of(const Json& object, const char* field) {
  return get_number(object, field).value_or(0.0);
}

// "loader.workers 0 → 2".
std::string change_of(const Json& trial) {
  const auto change = Configuration::from_json(member(trial, "change"));
  const auto reference = Configuration::from_json(member(trial, "reference"));
  if (!change || !reference) return "?";
  return change_text(*reference, *change);
}

int columns_of(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// Cut to `columns` characters: a status line that wraps cannot be rewritten.
std::string cut(const std::string& text, int columns) {
  std::size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (starts_character && used++ >= columns) break;
  }
  return text.substr(0, end);
}

}  // namespace

ProgressView::ProgressView(std::FILE* out, bool is_live) : out_(out), is_live_(is_live) {}

ProgressView::~ProgressView() {
  clear_status();
}

void ProgressView::clear_status() {
  if (!has_status_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  has_status_ = false;
}

void ProgressView::line(const std::string& text) {
  clear_status();
  // A trainer's last words have several lines.
  std::fputs((printable_lines(text) + "\n").c_str(), out_);
  std::fflush(out_);
}

void ProgressView::status(const std::string& text) {
  if (!is_live_) return;
  std::fputs(("\r\x1b[K" + cut(printable(text), columns_of(out_) - 1)).c_str(), out_);
  std::fflush(out_);
  has_status_ = true;
}

void ProgressView::show(const Json& event) {
  const std::string name = text_of(event, "event");
  if (name == "run") {
    const bool is_continued = get_bool(event, "is_continued").value_or(false);
    line(fmt::format("{} {} of {} on {}", is_continued ? "continuing" : "run",
                     text_of(event, "run"), text_of(event, "recipe"), text_of(event, "device")));
    status("measuring the starting configuration ...");
  } else if (name == "waiting") {
    line("waiting: " + text_of(event, "for"));
  } else if (name == "phase") {
    status(text_of(event, "phase") + " ...");
  } else if (name == "baseline") {
    line("start      " + rate_text(number_of(event, "samples_per_second")));
  } else if (name == "ceiling") {
    show_ceiling(event);
  } else if (name == "profiled") {
    show_findings(event);
  } else if (name == "asking") {
    status("asking " + text_of(event, "plugin") + " ...");
  } else if (name == "answered") {
    const std::string outcome = text_of(event, "outcome");
    const bool is_failure = get_bool(event, "is_failure").value_or(false);
    std::string& last = outcomes_[text_of(event, "plugin")];
    if (outcome.empty() || outcome == last) return;
    last = outcome;
    line(fmt::format("{:<10} {}: {}", is_failure ? "left out" : "nothing", text_of(event, "plugin"),
                     outcome));
  } else if (name == "trial_started") {
    show_trial_started(member(event, "trial"));
  } else if (name == "block") {
    show_block(event);
  } else if (name == "checked") {
    status("checking   " + trial_ + ": " + text_of(event, "detail"));
  } else if (name == "trial_finished") {
    show_trial_finished(member(event, "trial"));
  } else if (name == "tuned") {
    line(fmt::format("tuned      {:.2f} x ({:.2f} to {:.2f}): {}", number_of(event, "speedup"),
                     number_of(event, "speedup_low"), number_of(event, "speedup_high"),
                     text_of(event, "change")));
    if (member(event, "is_budget_spent") == true) {
      line(member(event, "is_complete") == true
               ? "           the budget did not suffice for a second look at what was close; "
                 "--budget gives more"
               : "           the budget did not suffice for every proposal: the next run goes on, "
                 "and --budget "
                 "gives it more");
    }
  } else if (name == "damaged") {
    line(fmt::format("skipped    {}: {} ({} so far)", text_of(event, "file"),
                     text_of(event, "what"), get_integer(event, "files").value_or(0)));
  } else if (name == "training") {
    show_training(member(event, "progress"));
  } else if (name == "machine") {
    line(fmt::format("machine    {}: {}", text_of(event, "subject"), text_of(event, "text")));
  } else if (name == "note") {
    line("note       " + text_of(event, "text"));
  } else if (name == "cancelling") {
    line("stopping; once more to end at once");
  } else if (name == "warning" || name == "error") {
    line(name + ": " + text_of(event, "text"));
  }
}

// Of the ladder what the job reaches of each rung: the rates are in the report.
void ProgressView::show_ceiling(const Json& event) {
  line(fmt::format("ceiling    at least {}, bound by {}",
                   rate_text(number_of(event, "samples_per_second")), text_of(event, "bound_by")));
  const std::string reached = ladder_text(member(event, "ladder"));
  if (!reached.empty()) line("           reached of it, at most: " + reached);
}

// The first of them; `explain` tells the rest.
void ProgressView::show_findings(const Json& event) {
  constexpr std::size_t kShown = 2;
  const Json& findings = member(event, "findings");
  if (!findings.is_array() || findings.empty()) return;
  const bool is_start = get_bool(event, "is_start").value_or(true);
  for (std::size_t i = 0; i < std::min(kShown, findings.size()); ++i) {
    line(fmt::format("{:<10} {}: {}",
                     i > 0      ? ""
                     : is_start ? "found"
                                : "left",
                     printable(text_of(findings[i], "id")),
                     printable(text_of(findings[i], "evidence"))));
  }
  if (findings.size() > kShown) {
    line(
        fmt::format("           and {} more: `autotuned explain` tells", findings.size() - kShown));
  }
}

void ProgressView::show_trial_started(const Json& trial) {
  const std::string kind = text_of(trial, "kind");
  trial_ = (kind == "proposal" ? text_of(trial, "plugin") : kind) + ": " + change_of(trial);
  status("trying     " + trial_);
}

void ProgressView::show_block(const Json& event) {
  const auto pairs = get_integer(event, "pairs").value_or(0);
  if (pairs == 0) return;
  status(fmt::format("trying     {}  {} after {} pairs", trial_,
                     format_gain(number_of(event, "ratio")), pairs));
}

void ProgressView::show_trial_finished(const Json& trial) {
  const Estimate estimate{.ratio = number_of(trial, "ratio"),
                          .low = number_of(trial, "ratio_low"),
                          .high = number_of(trial, "ratio_high"),
                          .pairs = static_cast<int>(get_integer(trial, "pairs").value_or(0))};
  const std::string figures = estimate.pairs > 0 ? ", " + estimate_text(estimate) : "";
  const bool is_provisional =
      text_of(trial, "verdict") == "accepted" && text_of(trial, "kind") == "proposal";
  line(fmt::format("{:<10} {}{}{}", text_of(trial, "verdict"), trial_, figures,
                   is_provisional ? ", to be confirmed" : ""));
  const std::string reason = text_of(trial, "reason");
  if (!reason.empty() && text_of(trial, "verdict") != "accepted") line("           " + reason);
}

void ProgressView::show_training(const Json& progress) {
  if (const Json& evaluation = member(progress, "evaluation"); evaluation.is_object()) {
    line(fmt::format("epoch {:<4} accuracy {:.2f} %, test loss {:.4f}",
                     get_integer(evaluation, "epoch").value_or(0),
                     number_of(evaluation, "accuracy") * 100, number_of(evaluation, "loss")));
    return;
  }
  if (member(progress, "checkpoint").is_object()) {
    status("checkpoint written");
    return;
  }
  const double done = number_of(progress, "samples");
  const double total = std::max(number_of(progress, "samples_total"), 1.0);
  const double speed = number_of(progress, "samples_per_second");
  // A trainer may say anything; a century is long enough.
  const double left_seconds = speed > 0 ? std::clamp((total - done) / speed, 0.0, 3e9) : 0.0;
  const auto left = std::chrono::nanoseconds(static_cast<std::int64_t>(left_seconds * 1e9));
  const std::string text =
      fmt::format("training   {:3.0f} %, step {}, loss {:.4f}, {}, {} left", 100 * done / total,
                  format_count(get_integer(progress, "step").value_or(0)),
                  number_of(progress, "loss"), rate_text(speed), format_duration(left));
  status(text);
  const auto now = std::chrono::steady_clock::now();
  if (!is_live_ && now - last_training_line_ >= kTrainingLineEvery) {
    last_training_line_ = now;
    line(text);
  }
}

}  // namespace autotuned::daemon
