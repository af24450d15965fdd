// SPDX-License-Identifier: Apache-2.0
#include "daemon/plugin_list/plugin_record.hpp"

#include <gmock/gmock.h>

#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/small_run.hpp"

namespace autotuned::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PluginRecords : public testing::Test {
 protected:
  void add(const std::string& plugin, const std::string& knob, Verdict verdict) {
    TrialRecord trial;
    trial.number = ++trials_;
    trial.plugin = plugin;
    trial.risk = "exact";
    trial.change.set(knob, true);
    trial.verdict = verdict;
    if (verdict == Verdict::failed) trial.failure = ErrorKind::crashed;
    trial.reason = "the trainer ended (signal 11)";
    EXPECT_TRUE(history_->put_trial(run_.id, trial));
  }
  [[nodiscard]] PluginRecord record_of(const std::string& name) const {
    auto records = plugin_records(*history_);
    EXPECT_TRUE(records);
    return records ? (*records)[name] : PluginRecord{};
  }

  TemporaryFolder folder_;
  Result<storage::History> history_ =
      storage::History::open(folder_ / "history.db", storage::Access::read_write);
  storage::RunRow run_ = put_small_run(*history_);
  int trials_ = 0;
};

TEST_F(PluginRecords, HoldFailedTrialsOfAnExtensionWhoeverProposedThem) {
  add("tricks", "tricks.trick", Verdict::failed);
  add("somebody", "tricks.trick", Verdict::failed);
  add("somebody", "tricks.trick", Verdict::accepted);
  const PluginRecord record = record_of("tricks");
  EXPECT_EQ(record.failed_trials, 2);
  EXPECT_EQ(record.failed, 0) << "it answered every question";
  EXPECT_EQ(record.text(), "2 trials failed");
  EXPECT_THAT(record.last_failure, AllOf(HasSubstr("trial 2 of run r-20261121-7f3a9c"),
                                         HasSubstr("tricks.trick"), HasSubstr("signal 11")));
  EXPECT_EQ(record_of("somebody").failed_trials, 0);
  EXPECT_EQ(record.to_json().at("failed_trials"), 2);
}

// A batch that was too large says nothing about who proposed it.
TEST_F(PluginRecords, DoNotBlameAPolicyForItsTrials) {
  add("batch_size", "optimizer.fused", Verdict::failed);
  EXPECT_EQ(record_of("batch_size").failed_trials, 0);
  EXPECT_EQ(record_of("batch_size").proposed, 1);
  EXPECT_TRUE(record_of("optimizer").last_failure.empty());
}

TEST_F(PluginRecords, AreTextForPeople) {
  EXPECT_EQ(PluginRecord{}.text(), "-");
  EXPECT_EQ((PluginRecord{.used = 1}.text()), "used in 1 run");
  EXPECT_EQ((PluginRecord{.asked = 3, .proposed = 2, .accepted = 1}.text()),
            "asked 3, proposed 2, accepted 1");
  PluginRecord record{.asked = 3};
  record.failed = 2;
  record.failed_trials = 1;
  EXPECT_EQ(record.text(), "asked 3, proposed 0, accepted 0, failed 2, 1 trial failed");
}

}  // namespace
}  // namespace autotuned::daemon
