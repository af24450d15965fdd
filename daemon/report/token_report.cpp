// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/token_report.hpp"

#include <fmt/format.h>

#include "daemon/report/report.hpp"

namespace autotuned::daemon {

std::int64_t tokens_per_sample(const Json& recipe) {
  const Json& data = member(recipe, "data");
  const std::string type = get_string(data, "type").value_or("");
  if (type != "tokens" && type != "synthetic_tokens") return 0;
  return get_integer(data, "context").value_or(0);
}

std::string rate_with_tokens(double samples_per_second, double tokens_per_second,
                             std::string_view unit) {
  const std::string rate = rate_text(samples_per_second, unit);
  if (!(tokens_per_second > 0.0)) return rate;
  return fmt::format("{} ({})", rate, rate_text(tokens_per_second, "tokens"));
}

std::string told_rate(const Json& event) {
  return rate_with_tokens(get_number(event, "samples_per_second").value_or(0.0),
                          get_number(event, "tokens_per_second").value_or(0.0));
}

std::string run_rate_text(const storage::RunRow& run, double samples_per_second) {
  const auto tokens = static_cast<double>(tokens_per_sample(run.recipe));
  return rate_with_tokens(samples_per_second, samples_per_second * tokens, unit_of(run));
}

std::string token_figures_text(const Json& figures, std::string_view prefix,
                               std::string_view before, std::string_view after) {
  const auto figure = [&](const char* name) {
    return get_number(figures, (std::string(prefix) + name).c_str());
  };
  std::string text;
  if (const auto perplexity = figure("perplexity"))
    text += fmt::format("{}perplexity {:.4g}{}", before, *perplexity, after);
  if (const auto bits = figure("bits_per_byte"))
    text += fmt::format("{}{:.4g} bits per byte{}", before, *bits, after);
  return text;
}

}  // namespace autotuned::daemon
