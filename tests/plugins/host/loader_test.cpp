// SPDX-License-Identifier: Apache-2.0
// Loading what may be trusted: names, order, answers. Refusals are in refusal_test.cpp.
#include "plugins/host/loader.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "base/digest.hpp"
#include "tests/golden.hpp"
#include "tests/places.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = FoundPlugin::State;

std::vector<std::string> names_of(const std::vector<FoundPlugin>& plugins) {
  std::vector<std::string> names;
  for (const FoundPlugin& plugin : plugins)
    names.push_back(plugin.name);
  return names;
}

TEST(Loader, LoadsAPluginWrittenInC) {
  const PluginFolder folder;
  const std::filesystem::path file = folder.add("plain_c");
  const FoundPlugin plugin = only_plugin(folder.path());
  EXPECT_EQ(plugin.state, State::ready) << plugin.refusal;
  EXPECT_EQ(plugin.name, "plain_c");
  EXPECT_EQ(plugin.version, "2.5");
  EXPECT_EQ(plugin.summary, "A plugin in C.");
  EXPECT_EQ(plugin.kind, "policy");
  EXPECT_EQ(plugin.path, file);
  EXPECT_EQ(plugin.sha256, sha256_hex_of_file(file).value());
  ASSERT_NE(plugin.policy, nullptr);
  EXPECT_EQ(plugin.policy->name(), "plain_c");
  const Result<Json> answer = plugin.policy->propose(Json::object());
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(none_because(*answer), "written in C");
  EXPECT_EQ(plugin.to_json().at("state"), "ready");
}

TEST(Loader, LoadsAPluginThatWasStripped) {
  const PluginFolder folder;
  const std::filesystem::path file = folder.add("plain_c");
  if (std::system(("strip " + file.string()).c_str()) != 0) GTEST_SKIP() << "no strip(1) here";
  EXPECT_EQ(only_plugin(folder.path()).state, State::ready);
}

TEST(Loader, LoadsAPluginWithPackedAddresses) {
  if (!std::filesystem::exists(fixture_library("packed"))) {
    GTEST_SKIP() << "the linker of this build cannot pack addresses";
  }
  const PluginFolder folder;
  folder.add("packed");
  const FoundPlugin plugin = only_plugin(folder.path());
  EXPECT_EQ(plugin.state, State::ready) << plugin.refusal;
  EXPECT_EQ(plugin.summary, "A plugin in C.");
}

TEST(Loader, RefusesAPluginThatChangesWhatItSaidOfItself) {
  const PluginFolder folder;
  folder.add("renames_itself");
  const FoundPlugin plugin = only_plugin(folder.path());
  EXPECT_EQ(plugin.state, State::refused);
  EXPECT_EQ(plugin.policy, nullptr);
  EXPECT_THAT(plugin.refusal, HasSubstr("changed its descriptor while it was loaded"));
}

TEST(Loader, FindsEveryBuiltInPlugin) {
  const std::vector<FoundPlugin> found =
      find_plugins({tests::build_folder() / "lib/autotuned/plugins"}, {});
  EXPECT_THAT(
      names_of(found),
      ::testing::IsSupersetOf({"amp", "batch_size", "channels_last", "deferred_loss_reading",
                               "gather_to_indexing", "intra_op_threads", "memory_malloc",
                               "num_workers", "pinned_memory", "set_to_none", "uint8_transfer"}));
  for (const FoundPlugin& plugin : found) {
    EXPECT_EQ(plugin.state, State::ready) << plugin.refusal;
    EXPECT_THAT(plugin.version, ::testing::Not(IsEmpty())) << plugin.name;
    EXPECT_THAT(plugin.summary, ::testing::EndsWith(".")) << plugin.name;
    EXPECT_EQ(plugin.sha256.size(), 64U) << plugin.name;
  }
}

// The code of an extension is in its trainer library: a search that asked the plugin of another build is not complete.
TEST(Loader, TheDigestOfABuildCoversTheTrainerLibrary) {
  const PluginFolder folder;
  folder.add("plain_c");
  const FoundPlugin alone = only_plugin(folder.path());
  EXPECT_EQ(alone.trainer_sha256, "");
  EXPECT_EQ(alone.build_digest(), alone.sha256);

  std::vector<std::string> digests = {alone.build_digest()};
  for (const char* const build : {"fine_trainer", "needy_trainer"}) {
    const std::filesystem::path library = folder.add(build, "plain_c_trainer");
    const std::vector<FoundPlugin> found = find_plugins({folder.path()}, {});
    ASSERT_EQ(found.size(), 2U);
    const auto policy =
        std::ranges::find_if(found, [](const FoundPlugin& one) { return one.policy != nullptr; });
    ASSERT_NE(policy, found.end());
    EXPECT_EQ(policy->sha256, alone.sha256);
    EXPECT_EQ(policy->trainer_sha256, sha256_hex_of_file(library).value());
    EXPECT_THAT(digests, ::testing::Not(::testing::Contains(policy->build_digest())));
    digests.push_back(policy->build_digest());
    std::filesystem::remove(library);
  }
}

std::string yaml_plugin(const std::string& name, const std::string& knob) {
  return "plugin: 1\nname: " + name + "\nversion: \"1.0\"\nsummary: Turns it.\ntry:\n  - " + knob +
         ": on\nexpect: 10%\nreason: it is there\n";
}

