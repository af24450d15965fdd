// SPDX-License-Identifier: Apache-2.0
#include "daemon/screen/progress_view.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/report/tuning_time.hpp"
#include "daemon/screen/run_progress.hpp"

namespace autotuned::daemon {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string shown(const ScreenView& options, const std::vector<Json>& events) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    ProgressView view(out, options);
    for (const Json& event : events)
      view.show(event);
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressView, WithoutATerminalThereAreLinesOnly) {
  EXPECT_EQ(shown({}, {{{"event", "phase"}, {"phase", "loading"}, {"recipe", "small"}},
                       {{"event", "run"}, {"run", "r-1"}, {"recipe", "small"}, {"device", "cpu"}},
                       {{"event", "baseline"}, {"samples_per_second", 1000.4}},
                       {{"event", "block"}, {"pairs", 3}, {"ratio", 1.2}},
                       {{"event", "something_new"}},
                       {{"event", "error"}, {"text", "bad"}}}),
            "loading    small\n"
            "run r-1 of small on cpu\n"
            "start      1,000 samples/s\n"
            "error: bad\n");
}

TEST(ProgressView, TellsOfAWaitEveryMinuteAndWhenItIsOver) {
  const Json first = {{"event", "waiting"}, {"for", "the device cpu, held by x"}, {"waited_ns", 0}};
  Json later = first;
  later["waited_ns"] = 60'000'000'000;
  const Json turn = {{"event", "waited"}, {"for", "the device cpu"}, {"waited_ns", 65'000'000'000}};
  EXPECT_EQ(shown({}, {first, later, turn}),
            "waiting: the device cpu, held by x\n"
            "waiting: the device cpu, held by x, 1 min 00 s so far\n"
            "waited     1 min 05 s for the device cpu\n");
  EXPECT_THAT(shown({.is_live = true}, {first, later}), Not(HasSubstr("so far")));
}

// One that still waits for its device is not in the history.
TEST(ProgressView, OnlyARunThatHasBegunIsContinued) {
  const Json waiting = {{"event", "waiting"}, {"for", "the device cpu"}, {"waited_ns", 0}};
  const Json run = {{"event", "run"}, {"run", "r-1"}, {"recipe", "small"}, {"device", "cpu"}};
  const Json cancelling = Json::object({{"event", "cancelling"}});
  EXPECT_THAT(shown({}, {waiting, cancelling}), EndsWith("\nstopping; once more to end at once\n"));
  EXPECT_THAT(shown({}, {waiting, run, cancelling}),
              EndsWith("\nstopping; once more to end at once. The same command continues the "
                       "run\n"));
}

// A live view draws at once, some hundred nanoseconds after it began.
TEST(ProgressView, CountsInTenthsOfASecond) {
  EXPECT_THAT(shown({.is_live = true}, {}),
              testing::AllOf(HasSubstr(" s"), Not(HasSubstr(" ns")), Not(HasSubstr(" µs")),
                             Not(HasSubstr(" ms"))));
}

TEST(ProgressView, ABudgetForNoTrialIsToldInOneLine) {
  const std::string shortage = "tune.budget 1.0 s is too small for one trial here";
  Json event = {{"event", "tuned"},        {"speedup", 1.0},       {"speedup_low", 1.0},
                {"speedup_high", 1.0},     {"is_complete", false}, {"is_searched", false},
                {"is_budget_spent", true}, {"change", "nothing"},  {"shortage", shortage}};
  EXPECT_EQ(shown({}, {event}), "tuned      nothing: " + shortage + "\n");
  event["is_searched"] = true;
  EXPECT_EQ(shown({}, {event}), "tuned      nothing: " + shortage + "\n");
  // What an earlier run has found was verified.
  event.update(
      {{"speedup", 1.5}, {"speedup_low", 1.4}, {"speedup_high", 1.6}, {"change", "a → b"}});
  EXPECT_EQ(shown({}, {event}),
            "tuned      1.50 x (1.40 to 1.60): a → b\n"
            "           nothing new was tried: " +
                shortage + "\n");
}

TEST(ProgressView, ASearchThatIsTakenFromAnEarlierRunIsNamed) {
  Json event = {{"event", "tuned"},    {"speedup", 1.0},      {"speedup_low", 1.0},
                {"speedup_high", 1.0}, {"is_complete", true}, {"change", "nothing"},
                {"untried", 0},        {"searched_by", ""}};
  const std::string tuned = "tuned      nothing faster: the starting configuration stays\n";
  EXPECT_EQ(shown({}, {event}), tuned);
  event["searched_by"] = "r-20261121-000001";
  EXPECT_EQ(shown({}, {event}),
            tuned +
                "           the search of run r-20261121-000001 is taken; --retune searches "
                "again\n");
}

// As the card says it, which counts the proposals.
TEST(ProgressView, ABudgetForNoSecondLookLeavesNoProposalUntried) {
  Json event = {{"event", "tuned"},    {"speedup", 1.5},       {"speedup_low", 1.4},
                {"speedup_high", 1.6}, {"is_complete", false}, {"is_budget_spent", true},
                {"change", "a → b"},   {"untried", 0}};
  const std::string tuned = "tuned      1.50 x (1.40 to 1.60): a → b\n           ";
  EXPECT_EQ(shown({}, {event}), tuned + kNoSecondLook + "\n");
  event["untried"] = 2;
  EXPECT_EQ(shown({}, {event}),
            tuned +
                "the budget did not suffice for every proposal: the next run goes on, and "
                "--budget gives it more\n");
}

// Its interval holds gains that are worth having.
TEST(ProgressView, ATrialThatWasGivenUpIsNotSaidToHaveNoGain) {
  Json trial = {{"kind", "proposal"},
                {"plugin", "malloc"},
                {"reference", {{"a", 1}}},
                {"change", {{"a", 2}}},
                {"verdict", "rejected"},
                {"rejection", "no_gain"},
                {"is_given_up", true},
                {"ratio", 0.95},
                {"ratio_low", 0.62},
                {"ratio_high", 1.18},
                {"pairs", 10}};
  const Json end = {{"event", "result"}, {"result", nullptr}};
  EXPECT_EQ(shown({}, {{{"event", "trial_finished"}, {"trial", trial}}, end}),
            "rejected   malloc: a 1 → 2, 0.95 x (0.62 to 1.18), gain unlikely\n");
  trial["is_given_up"] = false;
  trial["ratio_high"] = 1.01;
  EXPECT_EQ(shown({}, {{{"event", "trial_finished"}, {"trial", trial}}, end}),
            "rejected   malloc: a 1 → 2, 0.95 x (0.62 to 1.01), no gain\n");
}

TEST(ProgressView, TellsOnceWhatAnEarlierProcessDecided) {
  const Json trial = {{"kind", "proposal"},
                      {"plugin", "amp"},
                      {"reference", {{"a", 1}}},
                      {"change", {{"a", 2}}},
                      {"verdict", "rejected"},
                      {"rejection", "slower"},
                      {"ratio", 0.9},
                      {"ratio_low", 0.8},
                      {"ratio_high", 0.95},
                      {"pairs", 9}};
  const Json earlier = {{"event", "earlier_trial"}, {"trial", trial}};
  const Json tuning = {{"event", "tuning"}, {"trials_done", 1}, {"trials_expected", 0}};
  EXPECT_EQ(shown({}, {earlier, tuning, tuning}), "before     1 trial decided\n");
}

// `explain` reads the same from the stored trials.
TEST(ProgressView, AnInterruptedTrialDoesNotCountAsTried) {
  Json trial = {{"kind", "proposal"},   {"plugin", "amp"}, {"reference", {{"a", 1}}},
                {"change", {{"a", 2}}}, {"pairs", 0},      {"verdict", "running"}};
  std::vector<Json> events = {{{"event", "asking"}, {"plugin", "amp"}},
                              {{"event", "answered"}, {"plugin", "amp"}, {"outcome", ""}},
                              {{"event", "trial_started"}, {"trial", trial}}};
  trial["verdict"] = "interrupted";
  events.push_back({{"event", "trial_finished"}, {"trial", trial}});
  events.push_back({{"event", "tuned"},
                    {"speedup", 1.0},
                    {"speedup_low", 1.0},
                    {"speedup_high", 1.0},
                    {"change", "nothing"}});
  EXPECT_THAT(shown({}, events),
              HasSubstr("plugins    1 asked: 0 tried, 1 not tried, 0 not applicable\n"));
}

TEST(ProgressView, TheFirstPanelIsThereBeforeTheFirstEvent) {
  EXPECT_THAT(shown({.is_live = true}, {}), HasSubstr("starting"));
  EXPECT_EQ(shown({}, {}), "");
}

TEST(ProgressView, ThePanelSaysThatTheTrainedModelIsChecked) {
  const Json check = {{"event", "phase"}, {"phase", "checking the trained model"}};
  const Json drawn_with = {{"event", "warning"}, {"text", "none"}};
  const std::string panel = shown({.is_live = true}, {check, drawn_with});
  EXPECT_THAT(panel, HasSubstr(" checking the trained model"));
  EXPECT_THAT(panel.substr(panel.find("checking the trained model")), Not(HasSubstr("starting")));
}

TEST(ProgressView, SaysWhatCtrlCDoes) {
  EXPECT_THAT(shown({.is_live = true}, {}), HasSubstr("Ctrl-C stops; the same command goes on"));
  EXPECT_THAT(shown({.is_live = true, .is_only_watched = true}, {}),
              HasSubstr("Ctrl-C leaves; the run goes on"));
}

TEST(ProgressView, ATerminalHasLinesAboveThePanelAndNoneInTheEnd) {
  const std::string text = shown({.is_live = true}, {{{"event", "note"}, {"text", "stays"}}});
  EXPECT_THAT(text, HasSubstr("note       stays\x1b[K\n"));
  EXPECT_THAT(text, EndsWith("A\x1b[J"));
}

TEST(ProgressView, ATickDrawsAPanelUntilTheViewIsFinished) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  ProgressView view(out, {.is_live = true});
  const std::size_t first = size;
  view.tick();
  std::fflush(out);
  EXPECT_GT(size, first);
  view.finish();
  std::fflush(out);
  const std::size_t finished = size;
  view.tick();
  view.show({{"event", "note"}, {"text", "late"}});
  std::fflush(out);
  EXPECT_THAT(std::string(text + finished, size - finished), StartsWith("note       late"));
  EXPECT_THAT(std::string(text + finished, size - finished), Not(HasSubstr("Ctrl-C")));
  std::fclose(out);
  std::free(text);
}

TEST(ProgressView, ThePanelGoesWithTheResult) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    ProgressView view(out, {.is_live = true});
    view.show({{"event", "result"}});
    view.tick();
    std::fflush(out);
    EXPECT_THAT(std::string(text, size), EndsWith("A\x1b[J"));
  }
  std::fclose(out);
  std::free(text);
}

