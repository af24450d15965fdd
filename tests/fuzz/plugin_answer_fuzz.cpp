// SPDX-License-Identifier: Apache-2.0
// What a plugin answers, and what of it becomes a proposal.
#include <cmath>

#include "base/json.hpp"
#include "tests/fuzz/target.hpp"
#include "tuner/advisors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace autotuned;
  const auto json = parse_json(fuzz::text_of(data, size), "answer");
  if (!json) return 0;
  const auto advice = tuner::parse_advice(*json, "plugin");
  if (!advice) {
    FUZZ_CHECK(advice.error().kind == ErrorKind::invalid && !advice.error().what.empty());
    return 0;
  }
  FUZZ_CHECK(!advice->proposals.empty() || !advice->none_because.empty());
  for (const tuner::Proposal& proposal : advice->proposals) {
    FUZZ_CHECK(!proposal.change.empty() && !proposal.reason.empty());
    FUZZ_CHECK(std::isfinite(proposal.expected_gain_ratio) && proposal.expected_gain_ratio > 0);
    const auto again = Configuration::from_json(proposal.change.to_json());
    FUZZ_CHECK(again && *again == proposal.change);
  }
  return 0;
}
