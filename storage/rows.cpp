// SPDX-License-Identifier: Apache-2.0
#include "storage/rows.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace autotuned::storage {
namespace {

template <class Type>
Value stored(const Type& value) {
  if constexpr (std::is_integral_v<Type>) {
    return integer(value);
  } else if constexpr (std::is_floating_point_v<Type>) {
    return real(value);
  } else if constexpr (std::is_enum_v<Type>) {
    return text(to_string(value));
  } else if constexpr (std::is_same_v<Type, std::string>) {
    return text(value);
  } else if constexpr (std::is_same_v<Type, Configuration>) {
    return json_text(value.to_json());
  } else {
    // JSON has no NaN and no infinity: a loss that is not finite is stored as null, and read as NaN.
    return json_text(Json(value));
  }
}
template <class Type>
Value stored(const std::optional<Type>& value) {
  if (!value) return {};
  return stored(*value);
}

std::vector<double> losses_from(const Row& row, const char* column) {
  const Json list = row.json(column);
  if (!list.is_array()) throw DamagedRow(std::string("column ") + column + ": expected a list");
  std::vector<double> losses;
  losses.reserve(list.size());
  for (const Json& loss : list) {
    losses.push_back(loss.is_number() ? loss.get<double>()
                                      : std::numeric_limits<double>::quiet_NaN());
  }
  return losses;
}

std::vector<std::string> texts_from(const Row& row, const char* column) {
  const Json list = row.json(column);
  if (!list.is_array() || !std::ranges::all_of(list, &Json::is_string)) {
    throw DamagedRow(std::string("column ") + column + ": expected a list of texts");
  }
  return {list.begin(), list.end()};
}

// Each table has a function that names its columns once. It gets one of the two structs below and calls each(column, value), or
// each.newer() for a column that a file of an older version lacks while it is only read.

// Collects the columns to be stored.
struct Writer {
  Fields fields;

  template <class Stored>
  void operator()(const char* column, const Stored& value) {
    Field& field = fields.emplace_back();
    field.column = column;
    field.value = stored(value);
  }
  template <class Stored>
  void newer(const char* column, const Stored& value) {
    (*this)(column, value);
  }
};

// Fills a record from the stored columns.
struct RowReader {
  const Row& row;

