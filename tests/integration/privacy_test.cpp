// SPDX-License-Identifier: Apache-2.0
// What other users of the machine can see of us, and make us do.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "tests/integration/told.hpp"

namespace autotuned {
namespace {

using testing::HasSubstr;

// Whatever the umask is that the user came with.
TEST(Privacy, NothingThatIsWrittenIsForOthers) {
  const Scene scene;
  const mode_t before = ::umask(0);
  expect_code(0, scene.run());
  const Outcome copied =
      scene.command({"history", "backup", (scene.folder() / "copy.db").string()});
  ::umask(before);
  EXPECT_EQ(copied.code, 0);
  int files = 0;
  for (const char* place : {"out", "state", "run", "copy.db"}) {
    std::vector<std::filesystem::path> found = {scene.folder() / place};
    if (std::filesystem::is_directory(found[0])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(found[0]))
        found.push_back(entry.path());
    }
    for (const auto& path : found) {
      struct stat status {};
      ASSERT_EQ(::lstat(path.c_str(), &status), 0) << path;
      EXPECT_EQ(status.st_mode & 0077U, 0U) << path;
      ++files;
    }
  }
  EXPECT_GT(files, 8) << "results, logs, history, locks";
}

// What plugins run in knows of the user's shell what a run needs, with and without a daemon.
TEST(Privacy, SessionHasNoOtherVariablesThanItNeeds) {
  Scene scene{Scene::fast_job({{"do", "pause"}, {"request", "train"}})};
  scene.set("A_PASSWORD=of-somebody");
  for (const bool has_daemon : {false, true}) {
    std::optional<Running> daemon;
    if (has_daemon) {
      daemon.emplace(scene.start({"serve"}));
      ASSERT_TRUE(daemon->wait_for(" serving "));
    }
    Running run = scene.start_run_until("\ntuned ");
    const pid_t session = scene.session_of(has_daemon ? daemon->pid() : run.pid());
    std::ifstream input("/proc/" + std::to_string(session) + "/environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(input), {}};
    EXPECT_THAT(environment, HasSubstr("AUTOTUNED_TRAINER="));
    EXPECT_THAT(environment, testing::Not(HasSubstr("A_PASSWORD")));
    const Descriptor gate = scene.fake().open_gate();
    EXPECT_EQ(run.finish().code, 0);
  }
}

TEST(Privacy, RecipesThatOthersCanChangeAreRefused) {
  const Scene scene;
  for (const mode_t mode : {0666U, 0602U}) {
    ASSERT_EQ(::chmod(scene.recipe().c_str(), mode), 0);
    const Outcome outcome = ended(2, scene.run());
    EXPECT_THAT(outcome.err + outcome.out, HasSubstr("can be written by all"));
  }
  ASSERT_EQ(::chmod(scene.recipe().c_str(), 0644), 0);
  EXPECT_EQ(scene.command({"check", scene.recipe().string()}).code, 0);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(scene.recipe().c_str(), 12345, 12345), 0);
  const Outcome outcome = ended(2, scene.run());
  EXPECT_THAT(outcome.err + outcome.out, HasSubstr("is owned by user 12345"));
  EXPECT_TRUE(scene.fake().requests("load").empty());
}

TEST(Privacy, RecipeThatIsNoFileIsStillNamed) {
  const Scene scene;
  Told told(scene, "privacy");
  told.ends(2, "a folder", scene.command({"check", scene.folder().path().string()}));
  told.ends(2, "a pipe", scene.command({"check", scene.fake().folder().path() / "gate"}));
  told.ends(2, "nothing", scene.command({"check", "/nowhere/recipe.yaml"}));
}

}  // namespace
}  // namespace autotuned
