// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_load.hpp"

#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

// Two CPUs that were busy for ten seconds.
MachineState state_after(double own_seconds) {
  MachineState state;
  state.cpus = 2;
  state.cpu_time = MachineState::CpuTime{.busy = 20.0};
  state.own_cpu_time = own_seconds;
  return state;
}

MachineState state_before() {
  MachineState state;
  state.cpus = 2;
  state.cpu_time.emplace();
  return state;
}

TEST(ScriptLoad, WhatOthersUsedIsStoredWhereATrendLooks) {
  const TemporaryFolder folder;
  auto history = storage::History::open(folder / "history.db", storage::Access::read_write);
  ASSERT_TRUE(history);
  const storage::RunRow run = put_small_run(*history);
  ASSERT_TRUE(record_load(*history, run, state_before(), state_after(20.0), 1));
  EXPECT_THAT(history->plugin_answers(run.id).value(), testing::IsEmpty()) << "all its own";
  ASSERT_TRUE(record_load(*history, run, state_before(), state_after(10.0), 1));
  const auto answers = history->plugin_answers(run.id);
  ASSERT_TRUE(answers);
  ASSERT_EQ(answers->size(), 1U);
  EXPECT_EQ(answers->front().kind, storage::AnswerKind::machine);
  EXPECT_EQ(answers->front().subject, "load");
  EXPECT_EQ(answers->front().plugin, storage::kMachineName);
  EXPECT_THAT(answers->front().outcome, testing::StartsWith("load: "));
}

}  // namespace
}  // namespace autotuned::daemon
