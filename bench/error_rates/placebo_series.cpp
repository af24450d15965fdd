// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/placebo_series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>

#include "base/statistics.hpp"
#include "bench/error_rates/exact_bounds.hpp"

namespace autotuned::bench {
namespace {

template <class Test>
int count_of(const std::vector<PlaceboTrial>& trials, const Test& test) {
  return static_cast<int>(std::ranges::count_if(trials, test));
}

template <class Value>
double median_of(const std::vector<PlaceboTrial>& trials, const Value& value) {
  std::vector<double> values;
  for (const PlaceboTrial& trial : trials)
    values.push_back(value(trial));
  return median(std::move(values));
}

std::string share(int events, int trials) {
  if (trials == 0) return "-";
  const Bounds bounds = exact_bounds(events, trials);
  return fmt::format("{} ({:.1f} %; {:.1f} to {:.1f} %)", events, 100.0 * events / trials,
                     100.0 * bounds.low, 100.0 * bounds.high);
}

std::string row(const std::vector<PlaceboTrial>& all, double seconds_limit) {
  const PlaceboTrial& sort = all.front();
  // One that failed says nothing about the ratio.
  std::vector<PlaceboTrial> measured = all;
  std::erase_if(measured, [](const PlaceboTrial& trial) { return trial.verdict == "failed"; });
  const int trials = static_cast<int>(measured.size());
  const double truth = 1.0 + sort.gain_ratio;
  const auto is_accepted = [&](const PlaceboTrial& trial) {
    return trial.verdict == "accepted" &&
           (sort.gain_ratio == 0.0 || trial.seconds <= seconds_limit);
  };
  const auto is_below = [&](const PlaceboTrial& trial) { return trial.high < truth; };
  const auto is_above = [&](const PlaceboTrial& trial) { return trial.low > truth; };
  const double ratio =
      measured.empty() ? 0.0 : median_of(measured, [](const auto& trial) { return trial.ratio; });
  return fmt::format(
      "| {} | {} | {:+.0f} % | {} | {} | {} | {} | {} | {} | {:.3f} | {:.1f} s | {:.0f} % | {:.0f} "
      "% |\n",
      sort.recipe, sort.kind, 100.0 * sort.gain_ratio, sort.disturbers, trials,
      all.size() - measured.size(), share(count_of(measured, is_accepted), trials),
      share(count_of(measured, is_below), trials), share(count_of(measured, is_above), trials),
      ratio, median_of(all, [](const auto& trial) { return trial.seconds; }),
      100.0 * median_of(all, [](const auto& trial) { return trial.others_ratio; }),
      100.0 * median_of(all, [](const auto& trial) { return trial.stolen_ratio; }));
}

}  // namespace

Json to_json(const PlaceboTrial& trial) {
  return {{"recipe", trial.recipe},
          {"kind", trial.kind},
          {"gain_ratio", trial.gain_ratio},
          {"disturbers", trial.disturbers},
          {"verdict", trial.verdict},
          {"reason", trial.reason},
          {"ratio", trial.ratio},
          {"low", trial.low},
          {"high", trial.high},
          {"pairs", trial.pairs},
          {"seconds", trial.seconds},
          {"others_ratio", trial.others_ratio},
          {"stolen_ratio", trial.stolen_ratio}};
}

Result<PlaceboTrial> placebo_trial_from(const Json& value) {
  PlaceboTrial trial;
  for (const auto& [name, field] :
       {std::pair{"recipe", &trial.recipe}, std::pair{"kind", &trial.kind},
        std::pair{"verdict", &trial.verdict}, std::pair{"reason", &trial.reason}}) {
    auto text = get_string(value, name);
    if (!text) return tl::unexpected(text.error());
    *field = *std::move(text);
  }
  for (const auto& [name, field] :
       {std::pair{"gain_ratio", &trial.gain_ratio}, std::pair{"ratio", &trial.ratio},
        std::pair{"low", &trial.low}, std::pair{"high", &trial.high},
        std::pair{"seconds", &trial.seconds}, std::pair{"others_ratio", &trial.others_ratio},
        std::pair{"stolen_ratio", &trial.stolen_ratio}}) {
    auto number = get_number(value, name);
    if (!number) return tl::unexpected(number.error());
    *field = *number;
  }
  for (const auto& [name, field] :
       {std::pair{"disturbers", &trial.disturbers}, std::pair{"pairs", &trial.pairs}}) {
    auto number = get_integer(value, name);
    if (!number) return tl::unexpected(number.error());
    *field = static_cast<int>(*number);
  }
  return trial;
}

Result<std::vector<PlaceboTrial>> read_placebo_trials(const std::filesystem::path& file) {
  std::vector<PlaceboTrial> trials;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    auto value = parse_json(line, file.string());
    if (!value) return tl::unexpected(value.error());
    auto trial = placebo_trial_from(*value);
    if (!trial) return tl::unexpected(trial.error());
    trials.push_back(*std::move(trial));
  }
  return trials;
}

Result<void> append_placebo_trial(const std::filesystem::path& file, const PlaceboTrial& trial) {
  std::ofstream stream(file, std::ios::app);
  stream << to_json(trial).dump() << "\n" << std::flush;
  if (!stream) return fail(ErrorKind::internal, file.string() + " cannot be written");
  return {};
}

std::string placebo_table(const std::vector<PlaceboTrial>& trials, double seconds_limit) {
  std::map<std::tuple<std::string, std::string, double, int>, std::vector<PlaceboTrial>> sorts;
  for (const PlaceboTrial& trial : trials)
    sorts[{trial.recipe, trial.kind, trial.gain_ratio, trial.disturbers}].push_back(trial);
  std::string text = fmt::format(
      "| recipe | knob | true gain | second job's threads | trials | failed | accepted{} | "
      "interval "
      "wholly below the truth | wholly above it | median ratio | time of a trial | CPUs used by "
      "others | stolen |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      seconds_limit > 0.0 ? fmt::format(" (a gain: within {:.0f} s)", seconds_limit) : "");
  for (const auto& [key, all] : sorts)
    text += row(all, seconds_limit);
  return text;
}

}  // namespace autotuned::bench
