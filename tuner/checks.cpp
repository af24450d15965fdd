// SPDX-License-Identifier: Apache-2.0
#include "tuner/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace autotuned::tuner {
namespace {

using recipes::RiskClass;

constexpr const char* kBatchSize = "batch_size";
constexpr const char* kAfterMeasuring = " in the process that was measured";
constexpr const char* kAfterBlocks = ", from the weights at the end of the blocks";
constexpr const char* kAfterTraining = ", from the trained weights";

// The comparisons of a check, in order. The process that was measured comes first, because the other comparison may end it. A training
// that goes on is compared only once, from the state that it has reached.
std::vector<CheckedSteps> looks_at(const TrainingBackend& backend) {
  if (backend.trains_for_real()) return {CheckedSteps::later};
  return {CheckedSteps::later, CheckedSteps::first};
}

// Batch size and learning rate before and after, in words.
std::string batch_rule(const SessionInput& input, const Configuration& incumbent,
                       const Configuration& candidate) {
  const KnobValue* before = incumbent.find(kBatchSize);
  const KnobValue* after = candidate.find(kBatchSize);
  if (before == nullptr || after == nullptr || *before == *after) {
    return input.is_script ? "permitted by --allow" : "permitted by the recipe";
  }
  const std::int64_t from = std::get<std::int64_t>(*before);
  const std::int64_t to = std::get<std::int64_t>(*after);
  constexpr const char* kNames[] = {"none", "linear", "sqrt"};
  return fmt::format(
      "batch size {} instead of {}, learning rate {:.6g} instead of {:.6g} (rule: {})", to, from,
      input.recipe.learning_rate_at(to), input.recipe.learning_rate_at(from),
      kNames[static_cast<int>(input.recipe.tune.lr_scaling)]);
}

// The knobs of `change` that belong to a class.
Configuration part_of(const SessionInput& input, const Configuration& change, RiskClass risk) {
  Configuration part;
  for (const auto& [name, value] : change.values()) {
    Configuration single;
    single.set(name, value);
    if (recipes::risk_of(input.knobs, single) == risk) part.set(name, value);
  }
  return part;
}

bool may_differ_between_runs(const SessionInput& input) {
  return is_on_gpu(input) && !input.recipe.deterministic;
}

// Returns `configuration` with the batch size of `other`, where that has one.
Configuration at_batch_size_of(const Configuration& other, Configuration configuration) {
  if (const KnobValue* batch = other.find(kBatchSize)) configuration.set(kBatchSize, *batch);
  return configuration;
}

// Returns `configuration` with the starting values of all knobs of semantics. Where an extension is on that is none of
// these, the batch size stays: the extension may train correctly at another one only.
Configuration same_job(const SessionInput& input, const Configuration& configuration) {
  Configuration back;
  const Configuration change =
      part_of(input, input.starting.change_to(configuration), RiskClass::semantics);
  for (const auto& [name, value] : change.values()) {
    if (const KnobValue* start = input.starting.find(name)) back.set(name, *start);
  }
  Configuration same = configuration.with(back);
  if (!differ_in_extension(input, input.starting, same)) return same;
  return at_batch_size_of(configuration, std::move(same));
}

// What is compared of a change to a configuration.
struct Compared {
  Configuration before;
  Configuration change;
};

// `whole` is the candidate as the same job. With an extension on, `before` has the candidate's batch size, too. Where
// that is not the incumbent's, nothing has compared the extension at it, so that it counts as part of the change.
Compared compared_of(const SessionInput& input, const Configuration& incumbent,
                     const Configuration& change, const Configuration& whole) {
  Compared compared{.before = incumbent, .change = change};
  if (!differ_in_extension(input, input.starting, whole)) return compared;
  compared.before = at_batch_size_of(whole, incumbent);
  if (compared.before == incumbent) return compared;
  const Configuration beside_start = input.starting.change_to(whole);
  for (const auto& [name, value] : beside_start.values()) {
    const KnobValue* const off = input.starting.find(name);
    if (off == nullptr || !is_of_extension(input, name)) continue;
    compared.change.set(name, value);
    compared.before.set(name, *off);
  }
  return compared;
}

// How near the candidate must come to the reference.
Leeway leeway_of(const SessionInput& input, const Configuration& reference,
                 const Configuration& candidate) {
  if (!differ_in_extension(input, reference, candidate)) return Leeway::usual;
  const bool is_reduced = std::ranges::any_of(candidate.values(), [&input](const auto& setting) {
    if (!setting.first.starts_with("precision.")) return false;
    const auto knob = recipes::find_knob(input.knobs, setting.first);
    return knob && setting.second != knob->default_value;
  });
  return is_reduced ? Leeway::narrow_in_16_bits : Leeway::narrow;
}

// The claim of a change. `exact_or_numerics`: equal bits, but the recipe also permits numerics.
enum class Claim { exact, exact_or_numerics, numerics };

Claim claim_of(const SessionInput& input, const Configuration& change) {
  if (!part_of(input, change, RiskClass::numerics).empty()) return Claim::numerics;
  const bool may_round = input.recipe.allows(RiskClass::numerics, change);
  return may_round ? Claim::exact_or_numerics : Claim::exact;
}

LossKind loss_of(const SessionInput& input) {
  // The loss of a script is not known.
  const std::string& loss = input.recipe.loss;
  const bool is_entropy = !input.is_script && (loss == "cross_entropy" || loss == "bce");
  return is_entropy ? LossKind::cross_entropy : LossKind::other;
}

// An error of the reference alone, compared with itself.
tl::unexpected<Error> error_of_reference(Error error) {
  error.is_of_reference = true;
  return tl::unexpected<Error>(std::move(error));
}

// The steps with the initial moments, without what a new start of the optimizer may change by much.
UpdateComparison renewed_of(const UpdateComparison& updates) {
  UpdateComparison renewed = updates.renewed.front();
  renewed.reference_losses.clear();
  renewed.candidate_losses.clear();
  renewed.outputs.reset();
  return renewed;
}

bool are_all_equal(const UpdateComparison& updates) {
  return updates.equal && std::ranges::all_of(updates.renewed, &UpdateComparison::equal);
}

// `check` is that of the steps with the reached moments.
CheckRecord with_renewed(CheckRecord check, CheckRecord renewed) {
  if (!check.passed || renewed.passed) return check;
  renewed.detail.insert(0, "with the optimizer's initial moments: ");
  return renewed;
}

CheckRecord judge_reached(const UpdateComparison& updates, bool is_exact,
                          const UpdateComparison* rounded, LossKind loss, Leeway leeway) {
  CheckRecord check = check_reached(updates, is_exact, rounded, loss, leeway);
  if (updates.renewed.empty()) return check;
  const bool has_own = rounded != nullptr && !rounded->renewed.empty();
  const UpdateComparison own = has_own ? renewed_of(*rounded) : UpdateComparison();
  return with_renewed(std::move(check), check_reached(renewed_of(updates), is_exact,
                                                      has_own ? &own : nullptr, loss, leeway));
}

CheckRecord judge_repeated(const UpdateComparison& updates, const UpdateComparison& own) {
  CheckRecord check = check_repeated(updates, own);
  if (updates.renewed.empty()) return check;
  const UpdateComparison renewed = renewed_of(updates);
  // It also passes if the job has stopped learning, and such steps say nothing.
  CheckRecord again = check_reached(renewed, /*is_exact=*/true);
  if (!again.passed) {
    again = check_repeated(renewed, own.renewed.empty() ? own : renewed_of(own));
  }
  return with_renewed(std::move(check), std::move(again));
}

// Judges an exact change with unequal `updates` by the difference between two runs of one configuration. Returns
// `check` if two such runs are equal.
Result<CheckRecord> judge_by_repetition(TrainingBackend& backend, const Configuration& reference,
                                        const UpdateComparison& updates, CheckRecord check,
                                        CheckedSteps which) {
  auto own = backend.compare_updates(reference, reference, kCheckSteps, which);
  if (!own) return error_of_reference(own.error());
  return are_all_equal(*own) ? std::move(check) : judge_repeated(updates, *own);
}

// Compares steps from the state that the candidate's process has reached.
Result<CheckRecord> look_from_reached(const SessionInput& input, TrainingBackend& backend,
                                      const Configuration& reference,
                                      const Configuration& candidate, Claim claim) {
  const Leeway leeway = leeway_of(input, reference, candidate);
  auto updates = backend.compare_updates(reference, candidate, kCheckSteps, CheckedSteps::reached);
  if (!updates) return forward_error(updates);
  if (claim != Claim::numerics) {
    CheckRecord check =
        judge_reached(*updates, /*is_exact=*/true, /*rounded=*/nullptr, LossKind::other, leeway);
    if (check.passed) return check;
    if (claim == Claim::exact) {
      if (are_all_equal(*updates) || !may_differ_between_runs(input)) return check;
      // Starts from the state of the reference after its own steps, which is near the one that was reached.
      return judge_by_repetition(backend, reference, *updates, std::move(check),
                                 CheckedSteps::reached);
    }
  }
  const LossKind loss = loss_of(input);
  CheckRecord check =
      judge_reached(*updates, /*is_exact=*/false, /*rounded=*/nullptr, loss, leeway);
  const bool is_finite =
      updates->finite && std::ranges::all_of(updates->renewed, &UpdateComparison::finite);
  if (check.passed || !is_finite) return check;
  // Compare with the effect of rounding alone: the job itself may amplify small differences.
  auto rounded = backend.compare_rounded(reference);
  if (!rounded) return error_of_reference(rounded.error());
  return judge_reached(*updates, /*is_exact=*/false, &*rounded, loss, leeway);
}

Result<CheckRecord> run_exact(const SessionInput& input, TrainingBackend& backend,
                              const Configuration& incumbent, const Configuration& change) {
  CheckRecord first;
  const std::vector<CheckedSteps> looks = looks_at(backend);
  for (const CheckedSteps which : looks) {
    auto updates = backend.compare_updates(incumbent, incumbent.with(change), kCheckSteps, which);
    if (!updates) return forward_error(updates);
    CheckRecord check = check_equal(*updates);
    if (!check.passed && !updates->equal && may_differ_between_runs(input)) {
      auto judged =
          judge_by_repetition(backend, incumbent, *updates, std::move(check), looks.back());
      if (!judged) return judged;
      check = *std::move(judged);
    }
    if (which == CheckedSteps::later && looks.size() > 1) check.detail += kAfterMeasuring;
    if (!check.passed || which == looks.back()) {
      check.detail += first.detail.empty() ? "" : "; " + first.detail;
      check.steps += first.steps;
      return check;
    }
    first = std::move(check);
  }
  return first;
}

// Whether only the loader of a script changes. Such a change is checked by the batches, which are compared only if
// nothing else differs.
bool is_of_scripts_loader(const SessionInput& input, const Configuration& change) {
  return input.is_script && std::ranges::all_of(change.values(), [](const auto& entry) {
           return entry.first.starts_with("loader.");
         });
}

// Judges the last comparison again, beside the effect of rounding alone: the job itself may amplify small differences.
// Returns `check` if the job cannot measure that.
Result<CheckRecord> judge_beside_rounding(TrainingBackend& backend, const Configuration& reference,
                                          const UpdateComparison& updates, CheckRecord check,
                                          LossKind loss, Leeway leeway) {
  auto rounded = backend.compare_rounded(reference);
  if (rounded) return check_numerics(updates, &*rounded, loss, leeway);
  if (rounded.error().kind != ErrorKind::unsupported) return error_of_reference(rounded.error());
  return check;
}

// REQUIRES: both have one batch size.
Result<CheckRecord> run_numerics(const SessionInput& input, TrainingBackend& backend,
                                 const Configuration& reference, const Configuration& candidate) {
  const Leeway leeway = leeway_of(input, reference, candidate);
  auto updates = backend.compare_updates(reference, candidate, kCheckSteps, CheckedSteps::later);
  if (!updates) return forward_error(updates);
  const LossKind loss = loss_of(input);
  CheckRecord later = check_numerics(*updates, /*rounded=*/nullptr, loss, leeway);
  if (!later.passed && updates->finite) {
    auto judged =
        judge_beside_rounding(backend, reference, *updates, std::move(later), loss, leeway);
    if (!judged) return judged;
    later = *std::move(judged);
  }
  const bool is_only_look = looks_at(backend).size() == 1;
  if (!is_only_look) later.detail += kAfterMeasuring;
  if (!later.passed || is_only_look) return later;
  updates = backend.compare_updates(reference, candidate, 1, CheckedSteps::first);
  if (!updates) return forward_error(updates);
  CheckRecord first = check_numerics(*updates, /*rounded=*/nullptr, loss, leeway);
  // One step is too few to be led astray, so that rounding excuses nothing beyond the usual limits.
  if (!first.passed && leeway != Leeway::usual &&
      check_numerics(*updates, /*rounded=*/nullptr, loss).passed) {
    auto judged =
        judge_beside_rounding(backend, reference, *updates, std::move(first), loss, leeway);
    if (!judged) return judged;
    first = *std::move(judged);
  }
  return first.passed ? later : first;
}

}  // namespace

