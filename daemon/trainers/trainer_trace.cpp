// SPDX-License-Identifier: Apache-2.0
// The traces of a run: a trainer of its own records some steps, and ends.
#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "daemon/trainers/trace_findings.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "profiler/traces/gzip_file.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

// As many as `autotuned profile` records. After the time no further step begins, warm-up included.
constexpr std::int64_t kTracedSteps = 10;
constexpr std::int64_t kWarmupSteps = 3;
constexpr std::int64_t kMaxTracedEvents = 200'000;
constexpr nanoseconds kTraceLimit = std::chrono::seconds(1);
// Every trainer fills a cache of its own.
constexpr nanoseconds kMaxFilling = std::chrono::seconds(1);
constexpr const char* kTraceOfStart = "start.pt.trace.json.gz";
constexpr const char* kTraceOfBest = "best.pt.trace.json.gz";

// Removes the partial file of a trainer that was killed while it wrote a trace.
void remove_unfinished(std::filesystem::path trace) {
  trace += traces::kUnfinishedTrace;
  std::error_code ignored;
  std::filesystem::remove(trace, ignored);
}

// Whether `value` is already what a finding about this knob asks for: on, or another choice than the default. For
// gradients that are released and losses that are read later, it is the default itself. For numbers this is not known.
bool has_change(const recipes::Knob& knob, const KnobValue& value) {
  switch (knob.type) {
    case recipes::KnobType::boolean:
      return value == KnobValue(true);
    case recipes::KnobType::integer:
      return false;
    default:
      return knob.name == "train.loss_reading" ? value == knob.default_value
                                               : value != knob.default_value;
  }
}

}  // namespace

void TrainerBackend::remove_unfinished_traces() const {
  for (const char* const name : {kTraceOfStart, kTraceOfBest})
    remove_unfinished(spec_.folder / name);
}

Result<void> TrainerBackend::add_trace(const Configuration& configuration,
                                       tuner::StepProfile& profile, nanoseconds limit) {
  const double filling_ns = get_number(profile.metrics, "input.cache_fill_ns").value_or(0.0);
  if (filling_ns > static_cast<double>(kMaxFilling.count())) {
    return fail(ErrorKind::unsupported,
                "another trainer would have to fill the cache of samples anew, which took " +
                    format_duration(nanoseconds(static_cast<std::int64_t>(filling_ns))),
                "input.cache", "`autotuned profile` waits for it");
  }
  const bool is_start = configuration == spec_.recipe.starting_configuration(spec_.knobs);
  const std::filesystem::path file = spec_.folder / (is_start ? kTraceOfStart : kTraceOfBest);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);  // of an earlier run
  nanoseconds left = limit;
  auto recorded = record_trace(configuration, file, left);
  if (!recorded && recorded.error().kind == ErrorKind::out_of_memory && !trainers_.empty()) {
    // Nothing is lost with those that wait: they start anew when they are needed.
    stop();
    recorded = record_trace(configuration, file, left);
  }
  remove_unfinished(file);
  if (!recorded) return tl::unexpected(recorded.error());
  if (auto added = add_findings(file, profile); !added) return added;
  // Drop findings that call for a change that this configuration already has.
  std::erase_if(profile.findings, [&](const FindingRecord& finding) {
    const auto knob = recipes::find_knob(spec_.knobs, finding.knob);
    const KnobValue* value = configuration.find(finding.knob);
    return knob && value != nullptr && has_change(*knob, *value);
  });
  for (const Json& note : member(*recorded, "notes")) {
    if (note.is_string()) profile.notes.push_back(note.get<std::string>());
  }
  return {};
}

Result<Json> TrainerBackend::record_trace(const Configuration& configuration,
                                          const std::filesystem::path& file, nanoseconds& left) {
  const auto spend_since = [&left](Clock::time_point start) {
    left = std::max(left - nanoseconds(Clock::now() - start), nanoseconds(1));
  };
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  drop_dead();
  make_room();
  const auto start = Clock::now();
  // How it ends is told with the error: it takes no trial along.
  auto loaded = load_trainer(configuration, left, {});
  if (!loaded) {
    spend_since(start);
    return tl::unexpected(loaded.error());
  }
  TrainerClient& tracer = loaded->client;
  tracer.limit_memory(memory_left_for(tracer));
  auto answer = tracer.request("trace",
                               {{"path", file.string()},
                                {"active", kTracedSteps},
                                {"warmup", kWarmupSteps},
                                {"memory", true},
                                {"maximum_events", kMaxTracedEvents},
                                {"maximum_ns", kTraceLimit.count()}},
                               left, [this](const Json& told) { reports_.take(told); });
  spend_since(start);
  tracer.stop();
  return answer;
}

Result<Json> TrainerBackend::trace(const Configuration& configuration, Json fields,
                                   nanoseconds limit) {
  auto trainer = trainer_for(configuration);
  if (!trainer) return tl::unexpected(trainer.error());
  fields["maximum_ns"] = limit.count();
  const std::filesystem::path file = get_string(fields, "path").value_or("");
  std::vector<std::string> others;
  for (const Json& path : member(fields, "rank_paths"))
    others.push_back(path.get<std::string>());
  auto answer = ask(**trainer, "trace", std::move(fields), limit + spec_.block_limit * 2);
  if (!answer) {
    remove_unfinished(file);
    for (const std::string& other : others)
      remove_unfinished(other);
  }
  return answer;
}

}  // namespace autotuned::daemon