TEST(ProgressView, NothingThatOthersSaySteersTheTerminal) {
  const std::string text = "it \x1b[2J ended\r; its last words:\nnone";
  EXPECT_EQ(shown({}, {{{"event", "warning"}, {"text", text}}}),
            "warning: it ?[2J ended?; its last words:\n         none\n");
  EXPECT_THAT(shown({.is_live = true}, {{{"event", "warning"}, {"text", text}}}),
              HasSubstr("it ?[2J ended?; its last words:"));
}

Json found(const char* id, const char* severity, const char* plugin) {
  return {{"id", id}, {"severity", severity}, {"evidence", "evidence of it"}, {"plugin", plugin}};
}

Json answered(const char* plugin, const char* outcome) {
  return {{"event", "answered"}, {"plugin", plugin}, {"outcome", outcome}, {"is_failure", false}};
}

// A profile comes before the plugins are asked, and a plugin may decline.
TEST(ProgressView, NamesAFindingWhoseRemedyIsProposed) {
  const Json profiled = {
      {"event", "profiled"},
      {"is_start", true},
      {"findings",
       {found("arithmetic", "high", "amp"), found("layout", "high", "channels_last"),
        found("loading", "low", "num_workers")}}};
  EXPECT_EQ(shown({}, {profiled}), "") << "nobody has answered yet";
  const Json begun = {{"event", "trial_started"}, {"trial", Json::object()}};
  const Json declined = answered("amp", "no bf16");
  EXPECT_THAT(shown({}, {profiled, declined, answered("channels_last", ""), begun, begun}),
              StartsWith("found      layout (high): evidence of it; the plugin channels_last acts "
                         "on it; 2 more: `autotuned explain`\n"));
  EXPECT_THAT(shown({}, {profiled, declined, answered("channels_last", "it is on"), begun}),
              StartsWith("found      arithmetic (high): evidence of it; 2 more: "))
      << "a less severe one is no headline";
  EXPECT_THAT(shown({}, {profiled, begun}),
              StartsWith("found      arithmetic (high): evidence of it; 2 more: "))
      << "nobody was asked";
}