Result<std::vector<CheckRecord>> run_checks(const SessionInput& input, TrainingBackend& backend,
                                            const Configuration& incumbent,
                                            const Configuration& change) {
  std::vector<CheckRecord> checks;
  const auto keep = [&checks](Result<CheckRecord> check) -> Result<bool> {
    if (!check) return forward_error(check);
    checks.push_back(std::move(*check));
    return checks.back().passed;
  };

  const Configuration candidate = incumbent.with(change);
  const Configuration whole = same_job(input, candidate);
  const Compared compared = compared_of(input, incumbent, change, whole);
  const Configuration exact = part_of(input, compared.change, RiskClass::exact);
  bool needs_numerics = !part_of(input, compared.change, RiskClass::numerics).empty();
  const Configuration start = at_batch_size_of(whole, input.starting);
  const Configuration before = at_batch_size_of(whole, same_job(input, compared.before));
  // The steps of the reference are trusted where no extension is on, so that one which was kept before cannot speak for
  // the next.
  const bool is_beside_extension =
      differ_in_extension(input, before, whole) && differ_in_extension(input, start, before);
  const Configuration reference = needs_numerics || is_beside_extension ? start : before;
  const auto keep_reached = [&]() -> Result<bool> {
    const Configuration claimed = is_beside_extension ? start.change_to(whole) : compared.change;
    auto reached = look_from_reached(input, backend, reference, whole, claim_of(input, claimed));
    if (reached) reached->detail += kAfterBlocks;
    return keep(std::move(reached));
  };
  const bool has_reached = differ_in_extension(input, reference, whole);
  // What makes another job may need a process of its own: then the state of the measured one is carried to another
  // process at the end, which may be at the cost of that one.
  const bool is_carried = has_reached && !backend.share_process(whole, candidate);
  // The other comparisons put the process back to the initial parameters.
  if (is_carried) {
    if (auto kept = backend.keep_state(candidate); !kept) return forward_error(kept);
  } else if (has_reached) {
    auto passed = keep_reached();
    if (!passed) return forward_error(passed);
    if (!*passed) return checks;
  }
  if (!exact.empty()) {
    auto passed = keep(run_exact(input, backend, compared.before, exact));
    if (!passed) return forward_error(passed);
    if (!*passed) {
      if (!input.recipe.allows(RiskClass::numerics, exact)) return checks;
      checks.back().detail += input.is_script ? "; checked as numerics, which --allow permits"
                                              : "; checked as numerics, which the recipe permits";
      needs_numerics = true;
    }
  }
  if (needs_numerics) {
    const Configuration& beside = is_of_scripts_loader(input, change) ? incumbent : start;
    auto passed = keep(run_numerics(input, backend, beside, at_batch_size_of(start, candidate)));
    if (!passed) return forward_error(passed);
    if (!*passed) return checks;
  }
  if (is_carried) {
    if (auto taken = backend.take_state(whole); !taken) return forward_error(taken);
    auto passed = keep_reached();
    if (!passed) return forward_error(passed);
    if (!*passed) return checks;
  }
  if (!part_of(input, change, RiskClass::semantics).empty()) {
    const std::vector<CheckedSteps> looks = looks_at(backend);
    const bool is_beside = backend.trains_for_real();  // the reference goes on training
    auto updates = backend.compare_updates(is_beside ? incumbent : candidate, candidate,
                                           kCheckSteps, looks.back());
    if (!updates) return forward_error(updates);
    keep(check_semantics(*updates, batch_rule(input, incumbent, candidate))).value();
  }
  return checks;
}

