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
// The same from the state with the initial moments.
constexpr const char* kReferenceRenewed = "reference_renewed";
constexpr const char* kCandidateRenewed = "candidate_renewed";
constexpr const char* kRoundedRenewed = "rounded_renewed";
constexpr const char* kInitial = "initial";
constexpr const char* kReached = "reached";
constexpr const char* kRenewed = "renewed";
// A check from a state late in a training uses the learning rate at this many tenths of the training.
constexpr std::int64_t kLateTenths = 9;
// After a training with an extension on.
constexpr std::int64_t kTestSamples = 512;

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
    job_.drop_copy_files();
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

 private:
  TrainerBackend& job_;
};

std::filesystem::path TrainerBackend::copy_file(const std::string& name) const {
  return spec_.folder / (name + ".checkpoint");
}

void TrainerBackend::drop_copy_files() const {
  std::error_code ignored;
  for (const char* const name : {kReference, kCandidate, kReferenceRenewed, kCandidateRenewed})
    std::filesystem::remove(copy_file(name), ignored);
}

std::filesystem::path TrainerBackend::reached_file() const {
  return spec_.folder / "reached.checkpoint";
}

std::filesystem::path TrainerBackend::carried_file() const {
  return spec_.folder / "carried.checkpoint";
}

void TrainerBackend::drop_reached_file() const {
  std::error_code ignored;
  std::filesystem::remove(reached_file(), ignored);
}

void TrainerBackend::drop_carried_file() const {
  std::error_code ignored;
  std::filesystem::remove(carried_file(), ignored);
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
  Json steps = {{"count", plan.steps},
                {"crosses_epoch", !plan.place.is_null()},
                {"outputs_before", checkpoint == kReference}};
  const bool is_renewed = checkpoint == kReferenceRenewed || checkpoint == kCandidateRenewed;
  if (plan.test_samples > 0 && !is_renewed) steps["test_samples"] = plan.test_samples;
  auto block = ask(trainer, "check_steps", std::move(steps), spec_.block_limit * 2);
  if (!block) return block;
  auto kept = keep_copy(trainer, "checkpoint", {{"name", checkpoint}}, checkpoint);
  if (!kept) return tl::unexpected(kept.error());
  return block;
}

Result<void> TrainerBackend::export_state(Trainer& trainer, const std::filesystem::path& file) {
  if (auto kept = keep_copy(trainer, "checkpoint", {{"name", kReached}}, kReached); !kept) {
    return kept;
  }
  auto exported =
      ask(trainer, "export", {{"name", kReached}, {"path", file.string()}}, spec_.block_limit);
  if (!exported) return tl::unexpected(exported.error());
  return {};
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
  return export_state(trainer, reached_file());
}

Result<void> TrainerBackend::take_reached(Trainer& trainer) {
  return keep_copy(trainer, "import", {{"name", kReached}, {"path", reached_file().string()}},
                   kReached);
}

Result<void> TrainerBackend::renew(Trainer& trainer) {
  return keep_copy(trainer, "renew", {{"name", kReached}, {"as", kRenewed}}, kRenewed);
}

Result<TrainerBackend::Trainer*> TrainerBackend::move_copies(
    Trainer& from, const Configuration& to, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    auto exported = ask(from, "export", {{"name", name}, {"path", copy_file(name).string()}},
                        spec_.block_limit);
    if (!exported) return tl::unexpected(exported.error());
  }
  // A trainer that has trained may hold so much memory that another does not fit.
  if (has_trained_) stop();
  auto found = trainer_for(to);
  if (!found) return found;
  for (const std::string& name : names) {
    auto imported =
        keep_copy(**found, "import", {{"name", name}, {"path", copy_file(name).string()}}, name);
    if (!imported) return tl::unexpected(imported.error());
  }
  if (check_plan_.base == kReached) {
    if (auto taken = take_reached(**found); !taken) return tl::unexpected(taken.error());
  }
  return found;
}

