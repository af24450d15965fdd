// SPDX-License-Identifier: Apache-2.0
// The commands that tell stories, and options of `run`: the real `autotuned` over a fake trainer.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "storage/history.hpp"
#include "tests/golden.hpp"
#include "tests/integration/scene.hpp"
#include "tests/places.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// One run with a gain, a rejected change and a wrong one.
class Stories : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scene_ = new Scene{{{"factors",
                         {{"optimizer.set_to_none=on", 1.3},
                          {"memory.malloc=keep", 0.8},
                          {"threads.intra_op=1", 1.5}}},
                        {"not_equal", {"threads.intra_op=1"}},
                        {"updates", {{"threads.intra_op=1", {{"norm_ratio", 3.0}}}}}}};
    scene_->write_recipe(
        "  plugins: [set_to_none, memory_malloc, intra_op_threads, amp]\n"
        "  allow: [numerics]\n");
    const Outcome outcome = scene_->run();
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    run_ = new Json(outcome.json());
  }
  static void TearDownTestSuite() {
    delete scene_;
    delete run_;
  }
  [[nodiscard]] static std::string id() { return run_->at("run"); }
  // The trial of a plugin.
  [[nodiscard]] static Json trial_of(const std::string& plugin) {
    for (const Json& trial : run_->at("trials")) {
      if (trial.at("plugin") == plugin) return trial;
    }
    return Json();
  }

  static Scene* scene_;
  static Json* run_;
};
Scene* Stories::scene_ = nullptr;
Json* Stories::run_ = nullptr;

TEST_F(Stories, ExplainTellsWhatShowKnows) {
  const Outcome explained = scene_->command({"explain", id()});
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, StartsWith("Run " + id() + " of small, started "));
  EXPECT_EQ(scene_->command({"explain", "last"}).out, explained.out);
  EXPECT_EQ(scene_->command({"explain", id().substr(0, 12)}).out, explained.out);
}

TEST_F(Stories, ExplainAsJson) {
  const Json story = scene_->command({"explain", "last", "--json"}).json();
  EXPECT_EQ(story.at("run"), id());
  EXPECT_EQ(story.at("best").at("speedup"), run_->at("best").at("speedup"));
  EXPECT_EQ(story.at("start").at("profile").at("metrics").at("step.data_wait_ratio"), 0.3);
  ASSERT_EQ(story.at("trials").size(), run_->at("trials").size());
  for (const Json& trial : story.at("trials")) {
    const std::string plugin = trial.at("plugin");
    const std::string expected = plugin == "set_to_none"     ? "kept"
                                 : plugin == "memory_malloc" ? "slower"
                                 : plugin == "autotuned"     ? "held"
                                 : plugin == "amp"           ? "no_gain"  // where there is hardware
                                                             : "wrong_result";
    EXPECT_EQ(trial.at("outcome"), expected) << plugin;
  }
  EXPECT_NEAR(trial_of("autotuned").at("ratio").get<double>(), 1.3, 0.03);
  EXPECT_GT(story.at("break_even").at("samples"), 0.0);
  EXPECT_EQ(story.at("note"), "");
}

TEST_F(Stories, ExplainIsAboutRuns) {
  const Outcome trial = scene_->command({"explain", id() + ".1"});
  EXPECT_EQ(trial.code, 2);
  EXPECT_THAT(trial.err, HasSubstr("expected a run, found a trial"));
  EXPECT_EQ(scene_->command({"explain", "r-20010101-000000"}).code, 2);
  EXPECT_EQ(scene_->command({"explain"}).code, 2);
}

