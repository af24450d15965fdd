// SPDX-License-Identifier: Apache-2.0
// Rates and figures of language models, whose samples are blocks of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "storage/history.hpp"

namespace autotuned::daemon {

// Tokens of a sample that the model sees. `recipe` is that of a run. 0: its samples are no tokens.
[[nodiscard]] std::int64_t tokens_per_sample(const Json& recipe);

// "1,234 samples/s"; of tokens "1,234 samples/s (78,976 tokens/s)". 0 tokens: samples are none.
[[nodiscard]] std::string rate_with_tokens(double samples_per_second, double tokens_per_second,
                                           std::string_view unit = "samples");
// The rate in an event: `samples_per_second`, with `tokens_per_second` if it is there.
[[nodiscard]] std::string told_rate(const Json& event);
// A rate of a run.
[[nodiscard]] std::string run_rate_text(const storage::RunRow& run, double samples_per_second);

// `perplexity` and `bits_per_byte`, whichever `figures` has under its name behind `prefix`: "perplexity 5.931" and
// "2.568 bits per byte", each between `before` and `after`.
[[nodiscard]] std::string token_figures_text(const Json& figures, std::string_view prefix,
                                             std::string_view before, std::string_view after);

}  // namespace autotuned::daemon
