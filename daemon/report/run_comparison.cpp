// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/run_comparison.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/report/lineage.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/script_report.hpp"
#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {

namespace {

void compare_into(std::vector<Difference>& found, const std::string& path, const Json& a,
                  const Json& b) {
  if (a == b) return;
  const auto below = [&](const std::string& step) {
    return path.empty() ? step : path + "." + step;
  };
  if (a.is_object() && b.is_object()) {
    std::set<std::string> names;
    for (const Json* side : {&a, &b}) {
      for (const auto& item : side->items())
        names.insert(item.key());
    }
    for (const std::string& name : names)
      compare_into(found, below(name), member(a, name.c_str()), member(b, name.c_str()));
  } else if (a.is_array() && b.is_array()) {
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      compare_into(found, below(std::to_string(i + 1)), i < a.size() ? a[i] : Json(),
                   i < b.size() ? b[i] : Json());
    }
  } else {
    found.push_back({path, a, b});
  }
}

void add_profile(ComparedSide& side, const Json& profile) {
  side.metrics = member(profile, "metrics");
  const auto span_number = [](const Json& span, const char* field) {
    return get_number(span, field).value_or(0.0);
  };
  double steps = 0.0;
  for (const Json& span : member(profile, "spans")) {
    if (get_string(span, "name").value_or("") == "step") steps = span_number(span, "count");
  }
  if (steps <= 0.0) return;
  for (const Json& span : member(profile, "spans")) {
    side.spans[get_string(span, "name").value_or("?")] = span_number(span, "total_ns") / steps;
  }
}

// What the candidate's blocks themselves say, whether or not it was profiled.
void add_blocks(ComparedSide& side, const std::vector<TrialBlock>& blocks) {
  Block sum;
  for (const TrialBlock& block : blocks) {
    if (!block.is_candidate) continue;
    sum.duration_ns += block.block.duration_ns;
    sum.samples += block.block.samples;
    sum.data_wait_ns += block.block.data_wait_ns;
    sum.cpu_ns += block.block.cpu_ns;
    sum.peak_host_memory_bytes =
        std::max(sum.peak_host_memory_bytes, block.block.peak_host_memory_bytes);
    sum.peak_device_memory_bytes =
        std::max(sum.peak_device_memory_bytes, block.block.peak_device_memory_bytes);
  }
  if (sum.duration_ns <= 0 || sum.samples <= 0) return;
  const auto over = [](std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  side.metrics["blocks.data_wait_ratio"] = over(sum.data_wait_ns, sum.duration_ns);
  side.metrics["blocks.cpu_ns_per_sample"] = over(sum.cpu_ns, sum.samples);
  side.metrics["blocks.peak_host_bytes"] = sum.peak_host_memory_bytes;
  side.metrics["blocks.peak_device_bytes"] = sum.peak_device_memory_bytes;
}

Json differences_json(const std::vector<Difference>& differences) {
  Json list = Json::array();
  for (const Difference& difference : differences)
    list.push_back({{"field", difference.field}, {"a", difference.a}, {"b", difference.b}});
  return list;
}

Json side_json(const ComparedSide& side) {
  Json checks = Json::array();
  for (const CheckRecord& check : side.checks)
    checks.push_back(check_json(check));
  const auto measured = [&side](double value) {
    return side.estimate.pairs > 0 ? Json(value) : Json();
  };
  return {{"name", side.name},
          {"what", side.what},
          {"note", stand_in_note(side.recipe)},
          {"left_out", side.left_out},
          {"configuration", side.configuration.to_json()},
          {"samples_per_second", side.samples_per_second},
          {"reference_samples_per_second", side.reference_samples_per_second},
          {"ratio", measured(side.estimate.ratio)},
          {"ratio_low", measured(side.estimate.low)},
          {"ratio_high", measured(side.estimate.high)},
          {"pairs", side.estimate.pairs},
          {"checks", std::move(checks)}};
}

bool is_same_place(const Json& a, const Json& b) {
  if (!a.is_string() || !b.is_string()) return false;
  const std::filesystem::path of_a = a.get<std::string>();
  const std::filesystem::path of_b = b.get<std::string>();
  if (!of_a.is_absolute() || !of_b.is_absolute()) return false;
  std::error_code error;
  const auto resolved_a = std::filesystem::weakly_canonical(of_a, error);
  if (error) return false;
  const auto resolved_b = std::filesystem::weakly_canonical(of_b, error);
  return !error && resolved_a == resolved_b;
}

// The first in which a section of two recipes (model, data, input) makes them different jobs: the type, if it differs.
std::optional<Difference> job_difference(const Json& a, const Json& b) {
  std::vector<Difference> found = differences_between(a, b);
  std::erase_if(found, [](const Difference& difference) {
    // The place of a plugin in the file of the recipe is none of the job.
    const std::string last = difference.field.substr(difference.field.rfind('.') + 1);
    return last == "line" || last == "column" || is_same_place(difference.a, difference.b);
  });
  if (found.empty()) return std::nullopt;
  const auto type = std::ranges::find(found, "type", &Difference::field);
  return type != found.end() ? *type : found.front();
}

// Numbers by name, of both sides and their difference.
Json numbers_json(const Json& a, const Json& b, bool is_comparable) {
  Json object = Json::object();
  for (const Json* side : {&a, &b}) {
    for (const auto& item : side->items()) {
      const auto in_a = get_number(a, item.key().c_str());
      const auto in_b = get_number(b, item.key().c_str());
      object[item.key()] = {
          {"a", in_a ? Json(*in_a) : Json()},
          {"b", in_b ? Json(*in_b) : Json()},
          {"difference", in_a && in_b && is_comparable ? Json(*in_b - *in_a) : Json()}};
    }
  }
  return object;
}

}  // namespace

