// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/progress_view.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace autotuned::daemon {
namespace {

std::string shown(bool is_live, const std::vector<Json>& events) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    ProgressView view(out, is_live);
    for (const Json& event : events)
      view.show(event);
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

Json trial(const char* verdict, int pairs) {
  return {{"kind", "proposal"},
          {"plugin", "set_to_none"},
          {"reference", {{"optimizer.set_to_none", false}}},
          {"change", {{"optimizer.set_to_none", true}}},
          {"verdict", verdict},
          {"reason", "because"},
          {"pairs", pairs},
          {"ratio", 1.3},
          {"ratio_low", 1.25},
          {"ratio_high", 1.35}};
}

TEST(ProgressView, OneLinePerEvent) {
  EXPECT_EQ(
      shown(false,
            {{{"event", "run"}, {"run", "r-1"}, {"recipe", "small"}, {"device", "cpu"}},
             {{"event", "waiting"}, {"for", "somebody"}},
             {{"event", "phase"}, {"phase", "loading"}},
             {{"event", "baseline"}, {"samples_per_second", 1000.4}},
             {{"event", "ceiling"},
              {"samples_per_second", 4000.0},
              {"bound_by", "compute"},
              {"ladder",
               {{{"rung", "raw_bytes"}, {"reached_ratio", 0.98}},
                {{"rung", "device_batch"}, {"reached_ratio", 0.25}}}}},
             {{"event", "profiled"}, {"is_start", true}, {"findings", Json::array()}},
             {{"event", "profiled"},
              {"is_start", true},
              {"findings",
               {{{"id", "data_loading"}, {"evidence", "it waits"}},
                {{"id", "scalar_reads"}, {"evidence", "it \x1b reads"}},
                {{"id", "small_operators"}, {"evidence", "many"}}}}},
             {{"event", "profiled"},
              {"is_start", false},
              {"findings", {{{"id", "data_loading"}, {"evidence", "it waits"}}}}},
             {{"event", "asking"}, {"plugin", "amp"}},
             {{"event", "answered"}, {"plugin", "amp"}, {"outcome", "no"}, {"is_failure", false}},
             {{"event", "answered"}, {"plugin", "amp"}, {"outcome", "no"}, {"is_failure", false}},
             {{"event", "answered"}, {"plugin", "bad"}, {"outcome", "threw"}, {"is_failure", true}},
             {{"event", "trial_started"}, {"trial", trial("running", 0)}},
             {{"event", "block"}, {"pairs", 3}, {"ratio", 1.2}},
             {{"event", "trial_finished"}, {"trial", trial("accepted", 20)}},
             {{"event", "trial_started"}, {"trial", trial("running", 0)}},
             {{"event", "trial_finished"}, {"trial", trial("failed", 0)}},
             {{"event", "tuned"},
              {"speedup", 1.3},
              {"speedup_low", 1.25},
              {"speedup_high", 1.35},
              {"is_budget_spent", true},
              {"change", "x off → on"}},
             {{"event", "training"},
              {"progress", {{"evaluation", {{"epoch", 1}, {"accuracy", 0.875}, {"loss", 0.25}}}}}},
             {{"event", "damaged"}, {"file", "7.jpg"}, {"what", "is odd"}, {"files", 2}},
             {{"event", "machine"}, {"subject", "load"}, {"text", "others compute"}},
             {{"event", "cancelling"}},
             {{"event", "something_new"}},
             {{"event", "warning"}, {"text", "odd"}},
             {{"event", "error"}, {"text", "bad"}}}),
      "run r-1 of small on cpu\n"
      "waiting: somebody\n"
      "start      1,000 samples/s\n"
      "ceiling    at least 4,000 samples/s, bound by compute\n"
      "           reached of it, at most: raw_bytes 98 %, device_batch 25 %\n"
      "found      data_loading: it waits\n"
      "           scalar_reads: it ? reads\n"
      "           and 1 more: `autotuned explain` tells\n"
      "left       data_loading: it waits\n"
      "nothing    amp: no\n"
      "left out   bad: threw\n"
      "accepted   set_to_none: optimizer.set_to_none off → on, 1.30 x (1.25 to 1.35), to be "
      "confirmed\n"
      "failed     set_to_none: optimizer.set_to_none off → on\n"
      "           because\n"
      "tuned      1.30 x (1.25 to 1.35): x off → on\n"
      "           the budget did not suffice for every proposal: the next run goes on, and "
      "--budget gives it "
      "more\n"
      "epoch 1    accuracy 87.50 %, test loss 0.2500\n"
      "skipped    7.jpg: is odd (2 so far)\n"
      "machine    load: others compute\n"
      "stopping; once more to end at once\n"
      "warning: odd\n"
      "error: bad\n");
}

TEST(ProgressView, LiveLineIsReplacedAndLeavesNothing) {
  EXPECT_EQ(shown(true, {{{"event", "phase"}, {"phase", "loading"}},
                         {{"event", "baseline"}, {"samples_per_second", 10.0}},
                         {{"event", "asking"}, {"plugin", "amp"}}}),
            "\r\x1b[Kloading ...\r\x1b[Kstart      10 samples/s\n\r\x1b[Kasking amp ...\r\x1b[K");
}

TEST(ProgressView, NothingThatOthersSaySteersTheTerminal) {
  const std::string text = "it \x1b[2J ended\r; its last words:\nnone";
  EXPECT_EQ(shown(false, {{{"event", "warning"}, {"text", text}}}),
            "warning: it ?[2J ended?; its last words:\nnone\n");
  EXPECT_EQ(shown(true, {{{"event", "asking"}, {"plugin", "a\x1b[2J\n"}}}),
            "\r\x1b[Kasking a?[2J? ...\r\x1b[K");
}

TEST(ProgressView, SurvivesEventsWithoutTheirFields) {
  for (const char* name : {"run", "waiting", "phase", "baseline", "ceiling", "profiled", "asking",
                           "answered", "trial_started", "block", "checked", "damaged",
                           "trial_finished", "tuned", "training", "machine", "warning", "error"}) {
    shown(false, {{{"event", name}}});
    shown(true, {{{"event", name}}});
  }
  EXPECT_EQ(shown(false, {Json(), Json::array(), {{"event", 1}}}), "");
}

}  // namespace
}  // namespace autotuned::daemon
