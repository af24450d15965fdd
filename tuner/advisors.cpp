// SPDX-License-Identifier: Apache-2.0
// Reads the answers of plugins.
#include "tuner/advisors.hpp"

#include <cmath>

namespace autotuned::tuner {
namespace {

constexpr std::size_t kMaxCandidates = 1000;
constexpr double kMaxPreparation = 86'400.0;  // seconds; no budget is longer than a day

tl::unexpected<Error> nonsense(const std::string& plugin, const std::string& what) {
  return fail(ErrorKind::invalid, what, "answer of plugin " + plugin);
}

Result<Proposal> parse_proposal(const Json& item, const std::string& plugin,
                                const std::string& place) {
  if (!item.is_object()) return nonsense(plugin, place + " is not an object");
  Proposal proposal;
  proposal.plugin = plugin;
  auto change = Configuration::from_json(member(item, "change"));
  if (!change) return nonsense(plugin, place + ".change: " + change.error().what);
  if (change->empty()) return nonsense(plugin, place + ".change names no knob");
  proposal.change = std::move(*change);
  const auto gain = get_number(item, "expected_gain_ratio");
  if (!gain) return nonsense(plugin, place + ": " + gain.error().what);
  if (*gain <= 0.0) {
    return nonsense(plugin, place + ".expected_gain_ratio is not above 0");
  }
  proposal.expected_gain_ratio = *gain;
  if (const Json& share = member(item, "signal_share_ratio"); !share.is_null()) {
    const auto ratio = get_number(item, "signal_share_ratio");
    if (!ratio) return nonsense(plugin, place + ": " + ratio.error().what);
    if (*ratio < 0.0 || *ratio > 1.0) {
      return nonsense(plugin, place + ".signal_share_ratio is not between 0 and 1");
    }
    proposal.signal_share_ratio = *ratio;
  }
  if (const Json& preparation = member(item, "preparation_s"); !preparation.is_null()) {
    const auto seconds = get_number(item, "preparation_s");
    if (!seconds) return nonsense(plugin, place + ": " + seconds.error().what);
    if (*seconds < 0.0 || *seconds > kMaxPreparation) {
      return nonsense(plugin, place + ".preparation_s is not between 0 and 86,400");
    }
    proposal.preparation = std::chrono::nanoseconds(std::llround(*seconds * 1e9));
  }
  auto reason = get_string(item, "reason");
  if (!reason) return nonsense(plugin, place + ": " + reason.error().what);
  if (reason->empty()) return nonsense(plugin, place + ".reason is empty");
  proposal.reason = std::move(*reason);
  return proposal;
}

}  // namespace

Result<Advice> parse_advice(const Json& answer, const std::string& plugin) {
  if (!answer.is_object()) return nonsense(plugin, "the answer is not an object");
  // The form in which the C++ façade of the SDK returns an exception.
  if (answer.contains("error")) {
    const Json& error = member(answer, "error");
    return nonsense(
        plugin, "it failed: " + (error.is_string() ? error.get<std::string>() : to_line(error)));
  }
  const Json& list = member(answer, "candidates");
  if (!list.is_array()) return nonsense(plugin, "candidates is not an array");
  if (list.size() > kMaxCandidates) {
    return nonsense(plugin, "there are more than 1,000 candidates");
  }
  Advice advice;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto proposal = parse_proposal(list[i], plugin, "candidates[" + std::to_string(i) + "]");
    if (!proposal) return forward_error(proposal);
    advice.proposals.push_back(std::move(*proposal));
  }
  const Json& because = member(answer, "none_because");
  if (because.is_string()) advice.none_because = because.get<std::string>();
  if (advice.proposals.empty() && advice.none_because.empty()) {
    return nonsense(plugin, "there is neither a candidate nor a reason in none_because");
  }
  return advice;
}

}  // namespace autotuned::tuner
