// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/timed_pairs.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "daemon/common/exit_codes.hpp"
#include "tuner/comparison.hpp"
#include "tuner/measurement.hpp"
#include "tuner/verdict.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;
constexpr double kMaxMinGain = 10.0;
// The shortest and the longest plausible block.
constexpr double kMinSeconds = 1e-9;
constexpr double kMaxSeconds = 1e6;
constexpr std::int64_t kMaxCalls = 1'000'000'000'000;
// As for a confirmation: neither side is the one that is there already.
constexpr double kErrorRatio = 0.01;
// Longer blocks have many calls each, but there is only time for a few blocks (docs/statistics.md, "Rare stalls").
constexpr double kSlowBlockSeconds = 1.0;

struct Timing {
  double seconds = 0.0;
  std::int64_t calls = 0;

  [[nodiscard]] double rate() const { return static_cast<double>(calls) / seconds; }
};

Result<Timing> timing_from(const Json& line, const char* seconds_field, const char* calls_field) {
  const auto seconds = get_number(line, seconds_field);
  if (!seconds) return forward_error(seconds);
  const auto calls = get_integer(line, calls_field);
  if (!calls) return forward_error(calls);
  if (!(*seconds >= kMinSeconds && *seconds <= kMaxSeconds)) {
    return fail(ErrorKind::invalid, "a block takes from a nanosecond to 1e6 seconds",
                seconds_field);
  }
  if (*calls < 1 || *calls > kMaxCalls) {
    return fail(ErrorKind::invalid, "a block has from 1 to 1e12 calls", calls_field);
  }
  return Timing{.seconds = *seconds, .calls = *calls};
}

Block block_of(const Timing& timing) {
  Block block;
  block.duration_ns = std::llround(timing.seconds * 1e9);
  block.steps = timing.calls;
  block.samples = timing.calls;
  return block;
}

std::string verdict_name(const TrialRecord& trial) {
  return trial.rejection ? std::string(to_string(*trial.rejection)) : "faster";
}

class PairJudge {
 public:
  explicit PairJudge(double min_gain_ratio)
      : measurement_(tuner::ComparisonRules{.accept_error_probability = kErrorRatio,
                                            .reject_error_probability = kErrorRatio,
                                            .min_gain_ratio = min_gain_ratio}) {}

  void add(const Timing& a, const Timing& b) {
    measurement_.add({.candidate = b.rate(), .reference = a.rate()});
    measurement_.add_total(/*is_candidate=*/true, block_of(b));
    measurement_.add_total(/*is_candidate=*/false, block_of(a));
    seconds_ += a.seconds + b.seconds;
  }

  [[nodiscard]] Json answer() const {
    const bool is_watched = seconds_ <= 2.0 * kSlowBlockSeconds * measurement_.pairs();
    TrialRecord trial;
    tuner::decide_trial(trial, measurement_, is_watched, /*is_hopeless=*/false);
    const Estimate estimate = measurement_.estimate();
    const bool is_decided =
        trial.verdict == Verdict::accepted || measurement_.decision() == tuner::Decision::reject;
    return {{"pairs", estimate.pairs},
            {"ratio", estimate.ratio},
            {"low", estimate.low > 0.0 ? Json(estimate.low) : Json()},
            {"high", estimate.high < tuner::kNoUpperEnd ? Json(estimate.high) : Json()},
            {"a_per_second", measurement_.reference_rate()},
            {"b_per_second", measurement_.candidate_rate()},
            {"is_decided", is_decided},
            {"verdict", verdict_name(trial)}};
  }

 private:
  tuner::Measurement measurement_;
  double seconds_ = 0.0;  // of all blocks
};

Result<PairJudge> judge_from(const Json& line) {
  const auto min_gain = get_number(line, "min_gain_ratio");
  if (!min_gain) return forward_error(min_gain);
  if (!(*min_gain >= 0.0 && *min_gain <= kMaxMinGain)) {
    return fail(ErrorKind::invalid, "the least gain is a ratio from 0 to 10", "min_gain_ratio");
  }
  return PairJudge(*min_gain);
}

// Nothing for the rules.
Result<std::optional<Json>> answer_to(const std::string& text, std::optional<PairJudge>& judge) {
  const auto line = parse_json(text, "a line of pairs", kMaxLineBytes);
  if (!line) return forward_error(line);
  if (!judge) {
    auto made = judge_from(*line);
    if (!made) return forward_error(made);
    judge.emplace(*std::move(made));
    return std::optional<Json>();
  }
  const auto a = timing_from(*line, "a_seconds", "a_calls");
  if (!a) return forward_error(a);
  const auto b = timing_from(*line, "b_seconds", "b_calls");
  if (!b) return forward_error(b);
  judge->add(*a, *b);
  return std::optional<Json>(judge->answer());
}

}  // namespace

int judge_pairs(std::istream& in, std::ostream& out) {
  std::optional<PairJudge> judge;
  for (std::string text; std::getline(in, text);) {
    const auto answer = answer_to(text, judge);
    if (!answer) {
      const Json refusal = {{"error", answer.error().message()}};
      out << to_line(refusal) << "\n" << std::flush;
      return kUsageError;
    }
    if (*answer) out << to_line(**answer) << "\n" << std::flush;
  }
  return kDone;
}

}  // namespace autotuned::daemon
