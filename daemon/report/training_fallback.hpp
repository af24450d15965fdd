// SPDX-License-Identifier: Apache-2.0
// A training that failed under the kept configuration and went on with another one: it ran out of memory, or extensions
// failed in it or did what they must not. RunRow::training has it as `fallbacks`, the first one first:
// [{"configuration", "change", "error", "is_memory_of_others", "unix_ns"}]. `change` is to the kept configuration. One
// because of extensions also has "extensions" (their names), "refused" (their settings until then) and "from_step" (0:
// it began anew; null: the step of its checkpoint is not known), and "fault" if nothing of theirs has plainly failed:
// "suspected" or "trained_otherwise" (base/result.hpp). One because the trainer ended again and again has "ends", the
// number of times, too. That suspected extensions are the cause is a guess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

inline constexpr const char* kFallbacks = "fallbacks";

// The configuration with which the run trains: the last one that it fell back to, or the kept one.
[[nodiscard]] Configuration trained_configuration(const storage::RunRow& run);

// Records that the run trains with `next` from now on, because the configuration before failed with `error`. It is one
// because of extensions if Error::extensions names some; only that has `from_step`, and `ends` above 0 if it is a
// guess.
void add_fallback(const Configuration& next, const Error& error, std::int64_t unix_ns,
                  storage::RunRow& run, std::optional<std::int64_t> from_step = std::nullopt,
                  int ends = 0);

// After a guess has proved wrong, because the training failed without the extensions as well: the run trains again with
// what it trained with before the guess. Does nothing if there was no guess.
void take_back_guess(storage::RunRow& run);

// Whether other programs on the GPU caused one of these failures: without them the kept configuration may fit.
[[nodiscard]] bool is_memory_taken_by_others(const storage::RunRow& run);

// The settings of extensions without which the training went on, those of each fallback together.
[[nodiscard]] std::vector<Configuration> refused_in_training(const storage::RunRow& run);
// The extensions that the confirmed speed-up was measured with and the training went on without: "plugin mine". Empty
// if there are none, or nothing was confirmed.
[[nodiscard]] std::string left_out_plugins(const storage::RunRow& run);
// What to say beside that speed-up: "measured with plugin mine, which the training left out"; empty as above.
[[nodiscard]] std::string left_out_text(const storage::RunRow& run);

// "the training ran out of memory and went on with batch_size 512 → 256: ..."; empty if it never did.
[[nodiscard]] std::string memory_fallback_text(const storage::RunRow& run);
// "the training went on from step 600 without plugin mine (mine.skip on → off), which is not tried again: ..."; empty
// if it never did.
[[nodiscard]] std::string extension_fallback_text(const storage::RunRow& run);
// Both; empty if it trained with the kept configuration.
[[nodiscard]] std::string fallback_text(const storage::RunRow& run);

// "the steps up to 600 were trained with it and may be wrong, too: --without mine with another --output trains them
// anew": what to say where a comparison has found out that these extensions train otherwise, and the training goes on
// from this step. Empty where it begins anew. Another folder makes another run; in this one the command goes on.
[[nodiscard]] std::string doubted_steps_text(const std::vector<std::string>& names,
                                             std::optional<std::int64_t> from_step);
// "the steps up to 600, with plugin mine": those that the trained model keeps from such an extension; empty for none.
[[nodiscard]] std::string doubted_steps(const storage::RunRow& run);

// "plugin mine", or "plugin mine and plugin other".
[[nodiscard]] std::string plugins_text(const std::vector<std::string>& names);
// "from step 600", "from its start" for step 0, or "from its last checkpoint".
[[nodiscard]] std::string from_text(std::optional<std::int64_t> step);

}  // namespace autotuned::daemon