TEST_F(Stories, CompareTwoTrials) {
  const std::string a = trial_of("set_to_none").at("id");
  const std::string b = trial_of("memory_malloc").at("id");
  const Outcome compared = scene_->command({"compare", a, b, "--all"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  const Json json = scene_->command({"compare", a, b, "--json"}).json();
  EXPECT_EQ(json.at("a").at("name"), a);
  EXPECT_EQ(json.at("a").at("ratio"), trial_of("set_to_none").at("ratio"));
  EXPECT_LT(json.at("ratio"), 1.0);
  EXPECT_EQ(json.at("is_side_by_side"), false);
  EXPECT_EQ(json.at("environment"), Json::array());
}

TEST_F(Stories, CompareRunsAndWhatDoesNotExist) {
  const Json json = scene_->command({"compare", "last", "last.1", "--json"}).json();
  EXPECT_EQ(json.at("a").at("name"), id());
  EXPECT_EQ(json.at("b").at("name"), id() + ".1");
  EXPECT_EQ(scene_->command({"compare", "last"}).code, 2);
  EXPECT_EQ(scene_->command({"compare", "last", "last.99"}).code, 2);
}

// What the history holds of a run of the model `paced`.
std::string put_paced_run(const Scene& scene) {
  std::filesystem::create_directories(scene.history().parent_path());
  auto history = storage::History::open(scene.history(), storage::Access::read_write);
  EXPECT_TRUE(history);
  EXPECT_TRUE(history->put_environment({"e1", {{"cpu_model", "a CPU"}}, "2.11.0", "0"}));
  EXPECT_TRUE(history->put_recipe({"h1", "photos", "photos.yaml", Json::object()}));
  storage::RunRow run;
  run.id = {"r-20261121-7f3a9c"};
  run.recipe_hash = "h1";
  run.recipe_name = "photos";
  run.environment_key = "e1";
  run.state = storage::RunState::finished;
  run.recipe = {{"model", {{"type", "paced"}, {"step_ms", 25}}}};
  EXPECT_TRUE(history->put_run(run));
  TrialRecord trial;
  trial.number = 1;
  trial.plugin = "num_workers";
  EXPECT_TRUE(history->put_trial(run.id, trial));
  return run.id.text;
}

TEST(Paced, IsNamedWhereverAResultIsPrinted) {
  const Scene scene;
  const std::string id = put_paced_run(scene);
  const std::vector<std::vector<std::string>> commands = {
      {"history"}, {"show", id}, {"show", id + ".1"}, {"explain", id}, {"compare", id, id}};
  for (std::vector<std::string> command : commands) {
    for (int form = 0; form < 2; ++form) {
      const Outcome told = scene.command(command);
      EXPECT_THAT(told.out, HasSubstr("the model `paced` stands in for an accelerator"))
          << command[0] << told.err;
      command.emplace_back("--json");
    }
  }
}

TEST(HistoryOptions, MayBeLargerThanAnyRunNeeds) {
  const Scene scene;
  put_paced_run(scene);
  const auto found = [&scene](const char* option, const char* value) {
    return scene.command({"history", "--json", option, value}).json().size();
  };
  EXPECT_EQ(found("--since", "9999-12-31"), 0U);
  EXPECT_EQ(found("--since", "0001-01-01"), 1U);
  EXPECT_EQ(found("--limit", "9223372036854775807"), 1U);
  EXPECT_EQ(scene.command({"history", "prune", "--older-than", "nan"}).code, 2);
}

TEST(RunOptions, BudgetOverrulesTheRecipe) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none]\n  budget: 1ms\n");
  EXPECT_TRUE(trials_with(scene.run({"--tune-only"}).json(), "accepted").empty());
  const Outcome more = scene.run({"--tune-only", "--retune", "--budget", "1min"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_FALSE(trials_with(more.json(), "accepted").empty());
}

TEST(CommandLine, AblationIsToldByEveryCommand) {
  const Scene scene;
  const Json run = scene.run({"--ablate", "--tune-only"}).json();
  EXPECT_EQ(run.at("trials").size(), 3U) << "not among what was tried";
  ASSERT_EQ(run.at("ablation").size(), 2U);
  for (const Json& one : run.at("ablation")) {
    EXPECT_EQ(one.at("kind"), "ablation");
    const double gives = one.at("plugin") == "set_to_none" ? 1.3 : 1.2;
    EXPECT_NEAR(one.at("ratio").get<double>(), gives, 0.05) << one;
  }
  const Json story = scene.command({"explain", "last", "--json"}).json();
  Json told = run.at("ablation");
  for (Json& one : told)
    EXPECT_EQ(one.erase("trainer_ends"), 1U);
  EXPECT_EQ(story.at("ablation"), told);
  EXPECT_EQ(scene.command({"show", "last", "--json"}).json().at("ablation"), run.at("ablation"));
}

TEST(RunOptions, RetuneLeavesAnUnfinishedRunBehind) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"request", "train"}, {"do", "interrupt"}, {"once", true}}};
  const Scene scene{behaviour};
  EXPECT_EQ(scene.run().code, 130);
  const Outcome retuned = scene.run({"--retune", "--tune-only"});
  EXPECT_EQ(retuned.code, 0) << retuned.err;
  EXPECT_EQ(retuned.json().at("trials").size(), 3);
  EXPECT_EQ(scene.runs().size(), 2);
}

