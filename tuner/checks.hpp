// SPDX-License-Identifier: Apache-2.0
// Checks whether a change still trains the same model: from compared updates to the record of a check, by risk class
// (docs/architecture.md, "Checks").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/context.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// The number of steps that a check makes under each of the two configurations. It is large enough to show two errors: lost momentum
// (by then two thirds of the update are missing), and a gradient that has stopped (the remaining momentum no longer hides it).
inline constexpr std::int64_t kCheckSteps = 8;

// The check of an exact change: parameters, buffers, input batches and outputs in evaluation mode are equal,
// value for value, and at least one parameter moved.
[[nodiscard]] CheckRecord check_equal(const UpdateComparison& updates);

// The check of an exact change where two runs of one configuration already differ, because the device uses
// nondeterministic algorithms. `own` compares two such runs. Updates, buffers and outputs may differ by three
// times as much as in `own`; labels and samples must be equal.
[[nodiscard]] CheckRecord check_repeated(const UpdateComparison& updates,
                                         const UpdateComparison& own);

// The kind of a job's loss. For a cross entropy it is known which values are small. Other losses, such as a mean squared error, have
// the scale of their targets: 1e-4 may be a large value.
enum class LossKind { cross_entropy, other };

// How far a change of numerics may lead the updates of parameters from the reference's.
enum class Leeway {
  usual,  // as check_numerics() says
  // An extension is on in the candidate alone: rounding narrows the limits, too.
  narrow,
  narrow_in_16_bits,  // the same, and the candidate's precision is reduced
};

// The check of a change of numerics. It passes if
//
// - all values are finite, and the loss of each step is within 10 % of the reference's: of 0.1 at least for a
//   cross entropy, of the reference's largest loss at least for others;
// - the update of each parameter has a norm of 0.8 to 1.25 times the reference's, and a cosine of at least
//   0.8 with it;
// - a parameter whose reference update is below a thousandth of the largest one, which is mostly rounding,
//   moves and stays below a hundredth of the largest one; the same holds for floating-point buffers such as
//   running averages;
// - other buffers, and buffers that the reference does not change, are equal;
// - the input labels are equal, and the input samples are equal except for rounding;
// - a step with gradients of zero, from the same state and with the same learning rate, moves each parameter as in the
//   reference: what differs is at most a thousandth of that update, and two units in the last place of the parameter. It
//   shows weight decay, which the steps with gradients hide;
// - outputs in evaluation mode differ from the reference's by at most half of the change that the steps made to the reference's.
//
// Some models amplify rounding: eight steps of a ResNet with small batches from parameters rounded to 16 bits
// deviate as far as eight steps in 16 bits. `rounded`, if not null, compares such steps of the reference with
// the reference itself. Each cosine must then reach two thirds of the one in `rounded`, where that is below
// 0.8, and outputs may differ by 1.5 times as much as in `rounded`, up to 0.9. So may losses other than a cross
// entropy, by the largest difference of a step in `rounded`, and up to 0.9 of the loss.
//
// With another `leeway` than the usual one, an update may turn and stretch four times as far as in `rounded` (that
// parameter's, or the median of all if it is larger), never farther than above, and always by a cosine of 0.98 and a norm
// ratio of 0.95, in 16 bits of 0.95 and 0.9. Without `rounded` these are the limits. check_reached() always allows a norm
// ratio of 0.9.
//
// The figures of the test data, if there are any, are those of the same weights: the loss within the limits of a step's,
// or three times the difference in `rounded`; the accuracy within 0.05 or two samples, or three times that difference.
// An exact change keeps them to the bit.
[[nodiscard]] CheckRecord check_numerics(const UpdateComparison& updates,
                                         const UpdateComparison* rounded = nullptr,
                                         LossKind loss = LossKind::cross_entropy,
                                         Leeway leeway = Leeway::usual);

// The check of steps from a state that a training has reached (CheckedSteps::reached). As check_equal() if
// `is_exact`, else as check_numerics(), with two differences:
//
// - If the steps would not move the reference, or lead it to NaN, updates say nothing. Then only the inputs
//   are compared. But a candidate that reaches NaN or infinity where the reference stays finite has failed.
// - With `rounded`, where rounding the start changes the norm of an update, its norm ratio may differ from 1
//   by 1.5 times as much as in `rounded` (0.2 at least). Outputs, and losses other than a cross entropy, may
//   differ by three times as much as in `rounded`, because late in a training the steps change outputs by
//   less than 16 bits do.
[[nodiscard]] CheckRecord check_reached(const UpdateComparison& updates, bool is_exact,
                                        const UpdateComparison* rounded = nullptr,
                                        LossKind loss = LossKind::cross_entropy,
                                        Leeway leeway = Leeway::usual);

// The check of a change of semantics. Such a change trains differently by design, so only finite values are
// required. `rule` names the new batch size and learning rate, and is added to the detail.
[[nodiscard]] CheckRecord check_semantics(const UpdateComparison& updates, const std::string& rule);

// Runs the checks that `change` to `incumbent` needs and returns their records, in the order in which they
// ran. Stops after the first that fails. Errors: of the backend.
//
// The exact part of the change is compared with the incumbent. If it is not equal bit for bit, but the recipe
// permits it as numerics, it is checked as numerics. Numerics are compared with the *starting* configuration,
// so that small deviations cannot add up, and at the starting batch size, so that another batch size does not
// hide them.
//
// With an extension on in the candidate, both sides of every comparison have the candidate's batch size instead: the
// extension may train correctly at another one only. A change of the batch size is then checked as one of the extensions,
// too, which nothing has compared at it.
//
// If the two configurations differ in a knob of an extension, the whole candidate is checked first from the state
// that the blocks have reached: an extension may train correctly at first and wrongly later. If a knob of
// semantics in the change needs another process, that state is carried to one without it, after the other checks.
// If the incumbent has an extension on, too, the starting configuration is the reference of that check. An exact
// change without permission is held to check_repeated() there, too, where the device does not repeat itself.
//
// Steps with the initial moments (UpdateComparison::renewed) are held to the limits of those from the reached
// state, except that their losses and outputs are not compared: a new start of the optimizer may move far. They
// count even if the others say nothing.
[[nodiscard]] Result<std::vector<CheckRecord>> run_checks(const SessionInput& input,
                                                          TrainingBackend& backend,
                                                          const Configuration& incumbent,
                                                          const Configuration& change);

// The configuration that the check after the training compares with the starting one: `best`, without changes
// of semantics; with an extension on, both have the batch size of `best`. Equal to the starting configuration if there
// is nothing to check.
[[nodiscard]] Configuration checked_after_training(const SessionInput& input,
                                                   const Configuration& best);

// The check after the training with `best`, in the process that trained, from the trained weights. REQUIRES:
// checked_after_training() is not the starting configuration. This function, checked_after_training() and
// blamed_part() read only these fields of `input`: recipe, is_script, knobs, extension_knobs, starting,
// job_facts.
[[nodiscard]] Result<CheckRecord> check_trained(const SessionInput& input, TrainingBackend& backend,
                                                const Configuration& best);

// Returns the part of `best` that later runs refuse after a failed check of the trained model: the knobs of extensions if `best`
// changes any, else the knobs of numerics, else everything that was checked.
[[nodiscard]] Configuration blamed_part(const SessionInput& input, const Configuration& best);

}  // namespace autotuned::tuner