std::optional<TrialRecord> measured_trial(const RunRecord& record,
                                          const std::optional<TrialRecord>& trial) {
  if (trial) return trial;
  const auto last =
      std::find_if(record.trials.rbegin(), record.trials.rend(), [](const TrialRecord& candidate) {
        const bool is_of_the_whole =
            candidate.kind == TrialKind::confirmation || candidate.kind == TrialKind::verification;
        return is_of_the_whole && candidate.verdict == Verdict::accepted;
      });
  return last == record.trials.rend() ? std::nullopt : std::optional(*last);
}

ComparedSide side_of(const RunRecord& record, const std::optional<TrialRecord>& trial,
                     const std::vector<TrialBlock>& blocks) {
  const storage::RunRow& run = record.run;
  ComparedSide side;
  side.recipe = run.recipe;
  side.is_extension = !extended_run(run).empty();
  side.recipe_hash = run.recipe_hash;
  side.unit = unit_of(run);
  if (record.environment) {
    side.environment = record.environment->facts;
    side.environment["libtorch"] = record.environment->libtorch;
  }
  if (trial) {
    side.name = TrialId{run.id, trial->number}.text();
    side.what = run.recipe_name + ", " +
                (trial->kind == TrialKind::proposal ? "trial of " + trial->plugin
                                                    : std::string(to_string(trial->kind))) +
                ", " + std::string(to_string(trial->verdict));
    side.configuration = trial->reference.with(trial->change);
    side.samples_per_second = trial->candidate_samples_per_second;
    side.reference_samples_per_second = trial->reference_samples_per_second;
    side.estimate = trial->estimate;
    if (const auto found = record.checks.find(trial->number); found != record.checks.end()) {
      side.checks = found->second;
    }
  } else {
    const bool is_tuned = !run.best.empty();
    side.name = run.id.text;
    side.what = run.recipe_name + ", run, " + std::string(storage::to_string(run.state)) +
                (is_tuned ? "" : ", not tuned: its start");
    side.configuration = is_tuned ? run.best : run.starting;
    side.samples_per_second =
        is_tuned ? run.best_samples_per_second : run.baseline_samples_per_second;
    side.reference_samples_per_second = run.baseline_samples_per_second;
    side.estimate = run.speedup;
    side.lacks_confirmation = lacks_confirmation(record.trials);
    side.left_out = is_tuned ? left_out_text(run) : std::string();
    for (const auto& [number, outcome] : outcomes_of(record)) {
      const auto found = record.checks.find(number);
      const bool counts = outcome == Outcome::kept || outcome == Outcome::held;
      if (!counts || found == record.checks.end()) continue;
      side.checks.insert(side.checks.end(), found->second.begin(), found->second.end());
    }
  }
  if (const Json* profile = profile_of(record.profiles, side.configuration))
    add_profile(side, *profile);
  add_blocks(side, blocks);
  return side;
}

