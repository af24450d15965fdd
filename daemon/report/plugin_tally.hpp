// SPDX-License-Identifier: Apache-2.0
// Counts how many plugins of a run were tried, and what became of the others. The screen uses it with the events of a
// run, the story with the stored rows. A value without I/O.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/json.hpp"

namespace autotuned::daemon {

// Each plugin is counted once: `asked` is the sum of the others.
struct PluginCounts {
  int asked = 0;
  int tried = 0;  // a change that it proposed had a trial that was decided
  int untried =
      0;  // its last word was a proposal, for which no budget was left, or it has not answered
  int inapplicable = 0;  // its last word was a reason against a trial
  int failed = 0;        // left out

  // "6 tried, 1 not tried, 3 not applicable": the first and the third always, others where there are any.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Json to_json() const;
};

class PluginTally {
 public:
  void asked(const std::string& plugin);
  // `outcome` empty: it proposed a change that may be tried.
  void answered(const std::string& plugin, const std::string& outcome, bool is_failure);
  // A trial of a proposal of this plugin was decided. Joint changes belong to no plugin.
  void tried(const std::string& plugin);

  // The counts so far. All are 0 if no plugin was asked: an earlier run may have decided everything.
  [[nodiscard]] PluginCounts counts() const;

 private:
  enum class LastWord { none, proposal, reason, failure };
  std::map<std::string, LastWord> last_words_;
  std::set<std::string> tried_;
};

}  // namespace autotuned::daemon