// The name of a knob begins with that of its extension, and any plugin may propose it.
TEST(Loader, APluginIsTiedToTheExtensionsWhoseKnobsItNames) {
  const PluginFolder folder;
  folder.add("fine_trainer");
  folder.write("tied.yaml", yaml_plugin("tied", "fine.skip"));
  folder.write("untied.yaml", yaml_plugin("untied", "refine.skip_now"));
  const std::vector<FoundPlugin> found = find_plugins({folder.path()}, {});
  const auto named = [&found](const std::string& name) {
    const auto one = std::ranges::find_if(found, [&name](const FoundPlugin& plugin) {
      return plugin.name == name && plugin.kind == "yaml";
    });
    return one == found.end() ? FoundPlugin() : *one;
  };
  EXPECT_EQ(named("tied").trainer_sha256,
            sha256_hex_of_file(folder.path() / "libfine_trainer.so").value());
  EXPECT_NE(named("tied").build_digest(), named("tied").sha256);
  EXPECT_EQ(named("untied").trainer_sha256, "");
  EXPECT_EQ(named("untied").sha256.size(), 64U);

  // A library that holds the name, as one that proposes the knob does: here the extension's own bytes.
  std::filesystem::copy_file(folder.path() / "libfine_trainer.so", folder.path() / "libother.so");
  for (const FoundPlugin& plugin : find_plugins({folder.path()}, {})) {
    if (plugin.name == "other") {
      EXPECT_EQ(plugin.trainer_sha256, named("tied").trainer_sha256);
    }
  }
  std::filesystem::remove(folder.path() / "libfine_trainer.so");
  EXPECT_EQ(find_plugins({folder.path()}, {}).front().trainer_sha256, "");
}

TEST(Loader, SortsByNameAndIgnoresOtherFiles) {
  const PluginFolder folder;
  folder.add("plain_c");
  folder.add("marks");
  folder.write("README.md", "no plugin");
  folder.write("plain.so", "no plugin either: it does not start with lib");
  folder.write("libold.so.1", "nor this");
  EXPECT_THAT(names_of(find_plugins({folder.path()}, {})), ElementsAre("marks", "plain_c"));
}

TEST(Loader, AnEarlierFolderHidesALaterOne) {
  const PluginFolder own;
  const PluginFolder built_in;
  own.add("bad_magic", "plain_c");
  built_in.add("plain_c");
  const std::vector<FoundPlugin> found = find_plugins({own.path(), built_in.path()}, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().path.parent_path(), own.path());
  EXPECT_EQ(found.front().state, State::refused);
}

TEST(Loader, ALibraryHidesAYamlFileOfItsName) {
  const PluginFolder folder;
  folder.add("plain_c");
  folder.write("plain_c.yaml", "plugin: 1\n");
  EXPECT_EQ(only_plugin(folder.path()).kind, "policy");
}

TEST(Loader, LeavesOutWhatItIsToldToAndSaysWhatItRuns) {
  const PluginFolder folder;
  folder.add("throws");  // leaves no mark
  const std::filesystem::path mark = folder.path() / "mark";
  ASSERT_EQ(::setenv("AUTOTUNED_TEST_LOADING_MARK", mark.c_str(), 1), 0);
  folder.add("marks");
  std::vector<std::string> loading;
  const auto note = [&](const std::string& name) {
    loading.push_back(name);
    EXPECT_FALSE(std::filesystem::exists(mark)) << "told too late";
  };

  EXPECT_THAT(names_of(find_plugins({folder.path()}, {"marks"}, note)), ElementsAre("throws"));
  EXPECT_THAT(loading, ElementsAre("throws"));
  EXPECT_FALSE(std::filesystem::exists(mark));

  loading.clear();
  EXPECT_THAT(names_of(find_plugins({folder.path()}, {"throws"}, note)), ElementsAre("marks"));
  EXPECT_THAT(loading, ElementsAre("marks"));
  // So that the tests of refusals can trust the mark.
  EXPECT_TRUE(std::filesystem::exists(mark));
  ::unsetenv("AUTOTUNED_TEST_LOADING_MARK");
}

std::string failure_of(const std::string& fixture) {
  const PluginFolder folder;
  folder.add(fixture);
  const FoundPlugin plugin = only_plugin(folder.path());
  EXPECT_EQ(plugin.state, State::ready) << plugin.refusal;
  if (!plugin.policy) return "refused";
  const Result<Json> answer = plugin.policy->propose(situation("fashion_cnn_cpu"));
  if (answer) return "answered " + to_line(*answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::invalid);
  return answer.error().message();
}

// An answer that is none is an error that names the plugin; what only the tuner can judge is passed on.
TEST(Loader, AnswersOfPluginsThatMisbehaveAreErrors) {
  std::string told;
  for (const char* name : {"throws", "throws_through", "answers_null", "nonsense", "answers_array",
                           "answers_much", "unknown_knob"})
    told += name + ("\n  " + failure_of(name)) + "\n";
  tests::expect_golden("plugins/host/golden/misbehaviour.txt", told);
}

TEST(PluginFolders, ComeInOrderOfPrecedence) {
  const PluginFolder home;
  std::filesystem::create_directories(home.path() / "autotuned" / "plugins");
  ASSERT_EQ(::setenv("AUTOTUNED_PLUGIN_PATH", "/one::/two:relative", 1), 0);
  ASSERT_EQ(::setenv("XDG_DATA_HOME", home.path().c_str(), 1), 0);
  EXPECT_THAT(plugin_folders({"/extra"}, "/built-in"),
              ElementsAre("/extra", "/one", "/two", "relative",
                          home.path() / "autotuned" / "plugins", "/built-in"));
  // A folder for one's own plugins that nobody made is no mistake.
  ASSERT_EQ(::setenv("XDG_DATA_HOME", "/nowhere", 1), 0);
  ASSERT_EQ(::unsetenv("AUTOTUNED_PLUGIN_PATH"), 0);
  EXPECT_THAT(plugin_folders({}, "/built-in"), ElementsAre("/built-in"));
  ::unsetenv("XDG_DATA_HOME");
}

}  // namespace
}  // namespace autotuned::plugins
