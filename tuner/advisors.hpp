// SPDX-License-Identifier: Apache-2.0
// What plugins are asked and what they may answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::tuner {

// Who proposes what no plugin did.
inline constexpr const char* kOwnName = "autotuned";

// Where a candidate comes from: what it is screened for hangs on that (tuner/candidates.hpp).
enum class CandidateSource {
  plugin,        // a plugin's answer
  joint_change,  // two changes that were tried one at a time
  near_miss,     // a change that lost by little against an earlier incumbent
  undecided,     // a change whose trial ran out of time
  remembered,    // the best configuration of an earlier run
};

struct Candidate {
  std::string plugin;
  Configuration change;
  double expected_gain_ratio = 1.0;  // ratio of rates that the plugin expects, 1.3 = 30 % faster
  std::string reason;                // one sentence with the evidence in it
  // The share of the step that the plugin's signal explains: all that the change could save.
  std::optional<double> signal_share_ratio = std::nullopt;
  CandidateSource source = CandidateSource::plugin;
};

struct Advice {
  std::vector<Candidate> candidates;
  std::string none_because;  // why there is no candidate; one sentence
};

// Reads a plugin's answer (plugins/sdk/README.md). ErrorKind::invalid names what is wrong with it.
[[nodiscard]] Result<Advice> parse_advice(const Json& answer, const std::string& plugin);

// The plugins, as the tuner sees them.
class Advisors {
 public:
  Advisors() = default;
  Advisors(const Advisors&) = delete;
  Advisors& operator=(const Advisors&) = delete;
  virtual ~Advisors() = default;

  // Those that take part, in name order. Stable during a session.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;

  // The plugin's answer to a situation (plugins/sdk/README.md). An error means that this plugin is not
  // to be asked again.
  virtual Result<Json> ask(const std::string& plugin, const Json& situation) = 0;
};

}  // namespace autotuned::tuner
