// SPDX-License-Identifier: Apache-2.0
// A training that ran out of memory under the kept configuration and went on with another one. RunRow::training has it as
// `fallbacks`: [{"configuration", "change", "error", "is_memory_of_others", "unix_ns"}], the first one first. `change` is to the kept
// configuration.
#pragma once

#include <cstdint>
#include <string>

#include "base/configuration.hpp"
#include "base/result.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

inline constexpr const char* kFallbacks = "fallbacks";

// The configuration with which the run trains: the last one that it fell back to, or the kept one.
[[nodiscard]] Configuration trained_configuration(const storage::RunRow& run);

// Records that the run trains with `next` from now on, because the configuration before failed with `error`.
void add_fallback(const Configuration& next, const Error& error, std::int64_t unix_ns,
                  storage::RunRow& run);

// Whether other programs on the GPU caused one of these failures: without them the kept configuration may fit.
[[nodiscard]] bool is_memory_taken_by_others(const storage::RunRow& run);

// "the training ran out of memory and went on with batch_size 512 → 256: ..."; empty if it never did.
[[nodiscard]] std::string memory_fallback_text(const storage::RunRow& run);

}  // namespace autotuned::daemon
