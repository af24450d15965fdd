// SPDX-License-Identifier: Apache-2.0
#include "daemon/scripts/script_backend.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "daemon/scripts/script_knobs.hpp"
#include "daemon/trainers/trainer_answer.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

// Steps of scripts carry more of Python's own pauses than those of a trainer.
constexpr nanoseconds kMinBlock = std::chrono::milliseconds(250);
constexpr std::int64_t kMinSteps = 2;
// The longest wait for a clean step. After it, the script is taken to do something else than training.
constexpr nanoseconds kMaxWait = std::chrono::minutes(2);
constexpr std::int64_t kProfileSteps = 20;
constexpr std::int64_t kProfileWarmupSteps = 3;
constexpr nanoseconds kProfileLimit = std::chrono::seconds(10);
// How often a request is repeated that the script interrupts by recreating its optimizer.
constexpr int kMaxRenewals = 5;
// A check makes a step once as the reference, once as the candidate, once more where it is compared rounded, and once
// more where batches are compared before.
constexpr std::int64_t kMaxTimesChecked = 4;

// Losses, inputs and figures of one part of an answer to `check`.
Result<tuner::UpdateComparison> comparison_of(const Json& part, std::int64_t steps) {
  auto comparison = comparison_from(part);
  if (!comparison) return comparison;
  comparison->steps = steps;
  comparison->reference_losses = losses_from(member(part, "reference_losses"));
  comparison->candidate_losses = losses_from(member(part, "candidate_losses"));
  comparison->reference_inputs = inputs_of(member(part, "reference_inputs"));
  comparison->candidate_inputs = inputs_of(member(part, "candidate_inputs"));
  return comparison;
}

}  // namespace

Result<void> ScriptBackend::greet() {
  auto hello = agent_.receive_hello();
  if (!hello) return forward_error(hello);
  hello_ = *std::move(hello);
  return {};
}

Result<void> ScriptBackend::load() {
  auto facts = agent_.request("load", Json::object());
  if (!facts) return forward_error(facts);
  facts_ = *std::move(facts);
  ScriptKnobs found = script_knobs(facts_);
  knobs_ = std::move(found.knobs);
  starting_ = std::move(found.starting);
  notes_.clear();
  for (std::string& note : found.notes)
    notes_.push_back({.text = std::move(note), .unless_permitted = {}});
  for (const Json& note : member(facts_, "notes")) {
    if (note.is_string()) {
      notes_.push_back({.text = note.get<std::string>(), .unless_permitted = {}});
    } else if (note.is_object()) {
      notes_.push_back({.text = get_string(note, "text").value_or(""),
                        .unless_permitted = get_string(note, "unless_permitted").value_or("")});
    }
  }
  in_force_ = starting_;
  has_samples_ = get_integer(facts_, "samples_per_step").value_or(0) > 0;
  steps_ = get_integer(facts_, "steps").value_or(0);
  return {};
}

std::vector<std::string> ScriptBackend::notes(const std::vector<std::string>& allow) const {
  std::vector<std::string> told;
  for (const auto& [text, knob] : notes_) {
    const bool is_permitted =
        !knob.empty() && std::ranges::any_of(allow, [&knob = knob](const std::string& name) {
          return name == knob || name == "semantics";
        });
    if (!is_permitted && !text.empty()) told.push_back(text);
  }
  return told;
}

Result<void> ScriptBackend::count_steps(const Configuration& configuration) {
  auto place = agent_.request("place", Json::object());
  if (!place) return forward_error(place);
  const std::int64_t now = get_integer(*place, "steps").value_or(steps_);
  const std::int64_t made = std::max<std::int64_t>(0, now - steps_);
  steps_ = std::max(steps_, now);
  const auto known = std::ranges::find(steps_under_, configuration, &StepsUnder::configuration);
  if (known == steps_under_.end()) {
    steps_under_.push_back({configuration, made});
  } else {
    known->steps += made;
  }
  return {};
}

Result<void> ScriptBackend::prepare(const Configuration& configuration, Patience patience) {
  if (in_force_ == configuration) return {};
  auto prepared =
      agent_.request("prepare", {{"configuration", configuration.to_json()}}, std::move(patience));
  if (!prepared) return forward_error(prepared);
  // The first steps under another value run cold: they belong to neither configuration.
  const Configuration before = std::exchange(in_force_, configuration).value_or(Configuration{});
  const Configuration change = before.change_to(configuration);
  warmup_steps_ = 0;
  for (const auto& [name, value] : change.values()) {
    if (const auto knob = recipes::find_knob(knobs_, name)) {
      warmup_steps_ = std::max(warmup_steps_, knob->warmup_steps);
    }
  }
  return {};
}

std::int64_t ScriptBackend::samples_per_step() const {
  return has_samples_ ? get_integer(facts_, "samples_per_step").value_or(1) : 1;
}

