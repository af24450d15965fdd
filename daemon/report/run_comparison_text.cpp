// SPDX-License-Identifier: Apache-2.0
// A comparison as a person reads it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_comparison.hpp"
#include "daemon/report/script_report.hpp"
#include "profiler/metrics.hpp"

namespace autotuned::daemon {

namespace {

using profiler::MetricKind;
using std::chrono::nanoseconds;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kMissing = "-";

// Knob names have dots of their own, so this is the value under a difference, not a path.
std::string value_text(const Json& value) {
  if (value.is_null()) return kMissing;
  if (auto knob = knob_value_from(value)) return to_text(*knob);
  return to_line(value);
}

// "tune.budget", "90s" and "10min", as a recipe has them, of the field "tune.budget_ns".
std::vector<std::string> difference_row(const Difference& difference) {
  constexpr std::string_view kNs = "_ns";
  const auto is_time = [](const Json& value) {
    return value.is_null() || value.is_number_integer();
  };
  if (!difference.field.ends_with(kNs) || !is_time(difference.a) || !is_time(difference.b)) {
    return {difference.field, value_text(difference.a), value_text(difference.b)};
  }
  const auto shown = [](const Json& value) {
    return value.is_null() ? std::string(kMissing)
                           : format_exact_duration(nanoseconds(value.get<std::int64_t>()));
  };
  return {difference.field.substr(0, difference.field.size() - kNs.size()), shown(difference.a),
          shown(difference.b)};
}

std::string differences_text(const std::string& subject,
                             const std::vector<Difference>& differences) {
  if (differences.empty()) return "\n" + subject + ": the same\n";
  Rows rows = {{subject, "A", "B"}};
  for (const Difference& difference : differences)
    rows.push_back(difference_row(difference));
  return "\n" + table_text(rows);
}

// Those that blocks tell carry their unit in the name, like the others.
MetricKind kind_of(const std::string& name) {
  for (const profiler::MetricDefinition& definition : profiler::metric_definitions()) {
    if (name == definition.name) return definition.kind;
  }
  if (name.ends_with("_ratio")) return MetricKind::ratio;
  if (name.ends_with("_bytes")) return MetricKind::size;
  if (name.find("_ns") != std::string::npos) return MetricKind::duration;
  return MetricKind::count;
}

std::string number_text(MetricKind kind, double value) {
  switch (kind) {
    case MetricKind::duration:
      return format_span(value);
    case MetricKind::ratio:
      return fmt::format("{:.1f} %", value * 100);
    case MetricKind::size:
      return format_bytes(static_cast<std::int64_t>(value));
    case MetricKind::count:
    case MetricKind::rate:
      break;
  }
  return format_count(static_cast<std::int64_t>(value + 0.5));
}

std::string difference_text(MetricKind kind, double a, double b) {
  if (kind == MetricKind::ratio) return fmt::format("{:+.1f} points", (b - a) * 100);
  return a > 0.0 ? format_gain(b / a) : std::string(kMissing);
}

// Compares the numbers that both sides have.
std::string numbers_text(const std::string& subject, const Json& a, const Json& b,
                         const std::function<MetricKind(const std::string&)>& kind_of_name,
                         bool is_comparable) {
  Rows rows = {{subject, "A", "B", is_comparable ? "difference" : ""}};
  for (const auto& item : a.items()) {
    const auto in_a = get_number(a, item.key().c_str());
    const auto in_b = get_number(b, item.key().c_str());
    if (!in_a || !in_b) continue;
    const MetricKind kind = kind_of_name(item.key());
    rows.push_back({item.key(), number_text(kind, *in_a), number_text(kind, *in_b),
                    is_comparable ? difference_text(kind, *in_a, *in_b) : std::string()});
  }
  return rows.size() == 1 ? std::string() : "\n" + table_text(rows);
}

std::string gain_of(const ComparedSide& side) {
  return speedup_text(side.estimate, side.lacks_confirmation);
}

std::string rates_text(const ComparedSide& a, const ComparedSide& b) {
  const std::string different = different_jobs_text(a, b);
  const auto rate = [](double value, const ComparedSide& side) {
    return value > 0.0 ? rate_text(value, side.unit) : std::string(kMissing);
  };
  const auto quotient = [&different](double of_a, double of_b) {
    const bool has_meaning = different.empty() && of_a > 0.0 && of_b > 0.0;
    return has_meaning ? fmt::format("{:.3f}", of_b / of_a) : std::string(kMissing);
  };
  return "\n" +
         table_text({{"rates", "A", "B", "B / A"},
                     {"its own", rate(a.samples_per_second, a), rate(b.samples_per_second, b),
                      quotient(a.samples_per_second, b.samples_per_second)},
                     {"its reference", rate(a.reference_samples_per_second, a),
                      rate(b.reference_samples_per_second, b),
                      quotient(a.reference_samples_per_second, b.reference_samples_per_second)},
                     {"side by side", gain_of(a), gain_of(b), ""}}) +
         (different.empty()
              ? std::string("A and B were not measured side by side: the machine may have been "
                            "faster for one of them.\n")
              : "A and B are different jobs: " + different +
                    ". A ratio of their rates says nothing.\n") +
         "Only the last line compares, for each, two rates of the same minutes.\n";
}

std::string checks_text(const std::string& name, const std::vector<CheckRecord>& checks) {
  std::string text;
  for (const CheckRecord& check : checks) {
    text += fmt::format("{}: {} check {}: {}\n", name, check.risk,
                        check.passed ? "passed" : "failed", check.detail);
  }
  return text.empty() ? name + ": no checks\n" : text;
}

std::string notes_text(const ComparedSide& a, const ComparedSide& b) {
  std::string text;
  for (const ComparedSide* side : {&a, &b}) {
    if (const std::string note = stand_in_note(side->recipe); !note.empty()) {
      text += side->name + ": " + note + "\n";
    }
    if (!side->left_out.empty()) {
      text += side->name + ": its rate and its ratio were " + side->left_out + "\n";
    }
  }
  return text;
}

// What the two are runs of.
const char* job_word(const ComparedSide& a, const ComparedSide& b) {
  const bool is_of_script = is_script(a.recipe);
  if (is_of_script != is_script(b.recipe)) return "job";
  return is_of_script ? "script" : "recipe";
}

// "knob batch_size 32 → 128", those that people change first.
std::vector<std::string> changes_between(const ComparedSide& a, const ComparedSide& b) {
  std::vector<std::string> changes;
  const auto add = [&changes](const char* subject, const std::vector<Difference>& differences) {
    for (const Difference& difference : differences) {
      const std::vector<std::string> row = difference_row(difference);
      changes.push_back(fmt::format("{} {} {} → {}", subject, row[0], row[1], row[2]));
    }
  };
  add("knob", differences_between(a.configuration.to_json(), b.configuration.to_json()));
  add(job_word(a, b), recipe_differences(a, b));
  add("machine", differences_between(a.environment, b.environment));
  return changes;
}

// The first few, and how many more there are.
std::string changed_text(const ComparedSide& a, const ComparedSide& b) {
  constexpr std::size_t kShown = 6;
  const std::vector<std::string> changes = changes_between(a, b);
  if (changes.empty()) {
    return fmt::format("nothing: machine, {} and knobs are the same", job_word(a, b));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), kShown); ++i)
    text += (i > 0 ? "; " : "") + changes[i];
  if (changes.size() > kShown) {
    text += fmt::format("; and {} more (--all)", changes.size() - kShown);
  }
  return text;
}

}  // namespace

