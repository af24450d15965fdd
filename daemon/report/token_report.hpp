// SPDX-License-Identifier: Apache-2.0
// Texts with rates and figures of language models, whose samples are blocks of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// The number of tokens in a sample that the model sees; 0: its samples are not tokens. `recipe` is that column of a
// run.
[[nodiscard]] std::int64_t tokens_per_sample(const Json& recipe);

// "1,234 samples/s", or "1,234 samples/s (78,976 tokens/s)" unless `tokens_per_second` is 0.
[[nodiscard]] std::string rate_with_tokens(double samples_per_second, double tokens_per_second,
                                           std::string_view unit = "samples");
// The rate in an event: `samples_per_second`, with `tokens_per_second` if it is there.
[[nodiscard]] std::string told_rate(const Json& event);
// The text for a rate of this run, with tokens if its samples are tokens.
[[nodiscard]] std::string run_rate_text(const storage::RunRow& run, double samples_per_second);

// `perplexity` and `bits_per_byte`, whichever `figures` has under its name behind `prefix`: "perplexity 5.931" and
// "2.568 bits per byte", each between `before` and `after`.
[[nodiscard]] std::string token_figures_text(const Json& figures, std::string_view prefix,
                                             std::string_view before, std::string_view after);

}  // namespace autotuned::daemon
