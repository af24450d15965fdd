// SPDX-License-Identifier: Apache-2.0
// The checks of TrainerBackend: runs the same steps under two configurations and compares the updates.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/trainers/trainer_answer.hpp"
#include "daemon/trainers/trainer_backend.hpp"
#include "tuner/one_time_cost.hpp"

namespace autotuned::daemon {

namespace {

constexpr const char* kReference = "reference";
constexpr const char* kCandidate = "candidate";
constexpr const char* kRounded = "rounded";
constexpr const char* kInitial = "initial";
constexpr const char* kReached = "reached";
// A check from a state late in a training uses the learning rate at this many tenths of the training.
constexpr std::int64_t kLateTenths = 9;

}  // namespace

// Drops the checkpoints that a check keeps in trainers, however the check ends.
class TrainerBackend::Copies {
 public:
  explicit Copies(TrainerBackend& job) : job_(job) {}
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
  TrainerBackend& job_;
};

std::filesystem::path TrainerBackend::copy_file() const {
  return spec_.folder / "reference.checkpoint";
}

std::filesystem::path TrainerBackend::reached_file() const {
  return spec_.folder / "reached.checkpoint";
}

void TrainerBackend::drop_reached_file() const {
  std::error_code ignored;
  std::filesystem::remove(reached_file(), ignored);
}

Result<void> TrainerBackend::keep_copy(Trainer& trainer, const std::string& request, Json fields,
                                       const std::string& name) {
  trainer.copies.insert(name);
  auto kept = ask(trainer, request, std::move(fields), spec_.block_limit);
  if (!kept) return tl::unexpected(kept.error());
  return {};
}

Result<Json> TrainerBackend::check_steps(Trainer& trainer, const Configuration& configuration,
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

Result<void> TrainerBackend::plan_from(Trainer& trainer, tuner::CheckedSteps which) {
  auto place = ask(trainer, "place", Json::object(), spec_.block_limit);
  if (!place) return tl::unexpected(place.error());
  check_plan_.place = *std::move(place);
  if (which != tuner::CheckedSteps::reached) return {};
  check_plan_.base = kReached;
  // With several ranks, the samples of one rank.
  check_plan_.place["samples"] =
      tuner::training_samples(spec_.recipe, facts_) / spec_.recipe.train.ranks / 10 * kLateTenths;
  if (auto kept = keep_copy(trainer, "checkpoint", {{"name", kReached}}, kReached); !kept) {
    return kept;
  }
  auto exported = ask(trainer, "export", {{"name", kReached}, {"path", reached_file().string()}},
                      spec_.block_limit);
  if (!exported) return tl::unexpected(exported.error());
  return {};
}

Result<void> TrainerBackend::take_reached(Trainer& trainer) {
  return keep_copy(trainer, "import", {{"name", kReached}, {"path", reached_file().string()}},
                   kReached);
}

Result<tuner::UpdateComparison> TrainerBackend::compare_updates(const Configuration& reference,
                                                                const Configuration& candidate,
                                                                std::int64_t steps,
                                                                tuner::CheckedSteps which) {
  // The steps of a check use all CPUs, on which another session may be measuring.
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const Copies copies(*this);
  check_plan_ = {.steps = steps, .place = nullptr, .base = kInitial};
  drop_reached_file();
  // The candidate trains in the process that was measured, before that one may have to leave. The last trainer
  // compares: code of the candidate's extension must not be in it.
  const bool is_of_measured = which != tuner::CheckedSteps::first;
  const bool is_candidate_first = is_of_measured || process_knobs_.uses_extension(candidate);
  // Where both run in one process, what fails may be the doing of the candidate.
  const bool are_apart = !share_process(reference, candidate);
  const auto failed = [are_apart](Error error, bool is_in_reference) {
    error.is_of_reference = are_apart && is_in_reference;
    return tl::unexpected<Error>(std::move(error));
  };
  Json blocks[2];
  Trainer* last = nullptr;
  std::string last_key;
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : reference;
    const char* const name = is_candidate ? kCandidate : kReference;
    const bool moves = !is_first && process_knobs_.key_of(configuration) != last_key;
    if (moves) {
      // The state moves through a file: the other configuration may need a trainer of its own, and the first one may
      // have to end.
      const char* const earlier = is_candidate ? kReference : kCandidate;
      auto exported = ask(*last, "export", {{"name", earlier}, {"path", copy_file().string()}},
                          spec_.block_limit);
      if (!exported) return failed(exported.error(), /*is_in_reference=*/is_candidate);
      // A trainer that has trained may hold so much memory that another does not fit.
      if (has_trained_) stop();
    }
    auto found = trainer_for(configuration);
    if (!found) return failed(found.error(), !is_candidate);
    Trainer& trainer = **found;
    if (moves) {
      const char* const earlier = is_candidate ? kReference : kCandidate;
      auto imported = keep_copy(trainer, "import",
                                {{"name", earlier}, {"path", copy_file().string()}}, earlier);
      if (!imported) return failed(imported.error(), !is_candidate);
      if (check_plan_.base == kReached) {
        if (auto taken = take_reached(trainer); !taken) {
          return failed(taken.error(), !is_candidate);
        }
      }
    }
    if (is_first && is_of_measured) {
      if (auto planned = plan_from(trainer, which); !planned) {
        return failed(planned.error(), !is_candidate);
      }
    }
    auto block = check_steps(trainer, configuration, check_plan_, check_plan_.base, name);
    if (!block) return failed(block.error(), !is_candidate);
    blocks[is_candidate ? 1 : 0] = *std::move(block);
    last = &trainer;
    last_key = trainer.key;
  }
  auto compared = compare_blocks(*last, blocks[0], blocks[1], check_plan_.base);
  if (!compared) return failed(compared.error(), is_candidate_first);
  return compared;
}

Result<tuner::UpdateComparison> TrainerBackend::compare_rounded(
    const Configuration& configuration) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const Copies copies(*this);
  auto found = trainer_for(configuration);
  if (!found) return tl::unexpected(found.error());
  Trainer& trainer = **found;
  const std::string& base = check_plan_.base;
  if (base == kReached) {
    if (auto taken = take_reached(trainer); !taken) return tl::unexpected(taken.error());
  }
  auto reference = check_steps(trainer, configuration, check_plan_, base, kReference);
  if (!reference) return tl::unexpected(reference.error());
  auto rounded = keep_copy(trainer, "round", {{"name", base}, {"as", kRounded}}, kRounded);
  if (!rounded) return tl::unexpected(rounded.error());
  auto candidate = check_steps(trainer, configuration, check_plan_, kRounded, kCandidate);
  if (!candidate) return tl::unexpected(candidate.error());
  return compare_blocks(trainer, *reference, *candidate, kRounded);
}

Result<tuner::UpdateComparison> TrainerBackend::compare_blocks(Trainer& trainer,
                                                               const Json& reference,
                                                               const Json& candidate,
                                                               const std::string& candidate_base) {
  auto answer = ask(trainer, "compare",
                    {{"base", check_plan_.base},
                     {"reference", kReference},
                     {"candidate", kCandidate},
                     {"candidate_base", candidate_base}},
                    spec_.block_limit);
  if (!answer) return tl::unexpected(answer.error());
  auto comparison = comparison_from(*answer);
  if (!comparison) return comparison;
  comparison->steps = get_integer(candidate, "steps").value_or(0);
  comparison->reference_losses = losses_from(member(reference, "losses"));
  comparison->candidate_losses = losses_from(member(candidate, "losses"));
  comparison->reference_inputs = inputs_of(member(reference, "inputs"));
  comparison->candidate_inputs = inputs_of(member(candidate, "inputs"));
  return comparison;
}

}  // namespace autotuned::daemon