  // clang-format off
  void operator()(const char* name, bool& value) const { value = row.boolean(name); }
  void operator()(const char* name, int& value) const { value = row.small_integer(name); }
  void operator()(const char* name, std::int64_t& value) const { value = row.integer(name); }
  void operator()(const char* name, double& value) const { value = row.real(name); }
  void operator()(const char* name, std::string& value) const { value = row.text(name); }
  void operator()(const char* name, Json& value) const { value = row.json(name); }
  void operator()(const char* name, Configuration& value) const { value = row.configuration(name); }
  void operator()(const char* name, RunState& value) const { value = row.name(name, &run_state_from); }
  void operator()(const char* name, TrialKind& value) const { value = row.name(name, &trial_kind_from); }
  void operator()(const char* name, Verdict& value) const { value = row.name(name, &verdict_from); }
  void operator()(const char* name, std::vector<double>& value) const { value = losses_from(row, name); }
  void operator()(const char* name, std::vector<std::string>& value) const { value = texts_from(row, name); }
  // clang-format on
  void operator()(const char* name, std::optional<ErrorKind>& value) const {
    if (!row.is_null(name)) value = error_kind_from(row.text(name));
  }
  void operator()(const char* name, std::optional<RejectionReason>& value) const {
    if (!row.is_null(name)) value = rejection_reason_from(row.text(name));
  }
  template <class Stored>
  void newer(const char* column, Stored& value) const {
    if (row.has(column)) (*this)(column, value);
  }
};

template <class Type, class Record>
concept Is = std::same_as<std::remove_const_t<Type>, Record>;

void columns(auto& each, Is<Estimate> auto& speedup) {
  each("speedup_ratio", speedup.ratio);
  each("speedup_low_ratio", speedup.low);
  each("speedup_high_ratio", speedup.high);
  each("speedup_pairs", speedup.pairs);
}

void key_columns(auto& each, Is<RunRow> auto& run) {
  each("id", run.id.text);
  each("recipe_hash", run.recipe_hash);
  each("environment_key", run.environment_key);
  each.newer("is_retuned", run.is_retuned);
  each.newer("plan", run.plan);
}

void ceiling_columns(auto& each, auto& samples_per_second, auto& bound_by, auto& ladder) {
  each("ceiling_samples_per_second", samples_per_second);
  each("ceiling_bound_by", bound_by);
  each.newer("ceiling_ladder", ladder);
}

void progress_columns(auto& each, Is<RunRow> auto& run) {
  each("recipe_name", run.recipe_name);
  each("state", run.state);
  each("recipe", run.recipe);
  each("starting_configuration", run.starting);
  each("best_configuration", run.best);
  each("baseline_samples_per_second", run.baseline_samples_per_second);
  each("best_samples_per_second", run.best_samples_per_second);
  columns(each, run.speedup);
  each("started_unix_ns", run.started_unix_ns);
  each("ended_unix_ns", run.ended_unix_ns);
  each("tuning_duration_ns", run.tuning_duration_ns);
  each("training", run.training);
  each("error", run.error);
  each("output_dir", run.output_dir);
  each.newer("is_tune_only", run.is_tune_only);
}

void columns(auto& each, Is<TrialRecord> auto& trial) {
  each("number", trial.number);
  each("kind", trial.kind);
  each("plugin", trial.plugin);
  each("reference_configuration", trial.reference);
  each("change", trial.change);
  each("risk", trial.risk);
  each("expected_gain_ratio", trial.expected_gain_ratio);
  each("proposal_reason", trial.proposal_reason);
  each("verdict", trial.verdict);
  each("failure", trial.failure);
  each("reason", trial.reason);
  each.newer("rejection", trial.rejection);
  each.newer("is_given_up", trial.is_given_up);
  each("ratio", trial.estimate.ratio);
  each("low_ratio", trial.estimate.low);
  each("high_ratio", trial.estimate.high);
  each("pairs", trial.estimate.pairs);
  each.newer("process_pairs", trial.process_pairs);
  each.newer("total_ratio", trial.total_ratio);
  each("reference_samples_per_second", trial.reference_samples_per_second);
  each("candidate_samples_per_second", trial.candidate_samples_per_second);
  each("noise_ratio", trial.noise_ratio);
  each("peak_memory_bytes", trial.peak_memory_bytes);
  each.newer("one_time_ns", trial.one_time_ns);
  each("started_unix_ns", trial.started_unix_ns);
  each("duration_ns", trial.duration_ns);
}

void columns(auto& each, Is<TrialBlock> auto& measured) {
  each("pair", measured.pair);
  each("is_candidate", measured.is_candidate);
  each("is_first", measured.is_first);
  each.newer("process_pair", measured.process_pair);
  auto& block = measured.block;
  each("start_monotonic_ns", block.start_ns);
  each("duration_ns", block.duration_ns);
  each("steps", block.steps);
  each("samples", block.samples);
  each("first_loss", block.first_loss);
  each("last_loss", block.last_loss);
  each("losses", block.losses);
  each("data_wait_ns", block.data_wait_ns);
  each("cpu_ns", block.cpu_ns);
  each("peak_host_memory_bytes", block.peak_host_memory_bytes);
  each("peak_device_memory_bytes", block.peak_device_memory_bytes);
}

void columns(auto& each, Is<CheckRecord> auto& check) {
  each("risk", check.risk);
  each("passed", check.passed);
  each("steps", check.steps);
  each("detail", check.detail);
  each.newer("parameters", check.parameters);
  each.newer("failed", check.failed);
  each.newer("compared", check.compared);
}

void columns(auto& each, Is<FindingRecord> auto& finding) {
  each("id", finding.id);
  each("signal", finding.signal);
  each("value", finding.value);
  each("threshold", finding.threshold);
  each("is_below", finding.is_below);
  each("evidence", finding.evidence);
  each("plugin", finding.plugin);
  each("knob", finding.knob);
  each("advice", finding.advice);
  each.newer("severity", finding.severity);
  each.newer("gain", finding.gain);
  each.newer("code", finding.code);
}

void columns(auto& each, Is<BestRow> auto& best) {
  each("recipe_hash", best.recipe_hash);
  each("environment_key", best.environment_key);
  each("run_id", best.run.text);
  each("configuration", best.best);
  columns(each, best.speedup);
  each("updated_unix_ns", best.updated_unix_ns);
  each.newer("is_complete", best.is_complete);
}

void columns(auto& each, Is<RunRow> auto& run) {
  key_columns(each, run);
  ceiling_columns(each, run.ceiling_samples_per_second, run.ceiling_bound_by, run.ceiling_ladder);
  progress_columns(each, run);
}

// Appends the columns of the record to `keys`, which say where it belongs.
template <class Record>
Fields written(const Record& record, Fields keys = {}) {
  Writer writer{std::move(keys)};
  columns(writer, record);
  return std::move(writer.fields);
}

template <class Record>
Record read(const Row& row) {
  Record record;
  const RowReader reader{row};
  columns(reader, record);
  return record;
}

Fields keys_of(const TrialId& trial) {
  return {{"run_id", text(trial.run.text)}, {"trial_number", integer(trial.number)}};
}

}  // namespace

