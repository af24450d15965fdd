// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/lineage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/token_report.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {
namespace {

using storage::RunRow;

// "20 epochs": the whole length that a run trains to. "7 of 20 epochs": evaluate.patience has ended it before.
std::string length_text(const RunRow& run) {
  const Json plan = parse_json(run.plan, "plan").value_or(Json::object());
  const auto planned = get_integer(plan, "epochs");
  const auto trained = get_integer(run.training, "epochs");
  if (planned && trained && *trained < *planned) {
    return format_count(*trained) + " of " + format_count(*planned) + " epochs";
  }
  for (const char* unit : {"epochs", "steps"}) {
    if (const auto count = get_integer(plan, unit)) return format_count(*count) + " " + unit;
  }
  return "not known";
}

std::string steps_text(const RunRow& run) {
  const auto steps = get_integer(run.training, "steps");
  return steps ? format_count(*steps) : "-";
}

}  // namespace

std::string extended_run(const RunRow& run) {
  const Json plan = parse_json(run.plan, "plan").value_or(Json::object());
  return get_string(plan, "extends").value_or("");
}

Result<std::vector<RunRow>> runs_before(const storage::History& history, const RunRow& run) {
  std::vector<RunRow> before;
  std::set<std::string> seen = {run.id.text};
  std::string id = extended_run(run);
  while (!id.empty() && seen.insert(id).second) {
    auto found = history.run(id);
    if (!found && found.error().kind == ErrorKind::not_found) break;
    if (!found) return tl::unexpected(found.error());
    id = extended_run(*found);
    before.insert(before.begin(), *std::move(found));
  }
  return before;
}

std::vector<std::string> ids_before(const std::vector<RunRow>& before, const RunRow& run) {
  std::vector<std::string> ids;
  const auto add = [&ids](const RunRow& one) {
    if (std::string id = extended_run(one); !id.empty()) ids.push_back(std::move(id));
  };
  std::ranges::for_each(before, add);
  add(run);
  return ids;
}

Result<std::vector<RunRow>> lineage_of(const storage::History& history, const RunRow& run) {
  auto lineage = runs_before(history, run);
  if (!lineage) return lineage;
  auto runs = history.runs({.recipe = run.recipe_hash,
                            .environment = {},
                            .plugin = {},
                            .verdict = {},
                            .since_unix_ns = {},
                            .limit = -1});
  if (!runs) return tl::unexpected(runs.error());
  lineage->push_back(run);
  // The newest come first.
  const auto next_of = [&runs](const std::string& id) {
    return std::ranges::find_if(*runs, [&id](const RunRow& later) {
      return later.state != storage::RunState::failed && extended_run(later) == id;
    });
  };
  for (auto next = next_of(run.id.text); next != runs->end();
       next = next_of(lineage->back().id.text)) {
    const bool is_known = std::ranges::any_of(
        *lineage, [&next](const RunRow& known) { return known.id.text == next->id.text; });
    if (is_known) break;
    lineage->push_back(*next);
  }
  return lineage;
}

Json lineage_json(const std::vector<RunRow>& lineage) {
  Json list = Json::array();
  if (lineage.size() < 2) return list;
  for (const RunRow& run : lineage) {
    const auto steps = get_integer(run.training, "steps");
    list.push_back({{"run", run.id.text},
                    {"length", length_text(run)},
                    {"steps", steps ? Json(*steps) : Json()},
                    {"state", storage::to_string(run.state)},
                    {"is_interrupted", run.is_interrupted}});
  }
  return list;
}

std::string lineage_text(const std::vector<RunRow>& lineage) {
  if (lineage.size() < 2) return {};
  std::vector<std::vector<std::string>> rows = {{"training", "run", "to", "steps", "state"}};
  for (const RunRow& run : lineage) {
    rows.push_back({"part " + std::to_string(rows.size()), run.id.text, length_text(run),
                    steps_text(run), state_text(run)});
  }
  return table_text(std::move(rows));
}

std::string tuning_before_text(const RunRow& run) {
  std::string measured = "nothing confirmed, the starting configuration stays";
  if (run.speedup.pairs > 0) {
    measured = fmt::format("{}, {} instead of {}", estimate_text(run.speedup),
                           run_rate_text(run, run.best_samples_per_second),
                           run_rate_text(run, run.baseline_samples_per_second));
    if (const std::string left_out = left_out_text(run); !left_out.empty()) {
      measured += ", " + left_out;
    }
  }
  return "kept     " + change_text(run.starting, run.starting.change_to(run.best)) +
         "\ntuning   not in this run; in the one that began its training: " + measured + "\n";
}

}  // namespace autotuned::daemon
