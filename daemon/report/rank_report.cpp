// SPDX-License-Identifier: Apache-2.0
#include "daemon/report/rank_report.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace autotuned::daemon {

namespace {

constexpr double kMaxBehind =
    0.05;  // of a step; less comes and goes with other work on the machine

}  // namespace

std::int64_t ranks_of(const Json& recipe) {
  return get_integer(member(recipe, "train"), "ranks").value_or(1);
}

std::string ranks_text(std::int64_t ranks, std::int64_t batch_size) {
  if (ranks <= 1) return {};
  return fmt::format("{} ranks of {}, {} samples a step", ranks, format_count(batch_size),
                     format_count(ranks * batch_size));
}

std::string ranks_text(const Json& recipe, const Configuration& configuration) {
  const std::int64_t batch_size =
      configuration.find("batch_size") != nullptr
          ? configuration.integer("batch_size")
          : get_integer(member(recipe, "train"), "batch_size").value_or(0);
  return ranks_text(ranks_of(recipe), batch_size);
}

std::string told_ranks(const Json& event) {
  const std::string text = ranks_text(get_integer(event, "ranks").value_or(1),
                                      get_integer(event, "batch_size").value_or(0));
  return text.empty() ? text : ", " + text;
}

std::string slow_rank_text(const Json& metrics) {
  const double behind = get_number(metrics, "ranks.behind_ratio").value_or(0.0);
  const double slowest = get_number(metrics, "ranks.slowest").value_or(-1.0);
  if (!(behind > kMaxBehind) || !(behind <= 1.0) || !(slowest >= 0.0)) return {};
  return fmt::format(
      "Rank {:.0f} is the slowest: the others wait {:.0f} % of the step for it. `autotuned "
      "profile` shows what each rank does.",
      slowest, behind * 100);
}

}  // namespace autotuned::daemon