TEST(ProgressView, NamesAFindingOnceAndAtTheLatestWhenTheTuningIsOver) {
  const Json profiled = {{"event", "profiled"},
                         {"findings", Json::array({found("layout", "high", "amp")})}};
  const Json begun = {{"event", "trial_started"}, {"trial", Json::object()}};
  const std::string line = "found      layout (high): evidence of it\n";
  EXPECT_EQ(shown({}, {profiled, begun, begun}), line);
  const Json tuned = {{"event", "tuned"}, {"speedup", 1.0}, {"change", "nothing"}};
  EXPECT_EQ(shown({}, {profiled, tuned}),
            line + "tuned      nothing faster: the starting configuration stays\n");
}

// Of many epochs about ten are told, and besides them each that becomes the best one.
TEST(ProgressView, TellsEachEpochThatIsTheBestSoFar) {
  const Json step = {{"event", "training"},
                     {"progress",
                      {{"step", 1},
                       {"steps_total", 100},
                       {"epoch", 1},
                       {"epochs_total", 100},
                       {"samples", 10},
                       {"samples_total", 1000},
                       {"samples_per_second", 10.0},
                       {"loss", 0.5}}}};
  const auto evaluated = [](int epoch, bool is_best) {
    Json evaluation = {{"epoch", epoch}, {"accuracy", 0.9}, {"loss", 0.25}};
    if (is_best) evaluation["is_best"] = true;
    return Json{{"event", "training"}, {"progress", {{"evaluation", evaluation}}}};
  };
  const std::string text = shown({}, {step, evaluated(1, false), evaluated(2, false),
                                      evaluated(3, true), evaluated(4, false)});
  EXPECT_THAT(text, EndsWith("epoch 1    accuracy 90.00 %, test loss 0.2500\n"
                             "epoch 3    accuracy 90.00 %, test loss 0.2500, the best so far\n"));
}

