// SPDX-License-Identifier: Apache-2.0
#include "base/trial.hpp"

#include <limits>

#include "base/enum_names.hpp"

namespace autotuned {
namespace {

// A smaller median of an undecided ablation shows no gain.
constexpr double kMinMedianToKeep = 1.01;

constexpr EnumNames<Verdict, 6> kVerdictNames = {{
    {Verdict::running, "running"},
    {Verdict::accepted, "accepted"},
    {Verdict::rejected, "rejected"},
    {Verdict::failed, "failed"},
    {Verdict::not_applicable, "not_applicable"},
    {Verdict::interrupted, "interrupted"},
}};

constexpr EnumNames<RejectionReason, 7> kRejectionNames = {{
    {RejectionReason::slower, "slower"},
    {RejectionReason::no_gain, "no_gain"},
    {RejectionReason::undecided_in_time, "undecided_in_time"},
    {RejectionReason::totals, "totals"},
    {RejectionReason::memory_limit, "memory_limit"},
    {RejectionReason::not_repaid, "not_repaid"},
    {RejectionReason::not_same_model, "not_same_model"},
}};

constexpr EnumNames<TrialKind, 4> kTrialKindNames = {{
    {TrialKind::proposal, "proposal"},
    {TrialKind::confirmation, "confirmation"},
    {TrialKind::verification, "verification"},
    {TrialKind::ablation, "ablation"},
}};

// Reads the fields of a block one by one and keeps the first error.
class BlockReader {
 public:
  explicit BlockReader(const Json& object) : object_(object) {}

  // Counts and times are never negative.
  void amount(const char* field, std::int64_t& target, bool is_required) {
    if (error_ || (!is_required && member(object_, field).is_null())) return;
    const Result<std::int64_t> value = get_integer(object_, field);
    if (!value) {
      error_ = value.error();
    } else if (*value < 0) {
      error_ = Error{.kind = ErrorKind::invalid,
                     .what = std::string("the field \"") + field + "\" is negative"};
    } else {
      target = *value;
    }
  }

