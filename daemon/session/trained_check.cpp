// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/trained_check.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "daemon/report/report.hpp"
#include "daemon/report/training_fallback.hpp"
#include "tuner/checks.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kAlwaysAffordable = std::chrono::seconds(10);
constexpr int kAffordableShare = 100;  // one in so many of the training's time

// The expected time of the check, from the rates of the training and of the trials.
nanoseconds expected_time(const storage::RunRow& run, int starts, int repetitions,
                          nanoseconds start) {
  const double duration_ns = get_number(run.training, "duration_ns").value_or(0.0);
  const double steps = get_number(run.training, "steps").value_or(0.0);
  const double step_ns = steps > 0.0 ? duration_ns / steps : 0.0;
  const double both_ns = step_ns * (1.0 + std::max(1.0, run.speedup.ratio));
  return starts * start +
         repetitions * nanoseconds(static_cast<std::int64_t>(both_ns * tuner::kCheckSteps));
}

Json not_made(const std::string& why) {
  return {{"passed", nullptr}, {"detail", why}};
}

// An extension that ends the check with an exception, a crash, a hang or its own lack of memory would be kept
// otherwise. It has no part in a failure of the reference.
bool is_blamed_on_extension(const storage::RunRow& run, const tuner::SessionInput& input,
                            const Error& error) {
  return tuner::differ_in_extension(input, input.starting, run.best) && !error.is_of_reference &&
         (error.kind == ErrorKind::internal || error.kind == ErrorKind::crashed ||
          error.kind == ErrorKind::timeout || !error.extensions.empty());
}

}  // namespace

Json check_training(const storage::RunRow& run, const tuner::SessionInput& input,
                    tuner::TrainingBackend& backend, nanoseconds start) {
  const Configuration checked = tuner::checked_after_training(input, run.best);
  if (checked == input.starting) {
    // Not in silence: the model keeps steps of another configuration.
    const std::string doubted = doubted_steps(run);
    if (doubted.empty()) return nullptr;
    return not_made("the training went on as the start trains, and no check tells whether " +
                    doubted + ", were right");
  }
  const nanoseconds training(get_integer(run.training, "duration_ns").value_or(0));
  const int starts = (backend.share_process(run.best, checked) ? 0 : 1) +
                     (backend.share_process(checked, input.starting) ? 0 : 1);
  // With the reached moments and the initial ones.
  const int repetitions = tuner::differ_in_extension(input, input.starting, checked) ? 2 : 1;
  const nanoseconds expected = expected_time(run, starts, repetitions, start);
  if (expected > std::max(kAlwaysAffordable, training / kAffordableShare)) {
    return not_made("it would take " + format_duration(expected) + ", and the training took " +
                    format_duration(training));
  }
  auto check = tuner::check_trained(input, backend, run.best);
  if (!check && is_blamed_on_extension(run, input, check.error())) {
    check = CheckRecord{.risk = "numerics",
                        .passed = false,
                        .detail =
                            "an extension is on, and the check ended with an error, which "
                            "counts as a failure: " +
                            check.error().message()};
  }
  if (!check) return not_made(check.error().message());
  Json told = check_json(*check);
  if (!check->passed) told["refused"] = tuner::blamed_part(input, run.best).to_json();
  return told;
}

}  // namespace autotuned::daemon
