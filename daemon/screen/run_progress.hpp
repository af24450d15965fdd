// SPDX-License-Identifier: Apache-2.0
// The state of a run while it goes on, from the events of its session (docs/architecture.md). A value without I/O or a
// clock: the same events at the same times give the same state.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/trial.hpp"
#include "daemon/report/plugin_tally.hpp"

namespace autotuned::daemon {

enum class Stage { starting, tuning, training, checking, ended };

// A change that was accepted and not withdrawn since.
struct KeptChange {
  std::string title;  // "amp: precision.autocast off → bf16"
  Configuration change;
  double ratio = 1.0;  // against what was kept before it
};

struct TrialUnderWay {
  int number = 0;  // among those of the run, from 1
  std::string title;
  Estimate estimate;    // without pairs before the first
  std::string checked;  // what a check said last
};

struct TrainingUnderWay {
  std::int64_t step = 0;
  std::int64_t steps_total = 0;
  std::int64_t epoch = 0;
  std::int64_t epochs_total = 0;
  double samples = 0.0;
  double samples_total = 0.0;
  double samples_per_second = 0.0;
  double tokens_per_second = 0.0;  // 0: samples are no tokens
  double loss = 0.0;               // NaN: not finite
  std::chrono::nanoseconds told_at{0};

  [[nodiscard]] double done_ratio() const;
  [[nodiscard]] std::string rate_text() const;
  // The time left at `now`, by the last rate that was told.
  [[nodiscard]] std::chrono::nanoseconds left(std::chrono::nanoseconds now) const;
};

// What the last event is a reason to tell.
struct Said {
  bool inapplicable = false;  // how many plugins have nothing to try
  bool before = false;        // how many trials earlier processes have decided
  bool training = false;  // it has begun, half of it is over, or nothing was said of it for long
  bool evaluation = false;
  bool answer = false;        // of a plugin: it was not given before
  bool findings = false;      // those of the start, now that the plugins have answered
  bool is_rejection = false;  // the event is a rejected proposal that waits to be told with others
  std::vector<Json> rejections;  // trials that have waited, now to be told together
  std::vector<KeptChange> withdrawn;
};

struct RunProgress {
  using nanoseconds = std::chrono::nanoseconds;

  nanoseconds started{0};
  Stage stage = Stage::starting;
  std::string doing;      // "asking amp"; empty: the stage says it
  std::string waits_for;  // what the run waits for, such as a device; empty: it does not wait
  std::string recipe;
  bool has_begun = false;  // the history has the run, so that it can be continued
  bool is_stopping = false;
  bool is_only_watched = false;  // Ctrl-C ends the watching, not the run

  int trials_done = 0;
  int trials_about = 0;   // the expected number of trials; 0: not known yet
  int trials_before = 0;  // of them done by earlier processes of the run
  std::optional<nanoseconds> budget;
  nanoseconds budget_spent{0};  // when it was told
  nanoseconds budget_told_at{0};
  std::optional<TrialUnderWay> trial;

  double start_samples_per_second = 0.0;
  // The upper bound over the rate of the configuration with which it was measured, in the same blocks; 0: not known for
  // the present incumbent.
  double free_input_ratio = 0.0;
  std::string bound_by;
  int upper_bounds = 0;  // how many were told
  std::vector<KeptChange> kept;
  std::optional<Estimate> confirmed;  // the best configuration against the starting one

  std::map<std::string, std::string> outcomes;  // last sentence by plugin
  PluginTally plugins;
  Json findings = Json::array();  // of the start, the most severe first, until they are told
  bool is_inapplicable_told = false;
  bool is_before_told = false;
  std::vector<Json> rejections;  // trials whose rejection needs but a word, until they are told
  nanoseconds rejected_at{0};    // the first of them
  std::int64_t damaged = 0;      // files, as they were told
  std::optional<TrainingUnderWay> training;
  nanoseconds training_began{0};    // when its first step was told
  nanoseconds training_told_at{0};  // when a lasting line was last due
  int told_halves = -1;             // of the training
  int told_tenths = -1;             // of it, when an evaluation was told
  Said said;

  // The ratio of the best configuration over the starting one: the product of the trials' ratios, until it is
  // confirmed.
  [[nodiscard]] double best_ratio() const;
  [[nodiscard]] nanoseconds spent(nanoseconds now) const;
};

// Applies an event. Unknown events change nothing but `said`.
void take(RunProgress& progress, const Json& event, std::chrono::nanoseconds now);

// The change of a trial in an event, such as "loader.workers 0 → 2".
[[nodiscard]] std::string change_of(const Json& trial);
[[nodiscard]] Estimate estimate_of(const Json& trial);
// "amp: precision.autocast off → bf16". A trial that no plugin proposed has its kind in the place of the plugin.
[[nodiscard]] std::string title_of(const Json& trial);
// "slower", "no gain", "gain unlikely" or "undecided", where that says enough of a rejected trial; else empty.
[[nodiscard]] std::string rejection_word(const Json& trial);

// Fields of events. Events come from other versions of the program too, so a field may be missing: then "" or 0.
[[nodiscard]] std::string text_in(const Json& object, const char* field);
[[nodiscard]] double number_in(const Json& object, const char* field);
// A loss: NaN if it is null, which JSON has in the place of what is not finite.
[[nodiscard]] double loss_in(const Json& object);
[[nodiscard]] std::int64_t integer_in(const Json& object, const char* field);
[[nodiscard]] bool flag_in(const Json& object, const char* field);

}  // namespace autotuned::daemon
