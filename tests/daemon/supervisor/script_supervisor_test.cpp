// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/script_supervisor.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/supervisor/supervision.hpp"

namespace autotuned::daemon {
namespace {

using testing::HasSubstr;

class ScriptSupervisorTest : public testing::Test {
 protected:
  // A shell as the script, beside a session that plays this part.
  Result<ProcessExit> run(const std::string& part, const std::string& script) {
    return run_command(part, {"/bin/sh", "-c", script});
  }
  Result<ProcessExit> run_command(const std::string& part, std::vector<std::string> command) {
    ::setenv("AUTOTUNED_TRAINER", part.c_str(), 1);
    SessionRequest request;
    request.script = ScriptRequest{
        .name = "train.py", .command = command, .content = "", .budget = {}, .allow = {}};
    ScriptSpec spec;
    spec.command = std::move(command);
    spec.environment = {"PATH=/usr/bin:/bin", "OUT=" + folder_.path().string()};
    spec.umask = 027;
    return supervise_script(std::move(request), std::move(spec), [this](const Json& event) {
      events_.push_back(event);
      if (on_warning_ && event.at("event") == "warning") on_warning_();
    });
  }
  [[nodiscard]] std::string warnings() const {
    std::string text;
    for (const Json& event : events_) {
      if (event.at("event") == "warning") text += event.at("text").get<std::string>() + "\n";
    }
    return text;
  }

  TemporaryFolder folder_;
  std::vector<Json> events_;
  std::function<void()> on_warning_;
};

TEST_F(ScriptSupervisorTest, EndsAsTheScriptDoes) {
  auto exit = run(kShort, "exit 7");
  ASSERT_TRUE(exit) << exit.error().message();
  EXPECT_EQ(exit->code, 7);
  EXPECT_EQ(exit->signal, 0);
  exit = run(kShort, "kill -KILL $$");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGKILL);
}

TEST_F(ScriptSupervisorTest, TheScriptIsAsTheShellWouldHaveStartedIt) {
  const auto exit =
      run(kShort,
          "umask > \"$OUT/umask\"; test -S /proc/self/fd/$AUTOTUNED_SCRIPT_SOCKET || exit 1; "
          // Read by the shell itself: while it starts a program it blocks all signals.
          "while read -r line; do case $line in SigBlk*) echo \"$line\" > \"$OUT/signals\";; esac; "
          "done < /proc/$$/status; "
          "cut -d' ' -f5 /proc/$$/stat > \"$OUT/group\"; cut -d' ' -f5 /proc/$PPID/stat > "
          "\"$OUT/ours\"");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0);
  EXPECT_EQ(folder_.read("umask"), "0027\n");
  EXPECT_THAT(folder_.read("signals"), HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_EQ(folder_.read("group"), folder_.read("ours")) << "the terminal's signals reach it";
}

// Nobody starts a session anew where the agent has let go of the script.
TEST_F(ScriptSupervisorTest, ASessionThatCrashesTakesNothingFromTheScript) {
  // The script waits until that is told.
  const std::filesystem::path gate = folder_ / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  on_warning_ = [gate] { std::ofstream(gate) << "go\n"; };
  const auto exit = run(kFaulty, "read word < \"$OUT/gate\"; exit 3");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 3);
  EXPECT_THAT(warnings(), HasSubstr("--without crashes"));
}

TEST_F(ScriptSupervisorTest, TheSessionIsToldOfTheEnd) {
  const auto exit = run(kHeld, "exit 0");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0);
  ASSERT_FALSE(events_.empty());
  EXPECT_THAT(warnings(), testing::IsEmpty());
}

TEST_F(ScriptSupervisorTest, PassesOnWhatItIsSent) {
  const auto exit = run(kHeld,
                        "sleep 60 & child=$!; trap \"kill $child; exit 5\" USR1; "
                        "(kill -USR1 $PPID); wait");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 5);
}

TEST_F(ScriptSupervisorTest, TheScriptsOwnSignalsDoNotComeBack) {
  const auto exit = run(kHeld, "trap 'exit 5' USR1; kill -USR1 $PPID; exit 0");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0);
}

TEST_F(ScriptSupervisorTest, LeavesItsSignalsAsTheyWere) {
  ASSERT_TRUE(run(kShort, "exit 0"));
  sigset_t blocked;
  sigemptyset(&blocked);
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

TEST_F(ScriptSupervisorTest, NamesAProgramThatIsNotThere) {
  const auto exit = run_command(kShort, {"no-such-program", "--epochs", "2"});
  ASSERT_FALSE(exit);
  EXPECT_EQ(exit.error().kind, ErrorKind::not_found);
  EXPECT_THAT(exit.error().message(), HasSubstr("no-such-program"));
}

}  // namespace
}  // namespace autotuned::daemon