Result<ComparedSide> read_side(const storage::History& history, NamedRun named) {
  auto record = read_run(history, named.run, std::move(named.trials));
  if (!record) return tl::unexpected(record.error());
  std::vector<TrialBlock> blocks;
  if (const auto measured = measured_trial(*record, named.trial)) {
    auto stored = history.blocks({named.run.id, measured->number});
    if (!stored) return tl::unexpected(stored.error());
    blocks = std::move(*stored);
  }
  return side_of(*record, named.trial, blocks);
}

std::vector<Difference> differences_between(const Json& a, const Json& b) {
  std::vector<Difference> found;
  compare_into(found, "", a, b);
  return found;
}

std::vector<Difference> recipe_differences(const ComparedSide& a, const ComparedSide& b) {
  std::vector<Difference> found = differences_between(a.recipe, b.recipe);
  if (a.is_extension || b.is_extension) {
    std::erase_if(
        found, [](const Difference& difference) { return difference.field == "tune.budget_ns"; });
  }
  return found;
}

std::string different_jobs_text(const ComparedSide& a, const ComparedSide& b) {
  const auto pair_of = [](const char* what, const std::string& of_a, const std::string& of_b) {
    return std::string("they ") + what + " (" + of_a + " and " + of_b + ")";
  };
  const auto text_of = [](const Json& object, const char* field) {
    return get_string(object, field).value_or("");
  };
  if (is_script(a.recipe) != is_script(b.recipe)) {
    return "one is a recipe and the other a script";
  }
  const bool is_same_job = !a.recipe_hash.empty() && a.recipe_hash == b.recipe_hash;
  if (is_script(a.recipe)) {
    const std::string of_a = text_of(a.recipe, "name");
    const std::string of_b = text_of(b.recipe, "name");
    if (of_a != of_b) return pair_of("are different scripts", of_a, of_b);
  } else if (!is_same_job) {
    for (const auto& [section, what] :
         {std::pair{"model", "train different models"},
          std::pair{"data", "train on different data"},
          std::pair{"input", "transform their samples differently"}}) {
      const auto found = job_difference(member(a.recipe, section), member(b.recipe, section));
      if (!found) continue;
      const auto value = [](const Json& json) {
        return json.is_string() ? json.get<std::string>() : to_line(json);
      };
      // In a list of transforms, the field alone would begin with a number.
      const std::string list = std::string_view(section) == "input" ? "input." : "";
      const std::string name = found->field == "type" ? "" : list + found->field + " ";
      return pair_of(what, name + value(found->a), value(found->b));
    }
  }
  if (a.unit != b.unit) return "one counts samples and the other steps";
  return {};
}

Json comparison_json(const ComparedSide& a, const ComparedSide& b) {
  const std::string different = different_jobs_text(a, b);
  const bool is_comparable = different.empty();
  const bool has_ratio = is_comparable && a.samples_per_second > 0.0 && b.samples_per_second > 0.0;
  return {{"a", side_json(a)},
          {"b", side_json(b)},
          {"environment", differences_json(differences_between(a.environment, b.environment))},
          {"recipe", differences_json(recipe_differences(a, b))},
          {"knobs", differences_json(
                        differences_between(a.configuration.to_json(), b.configuration.to_json()))},
          {"different_jobs", is_comparable ? Json() : Json(different)},
          {"ratio", has_ratio ? Json(b.samples_per_second / a.samples_per_second) : Json()},
          {"is_side_by_side", false},
          {"metrics", numbers_json(a.metrics, b.metrics, is_comparable)},
          {"spans_ns_per_step", numbers_json(a.spans, b.spans, is_comparable)}};
}

}  // namespace autotuned::daemon
