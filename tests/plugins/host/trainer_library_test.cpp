// SPDX-License-Identifier: Apache-2.0
// Libraries that only the trainer loads: what is known of them without their code, and every refusal.
#include "plugins/host/trainer_library.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/machine/machine.hpp"
#include "plugins/host/needs.hpp"
#include "plugins/sdk/autotuned_trainer.h"
#include "tests/golden_parts.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class TrainerLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("AUTOTUNED_TEST_LOADING_MARK", mark_.c_str(), 1); }
  void TearDown() override {
    ::unsetenv("AUTOTUNED_TEST_LOADING_MARK");
    EXPECT_EQ(std::filesystem::exists(mark_), may_run_) << "whether code of the library ran";
  }

  FoundPlugin only() const { return only_in(folder_); }
  static FoundPlugin only_in(const PluginFolder& folder) {
    std::vector<std::string> loading;
    std::vector<FoundPlugin> found = find_plugins(
        {folder.path()}, {}, [&](const std::string& name) { loading.push_back(name); });
    EXPECT_THAT(loading, IsEmpty());
    EXPECT_THAT(found, SizeIs(1));
    return found.empty() ? FoundPlugin{} : found.front();
  }
  static std::string refusal_in(const PluginFolder& folder) {
    const FoundPlugin found = only_in(folder);
    EXPECT_EQ(found.state, FoundPlugin::State::refused);
    return found.refusal;
  }
  // Compares why what is in the folder is refused with the golden file.
  void expect_refusal() const {
    tests::expect_golden_part("plugins/host/golden/trainer_files.txt",
                              tests::with_here(refusal_in(folder_), folder_.path()) + "\n");
  }

  PluginFolder folder_;
  PluginFolder elsewhere_;
  std::filesystem::path mark_ = elsewhere_.path() / "mark";
  bool may_run_ = false;
};

TEST_F(TrainerLibraryTest, IsKnownWithoutRunning) {
  folder_.add("fine_trainer");
  const FoundPlugin found = only();
  EXPECT_EQ(found.state, FoundPlugin::State::ready) << found.refusal;
  EXPECT_EQ(found.name, "fine");
  EXPECT_EQ(found.kind, "extension");
  EXPECT_EQ(found.version, "1.0");
  EXPECT_EQ(found.summary, "For tests.");
  EXPECT_EQ(found.policy, nullptr);
  ASSERT_THAT(found.knobs, SizeIs(1));
  EXPECT_EQ(found.knobs[0].name, "fine.skip");
  EXPECT_EQ(found.knobs[0].risk, recipes::RiskClass::numerics);
  EXPECT_EQ(found.knobs[0].default_value, KnobValue(false));
}

TEST_F(TrainerLibraryTest, StandsBesideThePolicyOfItsName) {
  folder_.add("fine_trainer");
  folder_.write("fine.yaml",
                "plugin: 1\nname: fine\nversion: '1'\nsummary: Turns it.\ntry:\n"
                "  - fine.skip: on\nexpect: 1.1\nreason: a test\n");
  std::vector<std::string> kinds;
  for (const FoundPlugin& found : find_plugins({folder_.path()}, {})) {
    EXPECT_EQ(found.name, "fine");
    EXPECT_EQ(found.state, FoundPlugin::State::ready) << found.refusal;
    kinds.push_back(found.kind);
  }
  EXPECT_THAT(kinds, ::testing::UnorderedElementsAre("extension", "yaml"));
  EXPECT_THAT(find_plugins({folder_.path()}, {"fine"}), IsEmpty());
  EXPECT_THAT(find_trainer_plugins({folder_.path()}, {}), SizeIs(1));
}

TEST_F(TrainerLibraryTest, RunsWhereItIsLoaded) {
  may_run_ = true;
  const auto library = examine_trainer_library(folder_.add("fine_trainer"));
  ASSERT_TRUE(library) << library.error().message();
  const auto surface = load_trainer_library(*library);
  ASSERT_TRUE(surface) << surface.error().message();
  EXPECT_NE(*surface, nullptr);
}