Result<tuner::UpdateComparison> TrainerBackend::compare_updates(const Configuration& reference,
                                                                const Configuration& candidate,
                                                                std::int64_t steps,
                                                                tuner::CheckedSteps which) {
  // The steps of a check use all CPUs, on which another session may be measuring.
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const Copies copies(*this);
  const bool is_reached = which == tuner::CheckedSteps::reached;
  const bool is_of_extension =
      process_knobs_.uses_extension(reference) || process_knobs_.uses_extension(candidate);
  const bool is_repeated = reference == candidate && check_plan_.is_renewed;
  check_plan_ = {.steps = steps,
                 .place = nullptr,
                 .base = kInitial,
                 .is_renewed = is_reached && (is_of_extension || is_repeated)};
  if (check_plan_.is_renewed && has_trained_) check_plan_.test_samples = kTestSamples;
  drop_reached_file();
  // The candidate trains in the process that was measured, before that one may have to leave.
  const bool is_of_measured = which != tuner::CheckedSteps::first;
  const bool is_candidate_first = is_of_measured || process_knobs_.uses_extension(candidate);
  // Where both run in one process, what fails may be the doing of the candidate.
  const bool are_apart = !share_process(reference, candidate);
  const auto failed = [are_apart](Error error, bool is_in_reference) {
    error.is_of_reference = are_apart && is_in_reference;
    return tl::unexpected<Error>(std::move(error));
  };
  Arm arms[2];
  Trainer* last = nullptr;
  std::string last_key;
  std::vector<std::string> kept;
  for (const bool is_first : {true, false}) {
    const bool is_candidate = is_first == is_candidate_first;
    const Configuration& configuration = is_candidate ? candidate : reference;
    const bool moves = !is_first && process_knobs_.key_of(configuration) != last_key;
    // The state moves through a file: the other configuration may need a trainer of its own, and the first one may have
    // to end.
    auto found = moves ? move_copies(*last, configuration, kept) : trainer_for(configuration);
    // A move begins in the trainer of the other side.
    if (!found) return failed(found.error(), !is_candidate && !moves);
    Trainer& trainer = **found;
    if (is_first && is_of_measured) {
      if (auto planned = plan_from(trainer, which); !planned) {
        return failed(planned.error(), !is_candidate);
      }
    }
    if (check_plan_.is_renewed && (is_first || moves)) {
      if (auto renewed = renew(trainer); !renewed) {
        return failed(renewed.error(), !is_candidate);
      }
    }
    Arm& arm = arms[is_candidate ? 1 : 0];
    const std::string name = is_candidate ? kCandidate : kReference;
    auto block = check_steps(trainer, configuration, check_plan_, check_plan_.base, name);
    if (!block) return failed(block.error(), !is_candidate);
    arm.block = *std::move(block);
    kept.push_back(name);
    if (check_plan_.is_renewed) {
      const std::string renewed = is_candidate ? kCandidateRenewed : kReferenceRenewed;
      block = check_steps(trainer, configuration, check_plan_, kRenewed, renewed);
      if (!block) return failed(block.error(), !is_candidate);
      arm.renewed = *std::move(block);
      kept.push_back(renewed);
    }
    last = &trainer;
    last_key = trainer.key;
  }
  // Code of an extension must not be in the trainer that compares.
  if (process_knobs_.uses_extension(is_candidate_first ? reference : candidate)) {
    if (!share_process(reference, candidate)) {
      // If there is no room for a third one, this one leaves, not the one that was measured.
      const auto found = std::ranges::find_if(
          trainers_, [last](const Trainer& trainer) { return &trainer == last; });
      trainers_.splice(trainers_.end(), trainers_, found);
    }
    auto clean = move_copies(*last, process_knobs_.without_extensions(reference), kept);
    if (!clean) return failed(clean.error(), false);
    last = *clean;
  }
  auto compared = compare_arms(*last, arms[0], arms[1], check_plan_.base, check_plan_.base);
  if (!compared) return failed(compared.error(), true);
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
  if (check_plan_.is_renewed) {
    if (auto renewed = renew(trainer); !renewed) return tl::unexpected(renewed.error());
  }
  Arm reference;
  Arm candidate;
  // The reference begins at a state, and the candidate at the same with its parameters rounded.
  const auto make_blocks = [&](Json Arm::*part, const std::string& from, const char* rounded,
                               const char* reference_name,
                               const char* candidate_name) -> Result<void> {
    if (auto kept = keep_copy(trainer, "round", {{"name", from}, {"as", rounded}}, rounded); !kept)
      return kept;
    auto block = check_steps(trainer, configuration, check_plan_, from, reference_name);
    if (!block) return tl::unexpected(block.error());
    reference.*part = *std::move(block);
    block = check_steps(trainer, configuration, check_plan_, rounded, candidate_name);
    if (!block) return tl::unexpected(block.error());
    candidate.*part = *std::move(block);
    return {};
  };
  auto made = make_blocks(&Arm::block, base, kRounded, kReference, kCandidate);
  if (made && check_plan_.is_renewed) {
    made =
        make_blocks(&Arm::renewed, kRenewed, kRoundedRenewed, kReferenceRenewed, kCandidateRenewed);
  }
  if (!made) return tl::unexpected(made.error());
  return compare_arms(trainer, reference, candidate, base, kRounded);
}