  // JSON has no NaN: a loss that is not finite travels as null.
  void loss(const char* field, double& target) {
    if (error_) return;
    if (object_.contains(field) && object_[field].is_null()) {
      target = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const Result<double> value = get_number(object_, field);
    if (value) {
      target = *value;
    } else {
      error_ = value.error();
    }
  }

  void losses(const char* field, std::vector<double>& target) {
    const Json& list = member(object_, field);
    if (error_ || list.is_null()) return;
    const char* wrong = list.is_array() ? nullptr : "must be an array of numbers";
    for (std::size_t i = 0; wrong == nullptr && i < list.size(); ++i) {
      if (list[i].is_null()) {
        target.push_back(std::numeric_limits<double>::quiet_NaN());
      } else if (list[i].is_number()) {
        target.push_back(list[i].get<double>());
      } else {
        wrong = "holds something that is not a number";
      }
    }
    if (wrong != nullptr) {
      error_ = Error{.kind = ErrorKind::invalid,
                     .what = std::string("the field \"") + field + "\" " + wrong};
    }
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Json& object_;
  std::optional<Error> error_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  return enum_name(kVerdictNames, verdict);
}

std::optional<Verdict> verdict_from(std::string_view name) {
  return enum_value(kVerdictNames, name);
}

std::string_view to_string(RejectionReason reason) {
  return enum_name(kRejectionNames, reason);
}

std::optional<RejectionReason> rejection_reason_from(std::string_view name) {
  return enum_value(kRejectionNames, name);
}

std::string_view to_string(TrialKind kind) {
  return enum_name(kTrialKindNames, kind);
}

std::optional<TrialKind> trial_kind_from(std::string_view name) {
  return enum_value(kTrialKindNames, name);
}

double Block::samples_per_second() const {
  if (duration_ns <= 0) return 0;
  return static_cast<double>(samples) * 1e9 / static_cast<double>(duration_ns);
}

Result<Block> Block::from_json(const Json& value) {
  if (!value.is_object()) {
    return fail(ErrorKind::invalid,
                std::string("a block is an object, found ") + value.type_name());
  }
  Block block;
  BlockReader reader(value);
  reader.amount("start_ns", block.start_ns, true);
  reader.amount("duration_ns", block.duration_ns, true);
  reader.amount("steps", block.steps, true);
  reader.amount("samples", block.samples, true);
  reader.loss("first_loss", block.first_loss);
  reader.loss("last_loss", block.last_loss);
  reader.losses("losses", block.losses);
  reader.amount("data_wait_ns", block.data_wait_ns, false);
  reader.amount("cpu_ns", block.cpu_ns, false);
  reader.amount("peak_host_memory_bytes", block.peak_host_memory_bytes, false);
  reader.amount("peak_device_memory_bytes", block.peak_device_memory_bytes, false);
  reader.amount("one_time_ns", block.one_time_ns, false);
  reader.amount("one_time_samples", block.one_time_samples, false);
  if (reader.error()) return tl::unexpected(*reader.error());
  // Bounded, so that start and duration can be added without overflow.
  if (block.start_ns > std::numeric_limits<std::int64_t>::max() - block.duration_ns) {
    return fail(ErrorKind::invalid, "start_ns and duration_ns of the block are too large together");
  }
  return block;
}

Json Block::to_json() const {
  return {{"start_ns", start_ns},
          {"end_ns", start_ns + duration_ns},
          {"duration_ns", duration_ns},
          {"steps", steps},
          {"samples", samples},
          {"first_loss", first_loss},
          {"last_loss", last_loss},
          {"losses", losses},
          {"data_wait_ns", data_wait_ns},
          {"cpu_ns", cpu_ns},
          {"peak_host_memory_bytes", peak_host_memory_bytes},
          {"peak_device_memory_bytes", peak_device_memory_bytes},
          {"one_time_ns", one_time_ns},
          {"one_time_samples", one_time_samples}};
}

Json TrialRecord::to_json(std::string_view run_id) const {
  // Without a measurement the value is null, not a ratio of 1.
  const auto measured = [this](double value) { return estimate.pairs > 0 ? Json(value) : Json(); };
  return {{"id", std::string(run_id) + "." + std::to_string(number)},
          {"number", number},
          {"kind", to_string(kind)},
          {"plugin", plugin},
          {"reference", reference.to_json()},
          {"change", change.to_json()},
          {"risk", risk},
          {"expected_gain_ratio", expected_gain_ratio},
          {"proposal_reason", proposal_reason},
          {"verdict", to_string(verdict)},
          {"failure", failure ? Json(to_string(*failure)) : Json()},
          {"reason", reason},
          {"rejection", rejection ? Json(to_string(*rejection)) : Json()},
          {"is_given_up", is_given_up},
          {"ratio", measured(estimate.ratio)},
          {"ratio_low", measured(estimate.low)},
          {"ratio_high", measured(estimate.high)},
          {"pairs", estimate.pairs},
          {"process_pairs", process_pairs},
          {"total_ratio", total_ratio > 0.0 ? Json(total_ratio) : Json()},
          {"reference_samples_per_second", measured(reference_samples_per_second)},
          {"candidate_samples_per_second", measured(candidate_samples_per_second)},
          {"noise_ratio", measured(noise_ratio)},
          {"peak_memory_bytes", peak_memory_bytes},
          {"one_time_ns", one_time_ns},
          {"started_unix_ns", started_unix_ns},
          {"duration_ns", duration_ns}};
}

bool was_disturbed(const TrialRecord& trial) {
  return trial.failure && trial.rejection == RejectionReason::undecided_in_time;
}

bool drops_its_change(const TrialRecord& ablation) {
  if (ablation.verdict != Verdict::rejected || ablation.failure) return false;
  return ablation.rejection != RejectionReason::undecided_in_time ||
         ablation.estimate.ratio < kMinMedianToKeep;
}

}  // namespace autotuned
