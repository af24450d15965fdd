// SPDX-License-Identifier: Apache-2.0
// Plugins that misbehave: named, remembered, and the run goes on without them.
#include <gmock/gmock.h>

#include "storage/history.hpp"
#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

class Misbehaving : public testing::TestWithParam<const char*> {};

// The answer that the history holds of a plugin; empty when it was never asked.
storage::PluginAnswerRow answer_of(const Scene& scene, const std::string& plugin) {
  const auto history = storage::History::open(scene.history(), storage::Access::read_only);
  EXPECT_TRUE(history);
  const auto run = history->run("last");
  EXPECT_TRUE(run);
  const auto answers = history->plugin_answers(run->id);
  EXPECT_TRUE(answers);
  storage::PluginAnswerRow found;
  int failures = 0;
  for (const auto& answer : *answers) {
    if (answer.plugin != plugin) continue;
    found = answer;
    if (answer.is_failure) ++failures;
  }
  EXPECT_LE(failures, 1) << plugin << " was asked again after it had failed";
  return found;
}

TEST_P(Misbehaving, IsNamedAndLeftOut) {
  const std::string name = GetParam();
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none, " + name + "]\n");
  const Outcome outcome = ended(0, scene.run({"--plugin-dir", Scene::fixture(name)}));
  EXPECT_NEAR(outcome.json().at("best").at("speedup").get<double>(), 1.3, 0.03);
  EXPECT_EQ(outcome.json().at("training").at("steps"), 10);
  EXPECT_EQ(scene.runs().size(), 1);
  EXPECT_THAT(outcome.err, HasSubstr(name));

  const auto answer = answer_of(scene, name);
  EXPECT_TRUE(answer.is_answered);
  EXPECT_TRUE(answer.is_failure);
  EXPECT_NE(answer.outcome, "");
  EXPECT_THAT(scene.command({"show", "last"}).out, HasSubstr(name));
  EXPECT_TRUE(scene.all_ended());
}

