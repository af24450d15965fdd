// SPDX-License-Identifier: Apache-2.0
// Texts about the course of a training: where it was stopped, and whether it was as fast as the tuning had promised.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The key of RunRow::training for where the training of a cancelled run was stopped: {"steps", "steps_total", "epochs",
// "epochs_total"}. `epochs` are whole ones; a total is null if the trainer had not told it yet. Of a training that ended
// with an error, the steps are those that the trainer told last: `epochs` is null, and "is_last_told" true. It is left
// out as soon as the training goes on.
inline constexpr const char* kStoppedAt = "stopped_at";

// What is stored there. `answer`: that of the trainer to a `train` that was cancelled; `told`: the last progress of steps
// that it reported, or null.
[[nodiscard]] Json stop_of(const Json& answer, const Json& told);
// The same of a training that ended with an error; null if it had told no steps.
[[nodiscard]] Json failure_of(const Json& told);
// "at step 600 of 1,200"; after an error "after step 590 of 1,200". Empty if the run is neither cancelled nor ended by an
// error, or was not while it trained.
[[nodiscard]] std::string stopped_text(const storage::RunRow& run);

// Whether the training was more than 30 % slower than what tuning had measured, and slower than the lower end of the
// confirmed speed-up. False for a training of less than ten seconds, which is mostly its first steps, and for
// one that went on with another configuration.
[[nodiscard]] bool has_trained_slowly(const storage::RunRow& run);
// What is said of that below the rates of the two, as lines of a summary; empty if it was not slow.
[[nodiscard]] std::string slow_training_lines(const storage::RunRow& run);
// The warning about it at the end of the training, with the changes that were kept; `extensions` are those among them.
// Empty if it was not slow, if nothing was kept, or if other work took the CPU time.
[[nodiscard]] std::string slow_training_warning(const storage::RunRow& run,
                                                const std::vector<std::string>& extensions);

}  // namespace autotuned::daemon