Result<Json> ScriptBackend::ask_for_steps(const Configuration& configuration,
                                          const std::string& name, nanoseconds expected,
                                          const std::function<Json()>& fields) {
  for (int renewals = 0; renewals < kMaxRenewals; ++renewals) {
    auto turn = measurement_lock_.acquire(*cancel_);
    if (!turn && turn.error().kind == ErrorKind::cancelled) {
      const AgentEnd& end = agent_.wait_for_end();
      return fail(ErrorKind::cancelled, end.text.empty() ? "the script has ended" : end.text);
    }
    // Without a lock it measures beside others.
    const auto drop = [&turn] {
      if (turn) turn->reset();
    };
    if (auto ready = prepare(configuration, {most_stall_, drop}); !ready) {
      return forward_error(ready);
    }
    auto answer =
        agent_.request(name, fields(), {expected + time_of(warmup_steps_) + most_stall_, drop});
    drop();
    // A configuration that fails is taken back by the agent.
    if (!answer) in_force_.reset();
    if (!answer && answer.error().kind == ErrorKind::cancelled) return answer;
    if (answer) warmup_steps_ = 0;
    if (auto counted = count_steps(configuration); !counted) return forward_error(counted);
    if (answer || answer.error().kind != ErrorKind::busy) return answer;
  }
  return fail(ErrorKind::cancelled, "the script keeps recreating its optimizer");
}

Result<Block> ScriptBackend::run_block(const Configuration& configuration,
                                       const tuner::BlockRequest& request) {
  if (!request.reuse.empty()) {
    return fail(ErrorKind::unsupported, "the batches of a script are its own");
  }
  Result<Json> answer = fail(ErrorKind::internal, "no block was asked for");
  const auto fields = [&]() -> Json {
    return {{"minimum_ns", std::max(kMinBlock, request.minimum_duration).count()},
            {"minimum_steps", std::max(kMinSteps, request.minimum_steps)},
            {"warmup_steps", warmup_steps_},
            {"maximum_ns", kMaxWait.count()}};
  };
  const nanoseconds expected = std::max(
      {kMinBlock, request.minimum_duration, time_of(std::max(kMinSteps, request.minimum_steps))});
  for (const bool is_last : {false, true}) {
    answer = ask_for_steps(configuration, "run", expected, fields);
    if (answer || answer.error().kind != ErrorKind::timeout) break;
    if (is_last) {
      return fail(ErrorKind::cancelled, "the script has made no step of the usual kind for " +
                                            format_duration(2 * kMaxWait));
    }
  }
  if (!answer) return forward_error(answer);
  auto block = Block::from_json(*answer);
  if (block && !has_samples_) block->samples = block->steps;
  if (block && block->steps > 0) step_time_ = nanoseconds(block->duration_ns / block->steps);
  return block;
}

Result<tuner::UpdateComparison> ScriptBackend::compare_updates(const Configuration& reference,
                                                               const Configuration& candidate,
                                                               std::int64_t steps,
                                                               tuner::CheckedSteps which) {
  static_cast<void>(which);  // from where the training stands
  checked_steps_ = steps;
  auto answer = ask_for_steps(reference, "check", time_of(kMaxTimesChecked * steps), [&]() -> Json {
    return {{"configuration", candidate.to_json()},
            {"method", "auto"},
            {"steps", steps},
            {"rounded", false},
            {"maximum_ns", kMaxWait.count()}};
  });
  if (!answer) return forward_error(answer);
  return comparison_of(*answer, get_integer(*answer, "steps").value_or(steps));
}

// Over the next steps, not those of the check: the training goes on.
Result<tuner::UpdateComparison> ScriptBackend::compare_rounded(const Configuration& configuration) {
  const nanoseconds expected = time_of(kMaxTimesChecked * checked_steps_);
  auto answer = ask_for_steps(configuration, "check", expected, [&]() -> Json {
    return {{"configuration", configuration.to_json()},
            {"method", "auto"},
            {"steps", checked_steps_},
            {"rounded", true},
            {"maximum_ns", kMaxWait.count()}};
  });
  if (!answer) return forward_error(answer);
  const Json& rounded = member(*answer, "rounded");
  if (!rounded.is_object()) {
    return fail(ErrorKind::unsupported, "the script was not compared with itself, rounded");
  }
  return comparison_of(rounded, get_integer(*answer, "steps").value_or(checked_steps_));
}

Result<tuner::StepProfile> ScriptBackend::profile(const Configuration& configuration) {
  auto answer = ask_for_steps(configuration, "profile", kProfileLimit, [&]() -> Json {
    return {{"count", kProfileSteps},
            {"warmup_steps", std::max<std::int64_t>(kProfileWarmupSteps, warmup_steps_)},
            {"maximum_ns", kProfileLimit.count()},
            {"path", ""}};
  });
  if (!answer) return forward_error(answer);
  tuner::StepProfile profile;
  if (const Json& metrics = member(*answer, "metrics"); metrics.is_object()) {
    profile.metrics = metrics;
  }
  if (const Json& spans = member(*answer, "spans"); spans.is_array()) profile.spans = spans;
  if (const Json& operators = member(*answer, "operators"); operators.is_array()) {
    profile.operators = operators;
  }
  return profile;
}

Result<void> ScriptBackend::finish(const Configuration& configuration, const std::string& reason,
                                   const Json& kept) {
  Json fields = {{"configuration", configuration.to_json()}, {"reason", reason}};
  if (kept.is_object()) fields["kept"] = kept;
  auto answer = agent_.request("finish", std::move(fields));
  if (!answer) return forward_error(answer);
  steps_ = std::max(steps_, get_integer(*answer, "steps").value_or(0));
  return {};
}

bool ScriptBackend::see_out() {
  const AgentEnd& end = agent_.wait_for_end();
  steps_ = std::max(steps_, end.steps);
  return end.has_steps;
}

}  // namespace autotuned::daemon