Result<tuner::UpdateComparison> TrainerBackend::compare_arms(Trainer& trainer, const Arm& reference,
                                                             const Arm& candidate,
                                                             const std::string& base,
                                                             const std::string& candidate_base) {
  auto comparison = compare_blocks(trainer, reference.block, candidate.block,
                                   {{"base", base},
                                    {"reference", kReference},
                                    {"candidate", kCandidate},
                                    {"candidate_base", candidate_base}});
  if (!comparison || !check_plan_.is_renewed) return comparison;
  // The parameters of a state are those of the renewed one.
  auto renewed = compare_blocks(trainer, reference.renewed, candidate.renewed,
                                {{"base", base},
                                 {"reference", kReferenceRenewed},
                                 {"candidate", kCandidateRenewed},
                                 {"candidate_base", candidate_base}});
  if (!renewed) return renewed;
  comparison->renewed.push_back(*std::move(renewed));
  return comparison;
}

Result<tuner::UpdateComparison> TrainerBackend::compare_blocks(Trainer& trainer,
                                                               const Json& reference,
                                                               const Json& candidate, Json names) {
  auto answer = ask(trainer, "compare", std::move(names), spec_.block_limit);
  if (!answer) return tl::unexpected(answer.error());
  auto comparison = comparison_from(*answer);
  if (!comparison) return comparison;
  comparison->steps = get_integer(candidate, "steps").value_or(0);
  comparison->reference_losses = losses_from(member(reference, "losses"));
  comparison->candidate_losses = losses_from(member(candidate, "losses"));
  comparison->reference_inputs = inputs_of(member(reference, "inputs"));
  comparison->candidate_inputs = inputs_of(member(candidate, "inputs"));
  comparison->reference_test = test_from(reference);
  comparison->candidate_test = test_from(candidate);
  return comparison;
}

Result<void> TrainerBackend::keep_state(const Configuration& of) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const Copies copies(*this);
  auto found = trainer_for(of);
  if (!found) return tl::unexpected(found.error());
  return export_state(**found, carried_file());
}

Result<void> TrainerBackend::take_state(const Configuration& into) {
  const auto lock = lock_measurement();
  if (!lock) return tl::unexpected(lock.error());
  const Copies copies(*this);
  // As in move_copies().
  if (has_trained_) stop();
  auto found = trainer_for(into);
  if (!found) return tl::unexpected(found.error());
  Trainer& trainer = **found;
  // What an extension does late shows only where it has run for a while.
  if (!trainer.is_warm && !has_trained_) {
    if (auto warm = warm_up(trainer); !warm) return warm;
  }
  auto taken = keep_copy(trainer, "import", {{"name", kReached}, {"path", carried_file().string()}},
                         kReached);
  drop_carried_file();
  if (!taken) return taken;
  auto restored = ask(trainer, "restore", {{"name", kReached}}, spec_.block_limit);
  if (!restored) return tl::unexpected(restored.error());
  return {};
}

}  // namespace autotuned::daemon
