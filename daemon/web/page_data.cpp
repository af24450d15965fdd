// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/page_data.hpp"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/run_comparison.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/story.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::int64_t kMaxRuns = 500;
// The most pairs of a trial that are shown, so that a page of many trials stays small.
constexpr std::size_t kMaxPairs = 100;
constexpr std::size_t kLongestSentence = 200;

// The members of a run that a row of the table shows.
Json run_row_json(const storage::RunRow& run) {
  Json row = run_summary_json(run);
  row["best"]["change"] = run.best.empty()
                              ? std::string()
                              : change_text(run.starting, run.starting.change_to(run.best));
  row["best"].erase("configuration");
  row["pairs"] = run.speedup.pairs;
  row["left_out"] = run.best.empty() ? std::string() : left_out_text(run);
  row["tuning_seconds"] = std::round(row["tuning_seconds"].get<double>() * 10.0) / 10.0;
  row.erase("training");
  row.erase("output");
  return row;
}

// The ratios of the pairs that have both blocks, in thousandths.
std::vector<std::int64_t> pair_ratios(const std::vector<TrialBlock>& blocks) {
  struct Rates {
    double candidate = 0.0;
    double reference = 0.0;
  };
  std::map<int, Rates> pairs;
  for (const TrialBlock& block : blocks) {
    Rates& rates = pairs[block.pair];
    (block.is_candidate ? rates.candidate : rates.reference) = block.block.samples_per_second();
  }
  std::vector<std::int64_t> ratios;
  for (const auto& [pair, rates] : pairs) {
    if (rates.candidate <= 0.0 || rates.reference <= 0.0 || ratios.size() == kMaxPairs) continue;
    ratios.push_back(std::llround(rates.candidate / rates.reference * 1000.0));
  }
  return ratios;
}

// In the place of the whole reference.
Json changed_knobs(const TrialRecord& trial) {
  Json list = Json::array();
  for (const auto& [name, value] : trial.change.values()) {
    const KnobValue* const before = trial.reference.find(name);
    list.push_back({{"knob", name},
                    {"from", before == nullptr ? std::string() : to_text(*before)},
                    {"to", to_text(value)}});
  }
  return list;
}

void shorten(Json& object, const char* field) {
  if (!object.contains(field) || !object[field].is_string()) return;
  auto& text = object[field].get_ref<std::string&>();
  if (text.size() > kLongestSentence) text = text.substr(0, kLongestSentence) + "…";
}

void round_to(Json& object, const char* field, double steps_per_unit) {
  if (!object.contains(field) || !object[field].is_number_float()) return;
  object[field] = std::round(object[field].get<double>() * steps_per_unit) / steps_per_unit;
}

bool is_nothing(const Json& value) {
  if (value.is_boolean()) return false;
  if (value.is_number()) return value.get<double>() == 0.0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();  // null is empty, too
}

void erase_nothing(Json& object) {
  for (auto item = object.begin(); item != object.end();)
    item = is_nothing(*item) ? object.erase(item) : std::next(item);
}

Result<void> make_small(Json& trial, const TrialRecord& record, const storage::History& history,
                        const RunId& run) {
  const auto blocks = history.blocks({run, record.number});
  if (!blocks) return tl::unexpected(blocks.error());
  trial["pair_ratios"] = pair_ratios(*blocks);
  trial["change"] = changed_knobs(record);
  for (const char* const field : {"id", "reference", "started_unix_ns", "expected_gain_ratio"})
    trial.erase(field);
  for (const char* const field : {"reason", "proposal_reason"})
    shorten(trial, field);
  for (const char* const field : {"ratio", "ratio_low", "ratio_high", "total_ratio", "noise_ratio"})
    round_to(trial, field, 1e4);
  for (const char* const field : {"reference_samples_per_second", "candidate_samples_per_second"})
    round_to(trial, field, 10.0);
  if (trial.contains("checks")) {
    for (Json& check : trial["checks"]) {
      check.erase("parameters");
      check.erase("steps");
      shorten(check, "detail");
    }
  }
  if (trial.contains("outcome")) trial.erase("verdict");
  if (!record.is_given_up) trial.erase("is_given_up");
  erase_nothing(trial);
  return {};
}

}  // namespace

Result<Json> runs_page_json(const storage::History& history) {
  storage::RunFilter filter;
  filter.limit = kMaxRuns + 1;
  auto runs = history.runs(filter);
  if (!runs) return tl::unexpected(runs.error());
  const bool has_more = runs->size() > static_cast<std::size_t>(kMaxRuns);
  if (has_more) runs->pop_back();
  Json list = Json::array();
  Json machines = Json::object();
  for (const storage::RunRow& run : *runs) {
    list.push_back(run_row_json(run));
    if (machines.contains(run.environment_key)) continue;
    const auto environment = history.environment(run.environment_key);
    if (!environment) return tl::unexpected(environment.error());
    machines[run.environment_key] = *environment ? (*environment)->facts : Json::object();
  }
  return Json{{"runs", std::move(list)}, {"has_more", has_more}, {"machines", std::move(machines)}};
}

Result<Json> run_page_json(const storage::History& history, const std::string& name) {
  auto named = find_named_run(history, name);
  if (!named) return tl::unexpected(named.error());
  const auto record = read_run(history, named->run, std::move(named->trials));
  if (!record) return tl::unexpected(record.error());
  Json page = story_json(*record);
  std::map<int, const TrialRecord*> trials;
  for (const TrialRecord& trial : record->trials)
    trials[trial.number] = &trial;
  for (const char* const list : {"trials", "ablation"}) {
    for (Json& trial : page[list]) {
      const auto number = static_cast<int>(get_integer(trial, "number").value_or(0));
      if (auto made = make_small(trial, *trials.at(number), history, record->run.id); !made) {
        return tl::unexpected(made.error());
      }
    }
  }
  page["pairs"] = record->run.speedup.pairs;
  page["left_out"] = record->run.best.empty() ? std::string() : left_out_text(record->run);
  const auto lineage = lineage_of(history, record->run);
  if (!lineage) return tl::unexpected(lineage.error());
  page["lineage"] = lineage_json(*lineage);
  return page;
}

Result<std::string> run_page_text(const storage::History& history, const std::string& name) {
  const auto named = find_named_run(history, name);
  if (!named) return tl::unexpected(named.error());
  const storage::RunRow& run = named->run;
  const char* const job = is_script(run.recipe) ? "script" : "recipe";
  return printable_lines("run      " + run.id.text + "\n" + job + "   " + run.recipe_name +
                         "\nstate    " + state_text(run) + "\n" + summary_text(run, named->trials));
}

Result<Json> comparison_page_json(const storage::History& history, const std::string& a,
                                  const std::string& b) {
  std::vector<ComparedSide> sides;
  for (const std::string& name : {a, b}) {
    auto named = find_named_run(history, name);
    if (!named) return tl::unexpected(named.error());
    auto side = read_side(history, std::move(*named));
    if (!side) return tl::unexpected(side.error());
    sides.push_back(*std::move(side));
  }
  return comparison_json(sides[0], sides[1]);
}

}  // namespace autotuned::daemon
