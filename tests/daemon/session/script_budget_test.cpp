// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/script_budget.hpp"

#include <gtest/gtest.h>

#include "recipes/recipe.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ScriptBudget, IsAFifthOfTheLastWholeRun) {
  const TemporaryFolder folder;
  auto history = storage::History::open(folder / "history.db", storage::Access::read_write);
  ASSERT_TRUE(history);
  storage::RunRow run = put_small_run(*history);
  ScriptRequest script;
  EXPECT_EQ(choose_script_budget(script, *history, run).time, recipes::Tune{}.budget);

  run.state = storage::RunState::finished;
  run.ended_unix_ns = nanoseconds(seconds(500)).count();
  ASSERT_TRUE(history->update_run(run));
  const ScriptBudget fifth = choose_script_budget(script, *history, run);
  EXPECT_EQ(fifth.time, seconds(100));
  EXPECT_EQ(fifth.because,
            "a fifth of the 8 min 20 s that it ran here last; --budget sets another time");
  EXPECT_TRUE(fifth.is_by_earlier_run);

  script.budget = seconds(7);
  const ScriptBudget given = choose_script_budget(script, *history, run);
  EXPECT_EQ(given.time, seconds(7));
  EXPECT_EQ(given.because, "as --budget says");
  EXPECT_FALSE(given.is_by_earlier_run);

  script.budget.reset();
  run.training["exit_code"] = 1;
  ASSERT_TRUE(history->update_run(run));
  EXPECT_FALSE(choose_script_budget(script, *history, run).is_by_earlier_run)
      << "a script that failed may have ended early";
}

TEST(ScriptBudget, IsAFifthOfTheTrainingThatIsLeft) {
  const ScriptBudget usual{minutes(10), "", false};
  const auto fifth = budget_within(minutes(5), "epochs", usual);
  ASSERT_TRUE(fifth);
  EXPECT_EQ(fifth->time, minutes(1));
  EXPECT_EQ(fifth->note,
            "about 5 min 00 s of training are left, by its variable 'epochs': it is tuned for "
            "1 min 00 s at most, a fifth of that; --budget sets another time");

  const auto least = budget_within(minutes(1), "epochs", usual);
  ASSERT_TRUE(least);
  EXPECT_EQ(least->time, seconds(20));
  EXPECT_EQ(least->note,
            "about 1 min 00 s of training are left, by its variable 'epochs': it is tuned for "
            "20.0 s at most, the least; --budget sets another time");

  EXPECT_FALSE(budget_within(minutes(60), "epochs", usual)) << "a fifth is more than the budget";
}

}  // namespace
}  // namespace autotuned::daemon
