// SPDX-License-Identifier: Apache-2.0
// Plugins that take down who looks at them: the real `autotuned` over a fake trainer.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/integration/scene.hpp"

namespace autotuned {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Json plugin_named(const Json& list, const std::string& name) {
  for (const Json& plugin : list) {
    if (plugin.at("name") == name) return plugin;
  }
  ADD_FAILURE() << name << " is not listed";
  return Json::object();
}

TEST(PluginSurvey, OneThatCrashesOrHangsAtLoadingIsListed) {
  const Scene scene;
  std::vector<std::string> command = {"plugins"};
  for (const char* name : {"crashes_at_loading", "hangs_at_loading", "undefined_symbol"}) {
    command.emplace_back("--plugin-dir");
    command.push_back(Scene::fixture(name));
  }
  const Outcome text = scene.command(command);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("signal 11 (Segmentation fault)"));
  command.emplace_back("--json");
  const Json list = scene.command(command).json();
  const Json crashed = plugin_named(list, "crashes_at_loading");
  EXPECT_EQ(crashed.at("state"), "crashed");
  EXPECT_THAT(crashed.at("path").get<std::string>(), EndsWith("/libcrashes_at_loading.so"));
  EXPECT_EQ(crashed.at("sha256").get<std::string>().size(), 64);
  const Json hung = plugin_named(list, "hangs_at_loading");
  EXPECT_EQ(hung.at("state"), "crashed");
  EXPECT_THAT(hung.at("refusal").get<std::string>(),
              HasSubstr("did not return when it was loaded: no answer within 2"));
  EXPECT_EQ(plugin_named(list, "undefined_symbol").at("state"), "refused");
  EXPECT_EQ(plugin_named(list, "set_to_none").at("state"), "ready");
  EXPECT_TRUE(scene.all_ended());
}

TEST(PluginSurvey, DoctorGoesOnWithoutOneThatCrashes) {
  Scene scene;
  scene.set("AUTOTUNED_PLUGIN_PATH=" + Scene::fixture("crashes_at_loading"));
  const Outcome outcome = scene.command({"doctor", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json findings = outcome.json().at("findings");
  const auto about_plugins = std::ranges::find_if(
      findings, [](const Json& finding) { return finding.at("subject") == "plugins"; });
  ASSERT_NE(about_plugins, findings.end());
  EXPECT_EQ(about_plugins->at("health"), "warning");
}

TEST(Doctor, NamesTheVariableThatHidesGpus) {
  Scene scene;
  const auto trainer = [&scene] {
    const Json findings = scene.command({"doctor", "--json"}).json().at("findings");
    const auto found = std::ranges::find_if(
        findings, [](const Json& finding) { return finding.at("subject") == "trainer"; });
    return found == findings.end() ? std::string() : found->at("text").get<std::string>();
  };
  for (const std::string& visible : std::vector<std::string>{"", "7"}) {
    scene.set("CUDA_VISIBLE_DEVICES=" + visible);
    EXPECT_THAT(trainer(), HasSubstr("CPU only: it is a fake; CUDA_VISIBLE_DEVICES is \"" +
                                     visible + "\" here"));
  }
}

TEST(PluginSurvey, ItsProcessIsNotForPeople) {
  const Scene scene;
  EXPECT_EQ(scene.command({"plugin-process"}).code, 2);
}

}  // namespace
}  // namespace autotuned
