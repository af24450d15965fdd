// SPDX-License-Identifier: Apache-2.0
#include "storage/rows.hpp"

#include <algorithm>
#include <limits>

namespace autotuned::storage {
namespace {

Value configuration_text(const Configuration& configuration) {
  return json_text(configuration.to_json());
}

// JSON has no NaN and no infinity: a loss that is not finite is null there, and NaN afterwards.
Value losses_text(const std::vector<double>& losses) {
  return json_text(Json(losses));
}

std::vector<double> losses_from(const Row& row, const char* column) {
  const Json stored = row.json(column);
  if (!stored.is_array()) throw DamagedRow(std::string("column ") + column + ": no list");
  std::vector<double> losses;
  losses.reserve(stored.size());
  for (const Json& loss : stored) {
    losses.push_back(loss.is_number() ? loss.get<double>()
                                      : std::numeric_limits<double>::quiet_NaN());
  }
  return losses;
}

std::vector<std::string> texts_from(const Row& row, const char* column) {
  const Json stored = row.json(column);
  if (!stored.is_array() || !std::ranges::all_of(stored, &Json::is_string)) {
    throw DamagedRow(std::string("column ") + column + ": no list of texts");
  }
  return {stored.begin(), stored.end()};
}

Estimate speedup_from(const Row& row) {
  return {.ratio = row.real("speedup_ratio"),
          .low = row.real("speedup_low_ratio"),
          .high = row.real("speedup_high_ratio"),
          .pairs = row.small_integer("speedup_pairs")};
}

void append_speedup(Fields& fields, const Estimate& speedup) {
  fields.push_back({"speedup_ratio", real(speedup.ratio)});
  fields.push_back({"speedup_low_ratio", real(speedup.low)});
  fields.push_back({"speedup_high_ratio", real(speedup.high)});
  fields.push_back({"speedup_pairs", integer(speedup.pairs)});
}

}  // namespace

Fields key_fields(const RunRow& run) {
  return {{"id", text(run.id.text)},
          {"recipe_hash", text(run.recipe_hash)},
          {"environment_key", text(run.environment_key)},
          {"is_retuned", boolean(run.is_retuned)},
          {"plan", text(run.plan)}};
}

Fields ceiling_fields(double samples_per_second, const std::string& bound_by, const Json& ladder) {
  return {{"ceiling_samples_per_second", real(samples_per_second)},
          {"ceiling_bound_by", text(bound_by)},
          {"ceiling_ladder", json_text(ladder)}};
}

Fields progress_fields(const RunRow& run) {
  Fields fields = {
      {"recipe_name", text(run.recipe_name)},
      {"state", text(to_string(run.state))},
      {"recipe", json_text(run.recipe)},
      {"starting_configuration", configuration_text(run.starting)},
      {"best_configuration", configuration_text(run.best)},
      {"baseline_samples_per_second", real(run.baseline_samples_per_second)},
      {"best_samples_per_second", real(run.best_samples_per_second)},
      {"started_unix_ns", integer(run.started_unix_ns)},
      {"ended_unix_ns", integer(run.ended_unix_ns)},
      {"tuning_duration_ns", integer(run.tuning_duration_ns)},
      {"training", json_text(run.training)},
      {"error", text(run.error)},
      {"output_dir", text(run.output_dir)},
      {"is_tune_only", boolean(run.is_tune_only)},
  };
  append_speedup(fields, run.speedup);
  return fields;
}

RunRow run_from(const Row& row) {
  return {
      .id = RunId{row.text("id")},
      .recipe_hash = row.text("recipe_hash"),
      .recipe_name = row.text("recipe_name"),
      .environment_key = row.text("environment_key"),
      .state = row.name("state", &run_state_from),
      .recipe = row.json("recipe"),
      .starting = row.configuration("starting_configuration"),
      .best = row.configuration("best_configuration"),
      .baseline_samples_per_second = row.real("baseline_samples_per_second"),
      .best_samples_per_second = row.real("best_samples_per_second"),
      .speedup = speedup_from(row),
      .ceiling_samples_per_second = row.real("ceiling_samples_per_second"),
      .ceiling_bound_by = row.text("ceiling_bound_by"),
      // A file of an older version that is only read has no such column; nor those at the end.
      .ceiling_ladder = row.has("ceiling_ladder") ? row.json("ceiling_ladder") : Json::array(),
      .started_unix_ns = row.integer("started_unix_ns"),
      .ended_unix_ns = row.integer("ended_unix_ns"),
      .tuning_duration_ns = row.integer("tuning_duration_ns"),
      .training = row.json("training"),
      .error = row.text("error"),
      .output_dir = row.text("output_dir"),
      .is_retuned = row.has("is_retuned") && row.boolean("is_retuned"),
      .plan = row.has("plan") ? row.text("plan") : "",
      .is_tune_only = row.has("is_tune_only") && row.boolean("is_tune_only"),
  };
}

Fields fields_of(const RunId& run, const TrialRecord& trial) {
  return {
      {"run_id", text(run.text)},
      {"number", integer(trial.number)},
      {"kind", text(to_string(trial.kind))},
      {"plugin", text(trial.plugin)},
      {"reference_configuration", configuration_text(trial.reference)},
      {"change", configuration_text(trial.change)},
      {"risk", text(trial.risk)},
      {"expected_gain_ratio", real(trial.expected_gain_ratio)},
      {"proposal_reason", text(trial.proposal_reason)},
      {"verdict", text(to_string(trial.verdict))},
      {"failure", trial.failure ? text(to_string(*trial.failure)) : Value{}},
      {"reason", text(trial.reason)},
      {"rejection", trial.rejection ? text(to_string(*trial.rejection)) : Value{}},
      {"ratio", real(trial.estimate.ratio)},
      {"low_ratio", real(trial.estimate.low)},
      {"high_ratio", real(trial.estimate.high)},
      {"pairs", integer(trial.estimate.pairs)},
      {"process_pairs", integer(trial.process_pairs)},
      {"total_ratio", real(trial.total_ratio)},
      {"reference_samples_per_second", real(trial.reference_samples_per_second)},
      {"candidate_samples_per_second", real(trial.candidate_samples_per_second)},
      {"noise_ratio", real(trial.noise_ratio)},
      {"peak_memory_bytes", integer(trial.peak_memory_bytes)},
      {"one_time_ns", integer(trial.one_time_ns)},
      {"started_unix_ns", integer(trial.started_unix_ns)},
      {"duration_ns", integer(trial.duration_ns)},
  };
}

TrialRecord trial_from(const Row& row) {
  TrialRecord trial{
      .number = row.small_integer("number"),
      .kind = row.name("kind", &trial_kind_from),
      .plugin = row.text("plugin"),
      .reference = row.configuration("reference_configuration"),
      .change = row.configuration("change"),
      .risk = row.text("risk"),
      .expected_gain_ratio = row.real("expected_gain_ratio"),
      .proposal_reason = row.text("proposal_reason"),
      .verdict = row.name("verdict", &verdict_from),
      .reason = row.text("reason"),
      .estimate = {.ratio = row.real("ratio"),
                   .low = row.real("low_ratio"),
                   .high = row.real("high_ratio"),
                   .pairs = row.small_integer("pairs")},
      .reference_samples_per_second = row.real("reference_samples_per_second"),
      .candidate_samples_per_second = row.real("candidate_samples_per_second"),
      .noise_ratio = row.real("noise_ratio"),
      .peak_memory_bytes = row.integer("peak_memory_bytes"),
      .started_unix_ns = row.integer("started_unix_ns"),
      .duration_ns = row.integer("duration_ns"),
  };
  if (!row.is_null("failure")) trial.failure = error_kind_from(row.text("failure"));
  // A file of an older version that is only read has no such columns.
  if (!row.has("rejection")) return trial;
  if (!row.is_null("rejection")) trial.rejection = rejection_reason_from(row.text("rejection"));
  trial.process_pairs = row.small_integer("process_pairs");
  trial.total_ratio = row.real("total_ratio");
  if (row.has("one_time_ns")) trial.one_time_ns = row.integer("one_time_ns");
  return trial;
}

Fields fields_of(const TrialId& trial, const TrialBlock& measured) {
  const Block& block = measured.block;
  return {
      {"run_id", text(trial.run.text)},
      {"trial_number", integer(trial.number)},
      {"pair", integer(measured.pair)},
      {"is_candidate", boolean(measured.is_candidate)},
      {"is_first", boolean(measured.is_first)},
      {"process_pair", integer(measured.process_pair)},
      {"start_monotonic_ns", integer(block.start_ns)},
      {"duration_ns", integer(block.duration_ns)},
      {"steps", integer(block.steps)},
      {"samples", integer(block.samples)},
      {"first_loss", real(block.first_loss)},
      {"last_loss", real(block.last_loss)},
      {"losses", losses_text(block.losses)},
      {"data_wait_ns", integer(block.data_wait_ns)},
      {"cpu_ns", integer(block.cpu_ns)},
      {"peak_host_memory_bytes", integer(block.peak_host_memory_bytes)},
      {"peak_device_memory_bytes", integer(block.peak_device_memory_bytes)},
  };
}

TrialBlock block_from(const Row& row) {
  return {
      .pair = row.small_integer("pair"),
      .is_candidate = row.boolean("is_candidate"),
      .is_first = row.boolean("is_first"),
      .block = {.start_ns = row.integer("start_monotonic_ns"),
                .duration_ns = row.integer("duration_ns"),
                .steps = row.integer("steps"),
                .samples = row.integer("samples"),
                .first_loss = row.real("first_loss"),
                .last_loss = row.real("last_loss"),
                .losses = losses_from(row, "losses"),
                .data_wait_ns = row.integer("data_wait_ns"),
                .cpu_ns = row.integer("cpu_ns"),
                .peak_host_memory_bytes = row.integer("peak_host_memory_bytes"),
                .peak_device_memory_bytes = row.integer("peak_device_memory_bytes")},
      .process_pair = row.has("process_pair") ? row.small_integer("process_pair") : 1,
  };
}

Fields fields_of(const TrialId& trial, const CheckRecord& check) {
  return {{"run_id", text(trial.run.text)},
          {"trial_number", integer(trial.number)},
          {"risk", text(check.risk)},
          {"passed", boolean(check.passed)},
          {"steps", integer(check.steps)},
          {"detail", text(check.detail)},
          {"parameters", json_text(Json(check.parameters))},
          {"failed", integer(check.failed)},
          {"compared", integer(check.compared)}};
}

CheckRecord check_from(const Row& row) {
  CheckRecord check{.risk = row.text("risk"),
                    .passed = row.boolean("passed"),
                    .steps = row.integer("steps"),
                    .detail = row.text("detail")};
  // A file of an older version that is only read has no such columns.
  if (!row.has("parameters")) return check;
  check.parameters = texts_from(row, "parameters");
  check.failed = row.integer("failed");
  check.compared = row.integer("compared");
  return check;
}

Fields fields_of(const RunId& run, std::int64_t profile, const FindingRecord& finding) {
  return {{"run_id", text(run.text)},
          {"profile", integer(profile)},
          {"id", text(finding.id)},
          {"signal", text(finding.signal)},
          {"value", real(finding.value)},
          {"threshold", real(finding.threshold)},
          {"is_below", boolean(finding.is_below)},
          {"evidence", text(finding.evidence)},
          {"plugin", text(finding.plugin)},
          {"knob", text(finding.knob)},
          {"advice", text(finding.advice)}};
}

FindingRecord finding_from(const Row& row) {
  return {.id = row.text("id"),
          .signal = row.text("signal"),
          .value = row.real("value"),
          .threshold = row.real("threshold"),
          .is_below = row.boolean("is_below"),
          .evidence = row.text("evidence"),
          .plugin = row.text("plugin"),
          .knob = row.text("knob"),
          .advice = row.text("advice")};
}

Fields fields_of(const BestRow& best) {
  Fields fields = {{"recipe_hash", text(best.recipe_hash)},
                   {"environment_key", text(best.environment_key)},
                   {"run_id", text(best.run.text)},
                   {"configuration", configuration_text(best.best)},
                   {"updated_unix_ns", integer(best.updated_unix_ns)},
                   {"is_complete", boolean(best.is_complete)}};
  append_speedup(fields, best.speedup);
  return fields;
}

BestRow best_from(const Row& row) {
  return {.recipe_hash = row.text("recipe_hash"),
          .environment_key = row.text("environment_key"),
          .run = RunId{row.text("run_id")},
          .best = row.configuration("configuration"),
          .speedup = speedup_from(row),
          .updated_unix_ns = row.integer("updated_unix_ns"),
          .is_complete = row.has("is_complete") && row.boolean("is_complete")};
}

}  // namespace autotuned::storage