Configuration checked_after_training(const SessionInput& input, const Configuration& best) {
  return same_job(input, best);
}

Result<CheckRecord> check_trained(const SessionInput& input, TrainingBackend& backend,
                                  const Configuration& best) {
  const Configuration candidate = checked_after_training(input, best);
  if (!backend.share_process(candidate, best)) {
    if (auto kept = backend.keep_state(best); !kept) return forward_error(kept);
    if (auto taken = backend.take_state(candidate); !taken) return forward_error(taken);
  }
  const Configuration reference = at_batch_size_of(candidate, input.starting);
  auto check = look_from_reached(input, backend, reference, candidate,
                                 claim_of(input, reference.change_to(candidate)));
  if (check) check->detail += kAfterTraining;
  return check;
}

Configuration blamed_part(const SessionInput& input, const Configuration& best) {
  const Configuration change = input.starting.change_to(checked_after_training(input, best));
  Configuration of_extensions;
  for (const auto& [name, value] : change.values()) {
    if (is_of_extension(input, name)) of_extensions.set(name, value);
  }
  if (!of_extensions.empty()) return of_extensions;
  Configuration of_numerics = part_of(input, change, RiskClass::numerics);
  return of_numerics.empty() ? change : of_numerics;
}

}  // namespace autotuned::tuner
