// SPDX-License-Identifier: Apache-2.0
// Does a change still train the same model? From compared updates to the record of a check, by risk
// class (docs/architecture.md, "Checks").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/context.hpp"
#include "tuner/training_backend.hpp"

namespace autotuned::tuner {

// Steps of each arm in a look. Long enough for momentum that was lost to be missed by two thirds, and for a gradient that has
// stopped to be missed beside the momentum that goes on without it.
inline constexpr std::int64_t kCheckSteps = 8;

// Exact: parameters, buffers, the batches that the model was given and its outputs in evaluation mode are equal, value
// for value, and something moved.
[[nodiscard]] CheckRecord check_equal(const UpdateComparison& updates);

// Exact, where two runs of one configuration differ (`own`, by the device's own algorithms): updates, buffers and outputs
// may be three times as far apart as there; labels and samples are equal.
[[nodiscard]] CheckRecord check_repeated(const UpdateComparison& updates,
                                         const UpdateComparison& own);

// Numerics: everything is finite; each parameter's update has a norm of 0.8 to 1.25 times the
// reference's and a cosine of at least 0.8 with it; each step's loss is within 10 % (of 0.1 at least).
// A parameter whose reference update is under a thousandth of the largest one is mostly rounding: of it
// is asked only that it moves and stays under a hundredth. The same is asked of floating-point buffers, as running
// averages are, while others are equal, and those that the reference leaves alone. The model was given the same labels
// and, but for rounding, samples. What it answers in evaluation mode is at most half as far from the reference's answer
// as the steps have moved that one.
//
// Some models turn their own updates: eight steps from parameters that were rounded to 16 bits lead a ResNet
// with small batches as far astray as eight steps in 16 bits. With `rounded`, such steps of the reference
// itself, each cosine must reach two thirds of the one there, where that is less than 0.8, and outputs may be 1.5 times as far
// apart as there, up to 0.9.
[[nodiscard]] CheckRecord check_numerics(const UpdateComparison& updates,
                                         const UpdateComparison* rounded = nullptr);

// Of steps from a state that a process has reached (CheckedSteps::reached): as check_equal() or check_numerics(), but
//
// - Steps that would not move even the reference, or lead it to NaN, say nothing about updates. Then only what the model was
//   given is held against the reference's.
// - With `rounded`, where rounding the start alone changes the length of an update, its norm ratio may be 1.5 times as far
//   from 1 as there (0.2 at least). Outputs may be three times as far apart as there: late steps change the answers by less
//   than 16 bits change them, so what the steps changed is no measure.
[[nodiscard]] CheckRecord check_reached(const UpdateComparison& updates, bool is_exact,
                                        const UpdateComparison* rounded = nullptr);

// Semantics: another training job by design, so only that it stays finite; `rule` (what became of
// batch size and learning rate) goes into the detail.
[[nodiscard]] CheckRecord check_semantics(const UpdateComparison& updates, const std::string& rule);

// Runs the checks that `change` to `incumbent` demands, in the order run; stops after the first that
// fails. Errors are those of the job.
//
// The part of the change that claims to be exact is compared with the incumbent. One that is not
// bit for bit but that the recipe permits as numerics is checked as that. Numerics are compared with
// the *starting* configuration, so that small deviations cannot pile up, at the starting batch size, so
// that another batch does not hide them.
//
// Where the two that are compared differ in a knob of an extension, the whole candidate is checked first from the state
// that the blocks have left: code of others may train well until the training has come far.
[[nodiscard]] Result<std::vector<CheckRecord>> run_checks(const SessionInput& input,
                                                          TrainingBackend& backend,
                                                          const Configuration& incumbent,
                                                          const Configuration& change);

// What a check of a trained model compares with the starting configuration: `best`, but for what is another training job by
// design. Equal to the starting configuration where there is nothing to check.
[[nodiscard]] Configuration checked_after_training(const SessionInput& input,
                                                   const Configuration& best);

// Right after a training with `best`, in the process that trained: from the weights that it has come to. REQUIRES:
// checked_after_training() is not the starting configuration. This and its neighbours need of `input` the recipe, the knobs,
// those of extensions, the starting configuration and the job's facts.
[[nodiscard]] Result<CheckRecord> check_trained(const SessionInput& input, TrainingBackend& backend,
                                                const Configuration& best);

// What is to blame for a failed check of a trained model: the knobs of extensions where `best` turns any, else those of
// numerics, else all that was checked.
[[nodiscard]] Configuration blamed_part(const SessionInput& input, const Configuration& best);

}  // namespace autotuned::tuner