TEST(RunOptions, RanksAreTunedAndTrained) {
  const Scene scene;
  const Outcome tuned = scene.run({"--ranks", "2"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_FALSE(scene.fake().requests("run").empty());
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 2);
  const Outcome trained = scene.run({"--ranks", "2", "--budget", "0s"});
  EXPECT_EQ(trained.code, 0) << trained.err;
}

// All processes of a launcher are below it; here they come one after the other.
TEST(RunOptions, ALauncherOfSeveralProcessesGetsOneRun) {
  Scene scene;
  scene.set("WORLD_SIZE=2");
  scene.set("LOCAL_WORLD_SIZE=2");
  scene.set("RANK=0");
  const Outcome other = scene.run({"--ranks", "3", "--budget", "0s"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.err.find("torchrun has started"), std::string::npos);
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 3);
  scene.fake().forget_requests();
  const Outcome first = scene.run({"--budget", "0s"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err,
              HasSubstr("torchrun has started 2 processes: this run trains with 2 ranks"));
  EXPECT_EQ(scene.fake().requests("load").front().at("ranks"), 2);
  scene.fake().forget_requests();
  scene.set("RANK=1");
  const Outcome second = scene.run({"--budget", "0s"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(scene.fake().requests().empty()) << "it has only waited";
  // Several machines.
  scene.set("LOCAL_WORLD_SIZE=1");
  EXPECT_EQ(scene.run({"--budget", "0s"}).code, 2);
}

// A line for people, with HERE for the folder of a scene.
std::string line_of(const std::vector<std::string>& arguments, const Scene& scene) {
  std::string line = "autotuned";
  for (const std::string& argument : arguments)
    line += " " + (argument.empty() ? "\"\"" : argument);
  return printable(tests::with_here(line, scene.folder().path()));
}

// Nothing is served, and nothing written, for a command line that is wrong.
TEST(Refusals, ComeBeforeAnythingStarts) {
  Scene scene;
  tests::Cases cases(scene.folder().path());
  const auto refuse = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = scene.command(arguments);
    EXPECT_EQ(outcome.code, 2) << line_of(arguments, scene) << outcome.out;
    cases.add(line_of(arguments, scene), outcome.err);
  };
  const std::string recipe = scene.recipe();
  const auto refuse_run = [&](const std::string& option, const std::string& value) {
    refuse({"run", recipe, option, value});
  };
  // How many workers there may be depends on the machine.
  EXPECT_EQ(scene.run({"-s", "loader.workers=100000"}).code, 2);
  refuse_run("-s", "loader.wrokers=1");
  for (const char* budget : {"0", "-5s", "1e9h", "5 m", "99999999h"})
    refuse_run("--budget", budget);
  refuse_run("--ranks", "0");
  const std::string file = scene.folder().write("a file", "x");
  refuse_run("--output", file);
  refuse_run("--output", file + "/below");
  scene.folder().write("other/log/run.lock", "");
  std::filesystem::create_directory_symlink(scene.folder() / "other/log", scene.folder() / "link");
  for (const char* const place : {"other/log", "link/new", "xdg-state/autotuned/out"})
    refuse_run("--output", (scene.folder() / place).string());
  refuse_run("--output", scene.folder() / "a\xFF");
  // Nor may a script's run be stored under another name.
  refuse({"run", "--history", scene.folder() / "h\xFF.db",
          scene.folder().write("train.py", "import torch\n")});
  for (const char* option : {"--output", "--plugin-dir", "--history"})
    refuse_run(option, "");
  refuse({"plugins", "new", "mine", "--into", ""});
  for (const char* const port : {"99999", "-1", "http", "80x"})
    refuse({"serve", "--web=" + std::string(port)});
  refuse({"serve", "--web-control"});
  refuse({"export", "last"});
  refuse({"export", "last", "--html", ""});
  EXPECT_TRUE(scene.fake().requests().empty());
  // A check asks the trainer what there is.
  std::string text = *read_file(recipe, 1 << 20);
  const std::string train = "batch_size: 8";
  text.replace(text.find(train), train.size(), train + ", ranks: 2");
  text.replace(text.find("device: cpu"), 11, "device: cuda:0");
  refuse({"check", scene.folder().write("gpus.yaml", text)});
  scene.set("WORLD_SIZE=65");
  scene.set("LOCAL_WORLD_SIZE=65");
  scene.set("RANK=0");
  refuse_run("--budget", "0s");
  EXPECT_FALSE(std::filesystem::exists(scene.history()));
  tests::expect_golden("daemon/cli/golden/refusals.txt", cases.text());
}

TEST(RunOptions, SeveralSettingsAreTheStart) {
  const Scene scene;
  const Json run =
      scene.run({"--tune-only", "-s", "memory.malloc=keep", "-s", "batch_size=16"}).json();
  const Json& start = run.at("starting").at("configuration");
  EXPECT_EQ(start.at("memory.malloc"), "keep");
  EXPECT_EQ(start.at("batch_size"), 16);
}

// A run that goes on after its session died knows its own trials as its own, not as history.
TEST(EarlierTrials, AreThoseOfOtherRuns) {
  Json behaviour = Scene::fast_job();
  behaviour["faults"] = {{{"request", "profile"},
                          {"when", {"optimizer.set_to_none=on"}},
                          {"do", "kill_session"},
                          {"once", true}}};
  const Scene scene{behaviour};
  scene.write_recipe("  plugins: [recalls]\n");
  const Outcome outcome = scene.run({"--tune-only", "--plugin-dir", Scene::fixture("recalls")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_THAT(outcome.err, HasSubstr("it is started again"));
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  ASSERT_TRUE(history);
  const auto answers = history->plugin_answers(history->run("last")->id);
  ASSERT_TRUE(answers);
  // What disturbs the machine is told among them.
  std::string last;
  for (const storage::PluginAnswerRow& answer : *answers) {
    if (answer.plugin == "recalls") last = answer.outcome;
  }
  EXPECT_EQ(last, "it was shown 0 trials of other runs");
}

// Whoever names a file, gives a description or crashes a trainer has no say in what a terminal does.
TEST(TextOfOthers, SteersNoTerminal) {
  const std::string hostile = "Grüße\x1b]0;owned\x07漢\xC2\x9B\xE2\x80\xAE";
  const std::string shown = "Grüße?]0;owned?漢??";
  const auto is_harmless = [](const std::string& text) { return printable_lines(text) == text; };
  const Scene scene;
  scene.folder().write("others/" + hostile + ".yaml", "no plugin");
  scene.folder().write("others/described.yaml",
                       "plugin: 1\nname: described\nversion: \"1\"\n"
                       "summary: \"It \\e[2J\\x9B2J.\"\n"
                       "when:\n  - operators.gemm_conv_ratio > 30%: much of it\n"
                       "try:\n  - layout.memory_format: channels_last\n"
                       "expect: 1.1\nreason: much of it\n");
  const Outcome plugins =
      scene.command({"plugins", "--plugin-dir", (scene.folder() / "others").string()});
  EXPECT_EQ(plugins.code, 0);
  EXPECT_TRUE(is_harmless(plugins.out)) << plugins.out;
  EXPECT_THAT(plugins.out, HasSubstr("/" + shown + ".yaml: refused: "));
  EXPECT_THAT(plugins.out, HasSubstr("It ?[2J?2J."));

  const auto trace = scene.folder().write(hostile + ".json", "no trace");
  const auto recipe = scene.folder().write(hostile + "recipe.yaml", "autotuned: 1\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"analyze", trace.string()},
        {"check", recipe.string()},
        {"run", recipe.string()},
        {"run", scene.recipe().string(), "--budget", hostile},
        {"doctor", hostile}}) {
    const Outcome outcome = scene.command(command);
    EXPECT_NE(outcome.code, 0) << command[0];
    EXPECT_TRUE(is_harmless(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(shown)) << command[0];
  }
}

// A shell may stand in a folder that is gone.
Outcome in_deleted_folder(const Scene& scene, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "/bin/sh",
      "-c",
      "mkdir \"$1\" && cd \"$1\" && rmdir \"$1\" && shift && exec \"$@\"",
      "sh",
      scene.folder() / "gone",
      tests::build_folder() / "bin/autotuned"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Running(command, {"PATH=/usr/bin:/bin", "HOME=" + scene.folder().path().string(),
                           "AUTOTUNED_LOCKS=" + (scene.folder() / "run").string(),
                           "AUTOTUNED_HISTORY=" + scene.history().string(),
                           "AUTOTUNED_TRAINER=" + scene.fake().trainer().string()})
      .finish();
}

TEST(DeletedFolder, IsNamedWithWhatToDo) {
  const Scene scene;
  tests::Cases cases(scene.folder().path());
  const std::string recipe = scene.recipe();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", recipe, "--output", "here"},
        {"run", recipe, "--json"},
        {"profile", recipe, "--output", "here"}}) {
    const Outcome outcome = in_deleted_folder(scene, command);
    EXPECT_EQ(outcome.code, 4) << command[0];
    cases.add(line_of(command, scene), outcome.err);
  }
  EXPECT_TRUE(scene.fake().requests().empty());
  const Outcome doctor = in_deleted_folder(scene, {"doctor", "--json"});
  EXPECT_EQ(doctor.code, 4) << doctor.err;
  const Json findings = doctor.json().at("findings");
  const auto disk = std::ranges::find_if(
      findings, [](const Json& finding) { return finding.at("subject") == "disk"; });
  ASSERT_NE(disk, findings.end());
  EXPECT_EQ(disk->at("health"), "broken");
  cases.add("autotuned doctor", disk->at("text").get<std::string>());
  tests::expect_golden("daemon/cli/golden/deleted_folder.txt", cases.text());
}

}  // namespace
}  // namespace autotuned
