// SPDX-License-Identifier: Apache-2.0
// What two configurations make of the same steps: the job's side of a check.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/trainer_job.hpp"

namespace autotuned::daemon {

namespace {

Result<tuner::UpdateComparison> comparison_from(const Json& answer) {
  tuner::UpdateComparison comparison;
  const auto equal = get_bool(answer, "equal");
  const auto finite = get_bool(answer, "finite");
  if (!equal) return tl::unexpected(equal.error());
  if (!finite) return tl::unexpected(finite.error());
  comparison.equal = *equal;
  comparison.finite = *finite;
  // JSON has no NaN: a number that is missing or null is one that could not be computed.
  const auto number = [](const Json& object, const char* field) {
    return get_number(object, field).value_or(std::nan(""));
  };
  for (const Json& parameter : member(answer, "parameters")) {
    comparison.parameters.push_back({.name = get_string(parameter, "name").value_or("?"),
                                     .reference_norm = number(parameter, "reference_norm"),
                                     .norm_ratio = number(parameter, "norm_ratio"),
                                     .cosine = number(parameter, "cosine")});
    if (const auto norm = get_number(parameter, "candidate_norm")) {
      comparison.parameters.back().candidate_norm = *norm;
    }
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

}  // namespace

bool TrainerJob::differ_in_extensions(const Configuration& one, const Configuration& other) const {
  return std::ranges::any_of(spec_.extension_knobs, [&](const std::string& name) {
    const KnobValue* const left = one.find(name);
    const KnobValue* const right = other.find(name);
    return (left == nullptr) != (right == nullptr) || (left != nullptr && *left != *right);
  });
}

Result<Json> TrainerJob::run_steps(Trainer& trainer, const Configuration& configuration,
                                   std::int64_t steps, const std::string& from,
                                   const std::string& checkpoint) {
  auto prepared = prepare(trainer, configuration);
  if (!prepared) return tl::unexpected(prepared.error());
  auto restored = ask(trainer, "restore", {{"name", from}}, spec_.block_limit);
  if (!restored) return restored;
  auto block = ask(trainer, "steps", {{"count", steps}}, spec_.block_limit * 2);
  if (!block) return block;
  auto kept = ask(trainer, "checkpoint", {{"name", checkpoint}}, spec_.block_limit);
  if (!kept) return kept;
  return block;
}

Result<tuner::UpdateComparison> TrainerJob::compare_updates(const Configuration& reference,
                                                            const Configuration& candidate,
                                                            std::int64_t steps) {
  // What an extension did not undo must not be in the reference: that one trains in a new process, where
  // the extension's code has never run.
  if (differ_in_extensions(reference, candidate)) stop();
  auto first = trainer_for(reference);
  if (!first) return tl::unexpected(first.error());
  auto reference_block = run_steps(**first, reference, steps, "initial", "reference");
  if (!reference_block) return tl::unexpected(reference_block.error());
  // Passed on by file: the candidate may need a trainer of its own, and the first may have to leave.
  const std::filesystem::path file = spec_.folder / "reference.checkpoint";
  const bool is_other_trainer = restart_key(reference) != restart_key(candidate);
  if (is_other_trainer) {
    auto exported =
        ask(**first, "export", {{"name", "reference"}, {"path", file.string()}}, spec_.block_limit);
    if (!exported) return tl::unexpected(exported.error());
  }

  auto second = trainer_for(candidate);
  if (!second) return tl::unexpected(second.error());
  Trainer& trainer = **second;
  if (is_other_trainer) {
    auto imported =
        ask(trainer, "import", {{"name", "reference"}, {"path", file.string()}}, spec_.block_limit);
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    if (!imported) return tl::unexpected(imported.error());
  }
  auto candidate_block = run_steps(trainer, candidate, steps, "initial", "candidate");
  if (!candidate_block) return tl::unexpected(candidate_block.error());
  return compare_blocks(trainer, *reference_block, *candidate_block, "initial");
}

Result<tuner::UpdateComparison> TrainerJob::compare_rounded(const Configuration& configuration,
                                                            std::int64_t steps) {
  constexpr const char* kRounded = "rounded";
  auto found = trainer_for(configuration);
  if (!found) return tl::unexpected(found.error());
  Trainer& trainer = **found;
  auto reference_block = run_steps(trainer, configuration, steps, "initial", "reference");
  if (!reference_block) return tl::unexpected(reference_block.error());
  auto rounded = ask(trainer, "round", {{"name", "initial"}, {"as", kRounded}}, spec_.block_limit);
  if (!rounded) return tl::unexpected(rounded.error());
  auto rounded_block = run_steps(trainer, configuration, steps, kRounded, "candidate");
  if (!rounded_block) return tl::unexpected(rounded_block.error());
  auto comparison = compare_blocks(trainer, *reference_block, *rounded_block, kRounded);
  auto dropped = ask(trainer, "drop", {{"name", kRounded}}, spec_.block_limit);
  if (!dropped) return tl::unexpected(dropped.error());
  return comparison;
}

Result<tuner::UpdateComparison> TrainerJob::compare_blocks(Trainer& trainer, const Json& reference,
                                                           const Json& candidate,
                                                           const std::string& candidate_base) {
  auto answer = ask(trainer, "compare",
                    {{"base", "initial"},
                     {"reference", "reference"},
                     {"candidate", "candidate"},
                     {"candidate_base", candidate_base}},
                    spec_.block_limit);
  if (!answer) return tl::unexpected(answer.error());
  for (const char* name : {"reference", "candidate"}) {
    auto dropped = ask(trainer, "drop", {{"name", name}}, spec_.block_limit);
    if (!dropped) return tl::unexpected(dropped.error());
  }
  auto comparison = comparison_from(*answer);
  if (!comparison) return comparison;
  comparison->steps = get_integer(candidate, "steps").value_or(0);
  comparison->reference_losses = losses_of(reference);
  comparison->candidate_losses = losses_of(candidate);
  return comparison;
}

}  // namespace autotuned::daemon
