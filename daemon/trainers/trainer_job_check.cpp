// SPDX-License-Identifier: Apache-2.0
// What two configurations make of the same steps: the job's side of a check.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/common/trainer_plugins.hpp"
#include "daemon/trainers/trainer_job.hpp"

namespace autotuned::daemon {

namespace {

// JSON has no NaN: a number that is missing or null is one that could not be computed.
double number_or_nan(const Json& object, const char* field) {
  return get_number(object, field).value_or(std::nan(""));
}

tuner::UpdateComparison::Parameter update_from(const Json& update) {
  tuner::UpdateComparison::Parameter parameter{
      .name = get_string(update, "name").value_or("?"),
      .reference_norm = number_or_nan(update, "reference_norm"),
      .norm_ratio = number_or_nan(update, "norm_ratio"),
      .cosine = number_or_nan(update, "cosine")};
  if (const auto norm = get_number(update, "candidate_norm")) parameter.candidate_norm = *norm;
  return parameter;
}

Result<tuner::UpdateComparison> comparison_from(const Json& answer) {
  tuner::UpdateComparison comparison;
  const auto equal = get_bool(answer, "equal");
  const auto finite = get_bool(answer, "finite");
  if (!equal) return tl::unexpected(equal.error());
  if (!finite) return tl::unexpected(finite.error());
  comparison.equal = *equal;
  comparison.finite = *finite;
  for (const Json& parameter : member(answer, "parameters"))
    comparison.parameters.push_back(update_from(parameter));
  for (const Json& buffer : member(answer, "buffers")) {
    comparison.buffers.push_back({.update = update_from(buffer),
                                  .is_floating = get_bool(buffer, "floating").value_or(true),
                                  .is_equal = get_bool(buffer, "equal").value_or(false)});
  }
  if (const Json& outputs = member(answer, "outputs"); outputs.is_object()) {
    comparison.outputs = {.reference_change = number_or_nan(outputs, "reference_change"),
                          .difference = number_or_nan(outputs, "difference")};
  }
  return comparison;
}

std::vector<double> losses_of(const Json& block) {
  std::vector<double> losses;
  for (const Json& loss : member(block, "losses")) {
    losses.push_back(loss.is_number() ? loss.get<double>() : std::nan(""));
  }
  return losses;
}

std::vector<tuner::UpdateComparison::StepInput> inputs_of(const Json& block) {
  std::vector<tuner::UpdateComparison::StepInput> inputs;
  for (const Json& one : member(block, "inputs")) {
    inputs.push_back({.labels = get_string(one, "labels").value_or(""),
                      .images = get_string(one, "images").value_or("")});
    for (const Json& projection : member(one, "projections")) {
      inputs.back().projections.push_back(projection.is_number() ? projection.get<double>()
                                                                 : std::nan(""));
    }
  }
  return inputs;
}

constexpr const char* kReference = "reference";
constexpr const char* kCandidate = "candidate";
constexpr const char* kRounded = "rounded";

}  // namespace

// What a check keeps in trainers is dropped when it ends, however it ends.
class TrainerJob::Copies {
 public:
  explicit Copies(TrainerJob& job) : job_(job) {}
  ~Copies() {
    for (Trainer& trainer : job_.trainers_) {
      for (const std::string& name : std::exchange(trainer.copies, {})) {
        if (!trainer.client.is_alive()) break;
        (void)job_.ask(trainer, "drop", {{"name", name}}, job_.spec_.block_limit);
      }
    }
    std::error_code ignored;
    std::filesystem::remove(job_.copy_file(), ignored);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

 private:
  TrainerJob& job_;
};

std::set<std::string> TrainerJob::turned_extension_knobs(const Configuration& configuration) const {
  std::set<std::string> turned;
  for (const std::string& name : spec_.extension_knobs) {
    const auto knob = recipes::find_knob(spec_.knobs, name);
    const KnobValue* const value = configuration.find(name);
    if (value != nullptr && (!knob || *value != knob->default_value)) {
      turned.insert(name + "=" + to_text(*value));
    }
  }
  return turned;
}

void TrainerJob::end_trainers_unlike(const Configuration& reference) {
  const std::set<std::string> expected = turned_extension_knobs(reference);
  trainers_.remove_if([&](Trainer& trainer) {
    const bool is_alike = std::ranges::includes(expected, trainer.turned);
    if (!is_alike) trainer.client.stop();
    return !is_alike;
  });
}

std::filesystem::path TrainerJob::copy_file() const {
  return spec_.folder / "reference.checkpoint";
}

Result<void> TrainerJob::keep_copy(Trainer& trainer, const std::string& request, Json fields,
                                   const std::string& name) {
  trainer.copies.insert(name);
  auto kept = ask(trainer, request, std::move(fields), spec_.block_limit);
  if (!kept) return tl::unexpected(kept.error());
  return {};
}

Result<Json> TrainerJob::check_steps(Trainer& trainer, const Configuration& configuration,
                                     const CheckPlan& plan, const std::string& from,
                                     const std::string& checkpoint) {
  auto prepared = prepare(trainer, configuration);
  if (!prepared) return tl::unexpected(prepared.error());
  Json restore = {{"name", from}};
  if (!plan.place.is_null()) restore["place"] = plan.place;
  auto restored = ask(trainer, "restore", std::move(restore), spec_.block_limit);
  if (!restored) return restored;
  auto block = ask(trainer, "check_steps",
                   {{"count", plan.steps},
                    {"crosses_epoch", !plan.place.is_null()},
                    {"outputs_before", checkpoint == kReference}},
                   spec_.block_limit * 2);
  if (!block) return block;
  auto kept = keep_copy(trainer, "checkpoint", {{"name", checkpoint}}, checkpoint);
  if (!kept) return tl::unexpected(kept.error());
  return block;
}

Result<tuner::UpdateComparison> TrainerJob::compare_updates(const Configuration& reference,
                                                            const Configuration& candidate,
                                                            std::int64_t steps,
                                                            tuner::CheckedSteps which) {
  const Copies copies(*this);
  check_plan_ = {.steps = steps, .place = nullptr};
  // What an extension did not undo must not be in the reference: that one trains in a process where the extension's
  // code has never run. The candidate trains in the process that was measured, before that one may have to leave.
  const bool is_later = which == tuner::CheckedSteps::later;
  const bool is_candidate_first = is_later;
  Json blocks[2];
  Trainer* last = nullptr;
  std::string last_key;
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : reference;
    const char* const name = is_candidate ? kCandidate : kReference;
    const bool must_be_clean =
        !is_candidate && differ_in_extensions(spec_.extension_knobs, reference, candidate);
    const bool moves = !is_first && (restart_key(configuration) != last_key || must_be_clean);
    if (moves) {
      // By file: the other may need a trainer of its own, and the first may have to leave.
      const char* const earlier = is_candidate ? kReference : kCandidate;
      auto exported = ask(*last, "export", {{"name", earlier}, {"path", copy_file().string()}},
                          spec_.block_limit);
      if (!exported) return tl::unexpected(exported.error());
    }
    if (must_be_clean) end_trainers_unlike(reference);
    auto found = trainer_for(configuration);
    if (!found) return tl::unexpected(found.error());
    Trainer& trainer = **found;
    if (moves) {
      const char* const earlier = is_candidate ? kReference : kCandidate;
      auto imported = keep_copy(trainer, "import",
                                {{"name", earlier}, {"path", copy_file().string()}}, earlier);
      if (!imported) return tl::unexpected(imported.error());
    }
    if (is_later && is_first) {
      auto place = ask(trainer, "place", Json::object(), spec_.block_limit);
      if (!place) return tl::unexpected(place.error());
      check_plan_.place = *std::move(place);
    }
    auto block = check_steps(trainer, configuration, check_plan_, "initial", name);
    if (!block) return tl::unexpected(block.error());
    blocks[is_candidate ? 1 : 0] = *std::move(block);
    last = &trainer;
    last_key = trainer.key;
  }
  return compare_blocks(*last, blocks[0], blocks[1], "initial");
}

Result<tuner::UpdateComparison> TrainerJob::compare_rounded(const Configuration& configuration) {
  const Copies copies(*this);
  auto found = trainer_for(configuration);
  if (!found) return tl::unexpected(found.error());
  Trainer& trainer = **found;
  auto reference = check_steps(trainer, configuration, check_plan_, "initial", kReference);
  if (!reference) return tl::unexpected(reference.error());
  auto rounded = keep_copy(trainer, "round", {{"name", "initial"}, {"as", kRounded}}, kRounded);
  if (!rounded) return tl::unexpected(rounded.error());
  auto candidate = check_steps(trainer, configuration, check_plan_, kRounded, kCandidate);
  if (!candidate) return tl::unexpected(candidate.error());
  return compare_blocks(trainer, *reference, *candidate, kRounded);
}

Result<tuner::UpdateComparison> TrainerJob::compare_blocks(Trainer& trainer, const Json& reference,
                                                           const Json& candidate,
                                                           const std::string& candidate_base) {
  auto answer = ask(trainer, "compare",
                    {{"base", "initial"},
                     {"reference", kReference},
                     {"candidate", kCandidate},
                     {"candidate_base", candidate_base}},
                    spec_.block_limit);
  if (!answer) return tl::unexpected(answer.error());
  auto comparison = comparison_from(*answer);
  if (!comparison) return comparison;
  comparison->steps = get_integer(candidate, "steps").value_or(0);
  comparison->reference_losses = losses_of(reference);
  comparison->candidate_losses = losses_of(candidate);
  comparison->reference_inputs = inputs_of(reference);
  comparison->candidate_inputs = inputs_of(candidate);
  return comparison;
}

}  // namespace autotuned::daemon
