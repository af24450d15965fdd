// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/next_configuration.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/report/training_fallback.hpp"

namespace autotuned::daemon {
namespace {

constexpr const char* kBatchSize = "batch_size";

bool has_measured(const TrialRecord& trial) {
  return trial.estimate.pairs > 0 && trial.verdict != Verdict::failed &&
         trial.rejection != RejectionReason::not_same_model;
}

std::string suspected(const std::vector<std::string>& extensions, int ends) {
  return "the trainer ended " + std::to_string(ends) + " times in the training with " +
         plugins_text(extensions) + ", which may be the cause";
}

}  // namespace

std::optional<Configuration> after_out_of_memory(const Configuration& failed,
                                                 const Configuration& starting,
                                                 const std::vector<TrialRecord>& trials) {
  const std::int64_t size = failed.integer(kBatchSize);
  std::int64_t next = 0;
  const auto consider = [&](const Configuration& measured) {
    if (measured.find(kBatchSize) == nullptr) return;
    const std::int64_t other = measured.integer(kBatchSize);
    if (other < size) next = std::max(next, other);
  };
  consider(starting);
  for (const TrialRecord& trial : trials) {
    if (has_measured(trial)) consider(trial.reference.with(trial.change));
  }
  if (next > 0) {
    Configuration smaller = failed;
    smaller.set(kBatchSize, next);
    return smaller;
  }
  if (failed != starting && starting.integer(kBatchSize) <= size) return starting;
  return std::nullopt;
}

std::optional<Configuration> without_extensions(const Configuration& failed,
                                                const Configuration& starting,
                                                const std::vector<std::string>& knobs) {
  Configuration without = failed;
  for (const std::string& knob : knobs) {
    if (const KnobValue* const value = starting.find(knob)) without.set(knob, *value);
  }
  return without == failed ? std::nullopt : std::optional(std::move(without));
}

Error suspicion(const Error& error, const std::vector<std::string>& extensions, int ends) {
  Error blamed = error;
  blamed.what = suspected(extensions, ends);
  // The error itself has been told, with the last lines of the log.
  if (error.signal != 0) {
    blamed.what += "; the last time by signal " + std::to_string(error.signal);
  }
  if (error.kind == ErrorKind::timeout) {
    blamed.what += "; the last time because it gave no answer in time";
  }
  blamed.extensions = extensions;
  blamed.extension_fault = ExtensionFault::suspected;
  return blamed;
}

Error with_suspects(Error error, const std::vector<std::string>& extensions, int ends) {
  if (extensions.empty()) return error;
  error.what = suspected(extensions, ends) + ": " + error.what;
  return with_option_to_leave_out(std::move(error), extensions);
}

Error with_option_to_leave_out(Error error, const std::vector<std::string>& extensions) {
  if (extensions.empty()) return error;
  error.remedy += error.remedy.empty() ? "leave it out:" : ", or leave it out:";
  for (const std::string& name : extensions)
    error.remedy += " --without " + name;
  return error;
}

}  // namespace autotuned::daemon