INSTANTIATE_TEST_SUITE_P(Plugins, Misbehaving,
                         testing::Values("throws", "hangs", "crashes", "is_killed", "nonsense",
                                         "unknown_knob", "crashes_at_loading"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(Plugins, SeveralThatMisbehaveAreLeftOutOneByOne) {
  const Scene scene;
  scene.write_recipe("  plugins: all\n");
  std::vector<std::string> options;
  for (const char* name : {"crashes", "throws", "crashes_at_loading", "nonsense"}) {
    options.emplace_back("--plugin-dir");
    options.push_back(Scene::fixture(name));
  }
  const Json outcome = result_of(scene.run(options));
  EXPECT_NEAR(outcome.at("best").at("speedup").get<double>(), 1.56, 0.03);
  for (const char* name : {"crashes", "throws", "crashes_at_loading", "nonsense"}) {
    EXPECT_TRUE(answer_of(scene, name).is_failure) << name;
  }
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

Json listed(const Scene& scene, const std::string& plugin,
            const std::vector<std::string>& options = {}) {
  std::vector<std::string> command = {"plugins", "--json"};
  command.insert(command.end(), options.begin(), options.end());
  for (const Json& found : scene.command(command).json()) {
    if (found.at("name") == plugin) return found;
  }
  return nullptr;
}

TEST(Plugins, OneThatRefusesToLoadIsNotNeededAndToldOnce) {
  const Scene scene{Scene::fast_job({{"request", "profile"},
                                     {"when", {"optimizer.set_to_none=on"}},
                                     {"do", "kill_session"},
                                     {"once", true}})};
  scene.write_recipe("  plugins: all\n");
  const Outcome outcome = ended(0, scene.run({"--plugin-dir", Scene::fixture("undefined_symbol")}));
  ASSERT_THAT(outcome.err, HasSubstr("it is started again"));
  EXPECT_EQ(count_of(outcome.err, "warning: plugin undefined_symbol is refused: "), 1)
      << outcome.err;
  EXPECT_THAT(scene.command({"explain", "last"}).out,
              HasSubstr("undefined_symbol was left out: is refused: "));
  EXPECT_EQ(listed(scene, "undefined_symbol", {"--plugin-dir", Scene::fixture("undefined_symbol")})
                .at("state"),
            "refused");
}

TEST(Plugins, AreListedWithTheirRecord) {
  const Scene scene;
  EXPECT_EQ(listed(scene, "set_to_none").at("record").at("asked"), 0) << "without a history";

  scene.write_recipe("  plugins: [set_to_none, crashes]\n");
  ASSERT_EQ(scene.run({"--plugin-dir", Scene::fixture("crashes")}).code, 0);
  const Json good = listed(scene, "set_to_none").at("record");
  EXPECT_GE(good.at("asked"), 2);
  EXPECT_EQ(good.at("proposed"), 1);
  EXPECT_EQ(good.at("accepted"), 1);
  EXPECT_EQ(good.at("failed"), 0);
  EXPECT_EQ(listed(scene, "amp").at("record").at("asked"), 0) << "the recipe leaves it out";

  const Json bad = listed(scene, "crashes", {"--plugin-dir", Scene::fixture("crashes")});
  EXPECT_EQ(bad.at("state"), "ready");
  EXPECT_EQ(bad.at("record").at("failed"), 1);
  EXPECT_THAT(bad.at("record").at("last_failure").get<std::string>(), HasSubstr("signal"));
  const std::string text =
      scene.command({"plugins", "--plugin-dir", Scene::fixture("crashes")}).out;
  for (const char* words : {"proposed 1, accepted 1", "crashes failed last: "})
    EXPECT_THAT(text, HasSubstr(words));
}

TEST(Plugins, AHistoryThatCannotBeReadCostsTheRecords) {
  const Scene scene;
  const auto file = scene.folder().write("no.db", "no history, but longer than nothing at all");
  const Outcome outcome = scene.command({"plugins", "--json", "--history", file.string()});
  Told(scene, "plugins").ends(0, "no history", outcome);
  EXPECT_GE(outcome.json().size(), 11);
}

TEST(Plugins, OneMayBeRequired) {
  const Scene scene;
  EXPECT_EQ(scene.command({"plugins", "--require", "amp"}).code, 0);
  Told(scene, "plugins").ends(2, "apm", scene.command({"plugins", "--require", "apm", "--json"}));
  const Outcome refused =
      ended(1, scene.command({"plugins", "--plugin-dir", Scene::fixture("undefined_symbol"),
                              "--require", "undefined_symbol"}));
  EXPECT_THAT(refused.err, HasSubstr("undefined_symbol is refused"));
}

TEST(Plugins, OneThatIsRequiredIsListedAlone) {
  const Scene scene;
  const Json list = scene.command({"plugins", "--require", "amp", "--json"}).json();
  ASSERT_EQ(list.size(), 1);
  EXPECT_EQ(list.at(0).at("name"), "amp");
  EXPECT_EQ(list.at(0).at("state"), "ready");
  const std::string text = scene.command({"plugins", "--require", "amp"}).out;
  EXPECT_EQ(count_of(text, "\n"), 2) << text;
}

TEST(PluginNames, ThatDoNotExistAreUsageErrorsThatNameTheNearest) {
  const Scene scene;
  scene.write_recipe("  plugins: [set_to_none, set_to_nome]\n");
  Told told(scene, "plugins");
  for (const char* command : {"check", "run"})
    told.ends(2, command, scene.command({command, scene.recipe().string()}));
  scene.write_recipe("  plugins: [set_to_none]\n");
  told.ends(2, "--without", scene.run({"--without", "set_to_nome"}));
  EXPECT_TRUE(scene.fake().requests().empty());
}

TEST(PluginNames, AFolderThatIsNotThereIsAUsageError) {
  const Scene scene;
  const std::string recipe = scene.recipe().string();
  Told told(scene, "plugins");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run", recipe},
                                                  {"check", recipe},
                                                  {"profile", recipe},
                                                  {"best", recipe},
                                                  {"forget", recipe},
                                                  {"knobs"},
                                                  {"plugins"}}) {
    std::vector<std::string> all = command;
    all.insert(all.end(), {"--plugin-dir", "/nonexistent"});
    told.ends(2, command[0], scene.command(all));
  }
  EXPECT_TRUE(scene.fake().requests().empty());
}

}  // namespace
}  // namespace autotuned