std::string comparison_summary(const ComparedSide& a, const ComparedSide& b) {
  const bool has_rates = a.samples_per_second > 0.0 && b.samples_per_second > 0.0;
  const std::string different = different_jobs_text(a, b);
  const std::string rates =
      has_rates && !different.empty()
          ? fmt::format("{} and {}: not compared, since A and B are different jobs: {}",
                        rate_text(a.samples_per_second, a.unit),
                        rate_text(b.samples_per_second, b.unit), different)
      : has_rates ? fmt::format("{} → {}: {:.3f} x, not measured side by side",
                                rate_text(a.samples_per_second, a.unit),
                                rate_text(b.samples_per_second, b.unit),
                                b.samples_per_second / a.samples_per_second)
                  : std::string("not measured for both");
  return fmt::format(
             "A        {}: {}\nB        {}: {}\nchanged  {}\nrates    {}\n"
             "gains    A {}, B {}: each side by side with its own reference\n",
             a.name, a.what, b.name, b.what, changed_text(a, b), rates, gain_of(a), gain_of(b)) +
         notes_text(a, b);
}

std::string comparison_text(const ComparedSide& a, const ComparedSide& b) {
  std::string text = table_text({{"A", a.name, a.what}, {"B", b.name, b.what}}) + notes_text(a, b);
  text += differences_text("environment", differences_between(a.environment, b.environment));
  text += differences_text(job_word(a, b), recipe_differences(a, b));
  text += differences_text(
      "knob", differences_between(a.configuration.to_json(), b.configuration.to_json()));
  text += rates_text(a, b);
  const bool is_comparable = different_jobs_text(a, b).empty();
  text += numbers_text(
      "span, mean of a step", a.spans, b.spans,
      [](const std::string&) { return MetricKind::duration; }, is_comparable);
  text += numbers_text("metric", a.metrics, b.metrics, kind_of, is_comparable);
  for (const ComparedSide* side : {&a, &b}) {
    if (side->spans.empty()) text += "\n" + side->name + " was not profiled.\n";
  }
  return text + "\n" + checks_text("A", a.checks) + checks_text("B", b.checks);
}

}  // namespace autotuned::daemon