Fields key_fields(const RunRow& run) {
  Writer writer;
  key_columns(writer, run);
  return std::move(writer.fields);
}

Fields ceiling_fields(double samples_per_second, const std::string& bound_by, const Json& ladder) {
  Writer writer;
  ceiling_columns(writer, samples_per_second, bound_by, ladder);
  return std::move(writer.fields);
}

Fields progress_fields(const RunRow& run) {
  Writer writer;
  progress_columns(writer, run);
  return std::move(writer.fields);
}

void check_configurations(const Json& training) {
  const auto check = [](const Json& configuration, const char* place) {
    if (!configuration.is_object()) return;
    if (const auto read = configuration_from(configuration); !read)
      throw DamagedRow(std::string("column training: ") + place + ": " + read.error().message());
  };
  check(member(member(training, "check"), "refused"), "check.refused");
  const Json& fallbacks = member(training, "fallbacks");
  if (!fallbacks.is_array()) return;
  for (const Json& fallback : fallbacks)
    check(member(fallback, "configuration"), "fallbacks");
}

RunRow run_from(const Row& row) {
  RunRow run = read<RunRow>(row);
  check_configurations(run.training);
  return run;
}

Fields fields_of(const RunId& run, const TrialRecord& trial) {
  return written(trial, {{"run_id", text(run.text)}});
}

TrialRecord trial_from(const Row& row) {
  return read<TrialRecord>(row);
}

Fields fields_of(const TrialId& trial, const TrialBlock& block) {
  return written(block, keys_of(trial));
}

TrialBlock block_from(const Row& row) {
  return read<TrialBlock>(row);
}

Fields fields_of(const TrialId& trial, const CheckRecord& check) {
  return written(check, keys_of(trial));
}

CheckRecord check_from(const Row& row) {
  return read<CheckRecord>(row);
}

Fields fields_of(const RunId& run, std::int64_t profile, const FindingRecord& finding) {
  return written(finding, {{"run_id", text(run.text)}, {"profile", integer(profile)}});
}

FindingRecord finding_from(const Row& row) {
  return read<FindingRecord>(row);
}

Fields fields_of(const BestRow& best) {
  return written(best);
}

BestRow best_from(const Row& row) {
  return read<BestRow>(row);
}

}  // namespace autotuned::storage