// What this program was built with depends on the machine of the test.
TEST_F(TrainerLibraryTest, OfAnotherBuild) {
  const std::string program = ", this program with ";
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
           {"other_libtorch", "was built with LibTorch 2.10.0" + program + "LibTorch "},
           {"other_compiler", "was built with Clang 99" + program + AUTOTUNED_TRAINER_COMPILER},
           {"other_cxx_library",
            "_GLIBCXX_USE_CXX11_ABI=0" + program + AUTOTUNED_TRAINER_CXX_LIBRARY},
           {"other_sdk", "version 1 of the trainer surface" + program +
                             "version " AUTOTUNED_TRAINER_SDK " of the trainer surface"}}) {
    const PluginFolder folder;
    folder.add(name + "_trainer");
    EXPECT_THAT(refusal_in(folder), HasSubstr(words));
  }
}

TEST_F(TrainerLibraryTest, OfAFixtureSaysWhatIsWrongWithIt) {
  std::string told;
  for (const char* const name : {"other_major", "without_alias", "without_section", "quoting",
                                 "foreign_knob", "knobless", "oddly_needy", "kindless"}) {
    const PluginFolder folder;
    folder.add(std::string(name) + "_trainer");
    told += std::string(name) + "\n  " + tests::with_here(refusal_in(folder), folder.path()) + "\n";
  }
  tests::expect_golden("plugins/host/golden/trainer_refusals.txt", told);
}

// On a machine that has it all the library is ready; on any other it says what it lacks, and nothing is wrong
// with its file.
TEST_F(TrainerLibraryTest, ThatNeedsWhatTheMachineMayLack) {
  folder_.add("needy_trainer");
  const FoundPlugin found = only();
  EXPECT_THAT(found.needs, ElementsAre("avx2", "cuda"));
  const auto lacking = why_unsupported(found.needs, detect_machine());
  EXPECT_EQ(found.to_json().at("state"), lacking ? "unsupported" : "ready");
  EXPECT_EQ(found.refusal, lacking.value_or(""));
}

TEST_F(TrainerLibraryTest, UnderAnotherName) {
  folder_.add("fine_trainer", "better_trainer");
  expect_refusal();
}

TEST_F(TrainerLibraryTest, ThatIsNoLibrary) {
  folder_.write("libtext_trainer.so",
                "#!/bin/sh\necho long enough to hold an ELF header, and more\n");
  expect_refusal();
}

TEST_F(TrainerLibraryTest, TruncatedAnywhere) {
  std::ostringstream text;
  text << std::ifstream(fixture_library("fine_trainer"), std::ios::binary).rdbuf();
  const std::string whole = text.str();
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 7) {
    folder_.write("libfine_trainer.so", whole.substr(0, size));
    EXPECT_THAT(refusal_in(folder_), Not(IsEmpty())) << size;
  }
  folder_.write("libfine_trainer.so", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(refusal_in(folder_), HasSubstr("ends after"));
}

TEST_F(TrainerLibraryTest, ThatOthersCanWrite) {
  ::chmod(folder_.add("fine_trainer").c_str(), 0666);
  expect_refusal();
}

TEST_F(TrainerLibraryTest, ThatIsALinkOutOfTheFolder) {
  elsewhere_.add("fine_trainer");
  std::filesystem::create_symlink(elsewhere_.path() / "libfine_trainer.so",
                                  folder_.path() / "libfine_trainer.so");
  EXPECT_THAT(refusal_in(folder_), HasSubstr("symbolic link to " + elsewhere_.path().string()));
}

// A policy's file that is named like this would be taken for the trainer's.
TEST_F(TrainerLibraryTest, ThatIsAPolicy) {
  folder_.add("marks", "marks_trainer");
  expect_refusal();
}

}  // namespace
}  // namespace autotuned::plugins
