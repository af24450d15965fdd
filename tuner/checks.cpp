// SPDX-License-Identifier: Apache-2.0
#include "tuner/checks.hpp"

#include <fmt/format.h>

#include <utility>

namespace autotuned::tuner {
namespace {

using recipes::RiskClass;

// Long enough for momentum that was lost to be missed by two thirds.
constexpr std::int64_t kCheckSteps = 8;

constexpr const char* kAfterMeasuring = " in the process that was measured";

// Batch size and learning rate before and after, in words.
std::string batch_rule(const SessionInput& input, const Configuration& incumbent,
                       const Configuration& candidate) {
  const KnobValue* before = incumbent.find("batch_size");
  const KnobValue* after = candidate.find("batch_size");
  if (before == nullptr || after == nullptr || *before == *after) return "permitted by the recipe";
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

Result<CheckRecord> run_exact(const SessionInput& input, TrainingBackend& backend,
                              const Configuration& incumbent, const Configuration& change) {
  CheckRecord first;
  // The process that was measured comes first: the other look may end it.
  for (const CheckedSteps which : {CheckedSteps::later, CheckedSteps::first}) {
    auto updates = backend.compare_updates(incumbent, incumbent.with(change), kCheckSteps, which);
    if (!updates) return forward_error(updates);
    CheckRecord check = check_equal(*updates);
    if (!check.passed && !updates->equal && may_differ_between_runs(input)) {
      // Bits cannot be asked for where two runs of one configuration differ.
      auto own = backend.compare_updates(incumbent, incumbent, kCheckSteps, CheckedSteps::first);
      if (!own) return forward_error(own);
      if (!own->equal) check = check_repeated(*updates, *own);
    }
    if (which == CheckedSteps::later) check.detail += kAfterMeasuring;
    if (!check.passed || which == CheckedSteps::first) {
      check.detail += first.detail.empty() ? "" : "; " + first.detail;
      check.steps += first.steps;
      return check;
    }
    first = std::move(check);
  }
  return first;
}

Result<CheckRecord> run_numerics(const SessionInput& input, TrainingBackend& backend,
                                 const Configuration& candidate) {
  Configuration same_batch = candidate;
  if (const KnobValue* batch = input.starting.find("batch_size")) {
    same_batch.set("batch_size", *batch);
  }
  // The process that was measured comes first: the other look may end it.
  auto updates =
      backend.compare_updates(input.starting, same_batch, kCheckSteps, CheckedSteps::later);
  if (!updates) return forward_error(updates);
  CheckRecord later = check_numerics(*updates);
  if (!later.passed && updates->finite) {
    // Is it the candidate that goes astray, or would the job by itself?
    auto rounded = backend.compare_rounded(input.starting);
    if (!rounded) return forward_error(rounded);
    later = check_numerics(*updates, &*rounded);
  }
  later.detail += kAfterMeasuring;
  if (!later.passed) return later;
  updates = backend.compare_updates(input.starting, same_batch, 1, CheckedSteps::first);
  if (!updates) return forward_error(updates);
  CheckRecord first = check_numerics(*updates);
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

  const Configuration exact = part_of(input, change, RiskClass::exact);
  bool needs_numerics = !part_of(input, change, RiskClass::numerics).empty();
  if (!exact.empty()) {
    auto passed = keep(run_exact(input, backend, incumbent, exact));
    if (!passed) return forward_error(passed);
    if (!*passed) {
      if (!input.recipe.allows(RiskClass::numerics, exact)) return checks;
      checks.back().detail += "; checked as numerics, which the recipe permits";
      needs_numerics = true;
    }
  }
  if (needs_numerics) {
    auto passed = keep(run_numerics(input, backend, incumbent.with(change)));
    if (!passed) return forward_error(passed);
    if (!*passed) return checks;
  }
  if (!part_of(input, change, RiskClass::semantics).empty()) {
    const Configuration candidate = incumbent.with(change);
    auto updates = backend.compare_updates(candidate, candidate, kCheckSteps, CheckedSteps::first);
    if (!updates) return forward_error(updates);
    keep(check_semantics(*updates, batch_rule(input, incumbent, candidate))).value();
  }
  return checks;
}

}  // namespace autotuned::tuner