// JSON has no number for it.
TEST(ProgressView, ALossThatIsNotFiniteIsNotToldAsZero) {
  Json step = {{"step", 1},     {"steps_total", 2},    {"epochs_total", 1},
               {"samples", 10}, {"samples_total", 20}, {"samples_per_second", 10.0}};
  step["loss"] = nullptr;
  Json evaluation = {{"epoch", 1}, {"accuracy", 0.25}};
  evaluation["loss"] = nullptr;
  const Json trained = {{"event", "training"}, {"progress", step}};
  const Json evaluated = {{"event", "training"}, {"progress", {{"evaluation", evaluation}}}};
  const std::string text = shown({}, {trained, evaluated});
  EXPECT_THAT(text, HasSubstr("step 1, loss not finite, 10"));
  EXPECT_THAT(text, EndsWith("epoch 1    accuracy 25.00 %, test loss not finite\n"));
}

// Half of a training that became slow may be far.
TEST(RunProgress, ATrainingIsToldByTimeToo) {
  RunProgress progress;
  std::vector<int> told_at_s;
  for (int second = 1000; second <= 4000; second += 10) {
    const Json steps = {{"step", second}, {"samples", second}, {"samples_total", 1e6}};
    take(progress, {{"event", "training"}, {"progress", steps}}, std::chrono::seconds(second));
    if (progress.said.training) told_at_s.push_back(second - 1000);
  }
  // Each five minutes at first, and later when it has lasted a quarter longer.
  EXPECT_THAT(told_at_s, testing::ElementsAre(0, 300, 600, 900, 1200, 1500, 1880, 2350, 2940));
}

TEST(ProgressView, SurvivesEventsWithoutTheirFields) {
  for (const char* name :
       {"run",      "waiting", "waited",   "phase",          "tuning",   "earlier_trial",
        "baseline", "ceiling", "profiled", "asking",         "answered", "trial_started",
        "block",    "checked", "damaged",  "trial_finished", "tuned",    "training",
        "machine",  "warning", "error",    "cancelling",     "result"}) {
    shown({}, {{{"event", name}}});
    shown({.is_live = true, .is_coloured = true, .is_verbose = true}, {{{"event", name}}});
  }
  EXPECT_EQ(shown({}, {Json(), Json::array(), {{"event", 1}}}), "");
}

}  // namespace
}  // namespace autotuned::daemon
