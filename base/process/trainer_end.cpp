// SPDX-License-Identifier: Apache-2.0
#include "base/process/trainer_end.hpp"

#include "base/enum_names.hpp"
#include "base/process/process.hpp"
#include "base/text.hpp"

namespace autotuned {
namespace {

constexpr EnumNames<TrainerOutcome, 7> kNames = {{
    {TrainerOutcome::out_of_device_memory, "out_of_device_memory"},
    {TrainerOutcome::out_of_host_memory, "out_of_host_memory"},
    {TrainerOutcome::crashed, "crashed"},
    {TrainerOutcome::exited, "exited"},
    {TrainerOutcome::hung, "hung"},
    {TrainerOutcome::lost, "lost"},
    {TrainerOutcome::cancelled, "cancelled"},
}};

std::optional<int> number_of(const Json& object, const char* field) {
  const auto value = get_integer(object, field);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::string_view to_string(TrainerOutcome outcome) {
  return enum_name(kNames, outcome);
}

std::optional<TrainerOutcome> trainer_outcome_from(std::string_view name) {
  return enum_value(kNames, name);
}

Json TrainerEnd::evidence() const {
  return {{"request", request},
          {"has_told", has_told},
          {"exit_code", exit_code ? Json(*exit_code) : Json()},
          {"signal", signal ? Json(*signal) : Json()},
          {"oom_kills", oom_kills},
          {"resident_bytes", resident_bytes}};
}

void TrainerEnd::take_evidence(const Json& evidence) {
  request = get_string(evidence, "request").value_or("");
  has_told = get_bool(evidence, "has_told").value_or(false);
  exit_code = number_of(evidence, "exit_code");
  signal = number_of(evidence, "signal");
  oom_kills = get_integer(evidence, "oom_kills").value_or(0);
  resident_bytes = get_integer(evidence, "resident_bytes").value_or(0);
}

std::string TrainerEnd::text() const {
  std::string text = std::string(to_string(outcome)) + " during '" + request + "'";
  std::string because;
  const auto add = [&because](const std::string& what) {
    because += (because.empty() ? ": " : ", ") + what;
  };
  if (has_told) add("the trainer reported it");
  if (exit_code || signal) {
    add(ProcessExit{.code = exit_code.value_or(0), .signal = signal.value_or(0)}.message());
  } else if (!has_told) {
    add("autotuned ended it");
  }
  if (oom_kills > 0)
    add("processes killed by the kernel for lack of memory: " + std::to_string(oom_kills));
  if (resident_bytes > 0) add("memory used: " + format_bytes(resident_bytes));
  return text + because;
}

}  // namespace autotuned
