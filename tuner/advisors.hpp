// SPDX-License-Identifier: Apache-2.0
// The questions of the tuner to plugins, and their answers.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/trial.hpp"
#include "tuner/context.hpp"

namespace autotuned::tuner {

// The name under which the proposals of the tuner itself are recorded.
inline constexpr const char* kOwnName = "autotuned";

// The source of a proposal. The rules of screen() differ by source (tuner/proposals.hpp).
enum class ProposalSource {
  plugin,        // a plugin's answer
  joint_change,  // two changes that were tried one at a time
  near_miss,     // a change that lost by little against an earlier incumbent
  undecided,     // a change whose trial was not decided
  remembered,    // the best configuration of an earlier run
};

// Makes the situation for one plugin: the facts that it gets with a question (plugins/sdk/README.md). `trials`: all
// trials of this run so far, of which it contains only those of the plugin. `places`: StepProfile::places of a trace.
[[nodiscard]] Json situation_for(const std::string& plugin, const SessionInput& input,
                                 const Configuration& incumbent, const Json& metrics,
                                 const Json& places, const std::vector<TrialRecord>& trials);

// A change that may get a trial.
struct Proposal {
  std::string plugin;
  Configuration change;
  // The rate of the candidate over that of the incumbent, as the plugin expects it.
  double expected_gain_ratio = 1.0;
  std::string reason;  // one sentence that names the evidence
  // The share of the step, 0 to 1, that the plugin's signal explains: an upper bound of what the change can save.
  std::optional<double> signal_share_ratio = std::nullopt;
  ProposalSource source = ProposalSource::plugin;
  // What the first block of the change takes beside its steps, such as compiling, as the plugin expects it. A trial is
  // not begun in a budget that does not hold it.
  std::chrono::nanoseconds preparation{0};
};

// The answer of a plugin: proposals, or why there are none.
struct Advice {
  std::vector<Proposal> proposals;
  std::string none_because;  // why there is no proposal; one sentence
};

// Reads the answer of a plugin (plugins/sdk/README.md). ErrorKind::invalid names the part that is wrong.
[[nodiscard]] Result<Advice> parse_advice(const Json& answer, const std::string& plugin);

// The plugins, as the tuner sees them.
class Advisors {
 public:
  Advisors() = default;
  Advisors(const Advisors&) = delete;
  Advisors& operator=(const Advisors&) = delete;
  virtual ~Advisors() = default;

  // The names of the plugins that take part, sorted. The list does not change during a session.
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;

  // Asks a plugin about a situation and returns its answer (plugins/sdk/README.md). After an error the plugin is not asked again.
  virtual Result<Json> ask(const std::string& plugin, const Json& situation) = 0;
};

}  // namespace autotuned::tuner
