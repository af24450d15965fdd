// SPDX-License-Identifier: Apache-2.0
// Jobs with session processes of their own, on disks that do not do as they should.
#include "daemon/queue/queue_runner.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "storage/history.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/submission_sample.hpp"
#include "tests/daemon/small_run.hpp"
#include "tests/daemon/supervisor/supervision.hpp"
#include "tests/storage/damage.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// A file that cannot be replaced, even by root: a folder has its name. What was in it is put back.
class Unwritable {
 public:
  explicit Unwritable(fs::path file) : file_(std::move(file)), aside_(file_.string() + ".aside") {
    fs::rename(file_, aside_);
    fs::create_directories(file_ / "full");
  }
  void repair() const {
    fs::remove_all(file_);
    fs::rename(aside_, file_);
  }

 private:
  fs::path file_;
  fs::path aside_;
};

class JobsTest : public testing::Test {
 protected:
  // Jobs are numbered from 1.
  std::int64_t submit(const std::string& part, const std::string& device = "cpu") {
    const std::int64_t id = ++submitted_;
    fs::create_directory(work(id));
    Submission submission =
        sample_submission("jobs-test-" + std::to_string(getpid()) + "-" + std::to_string(id));
    submission.folder = work(id);
    submission.device = device;
    submission.session.history = history_;
    submission.environment = {"AUTOTUNED_TRAINER=" + part};
    EXPECT_EQ(jobs_.submit(submission).value_or(-1), id);
    return id;
  }
  void let_go(std::int64_t id) const { folder_.write("work" + std::to_string(id) + "/go", ""); }
  [[nodiscard]] fs::path work(std::int64_t id) const {
    return folder_ / ("work" + std::to_string(id));
  }
  [[nodiscard]] fs::path file(std::int64_t id, const std::string& what) const {
    return folder_ / ("d/0000000" + std::to_string(id) + "." + what);
  }
  [[nodiscard]] const QueuedRun& job(std::int64_t id) const { return *jobs_.queue().find(id); }
  template <class Condition>
  bool wait_until(Condition is_so) {
    return run_until(context_, is_so);
  }
  // What the session has stored of its run so far: it is being tuned.
  void store_run(std::int64_t id) {
    auto history = storage::History::open(history_, storage::Access::read_write);
    ASSERT_TRUE(history) << history.error().message();
    storage::RunRow run = put_small_run(*history);
    run.id = {job(id).run_id};
    ASSERT_TRUE(history->put_run(run));
  }
  // What watchers are told.
  void note_end(std::int64_t id) {
    const QueuedRun* changed = jobs_.queue().find(id);
    const auto end = changed != nullptr ? jobs_.end_of(*changed) : std::nullopt;
    if (end) told_[id] = *end;
  }

  const TemporaryFolder folder_;
  const fs::path history_ = folder_ / "history.db";
  boost::asio::io_context context_{1};
  std::map<std::int64_t, Json> told_;
  std::int64_t submitted_ = 0;
  QueueRunner jobs_{context_, JobStore::open(folder_ / "d").value(),
                    JobLimits{.supervisor = {}, .save_again = 200ms, .start_again = 10ms},
                    [this](std::int64_t id) { note_end(id); }};
};

TEST_F(JobsTest, EndIsToldWhenItIsOnDisk) {
  const std::int64_t id = submit(kHeld);
  ASSERT_TRUE(wait_until([&] { return !job(id).run_id.empty(); }));
  const Unwritable state(file(id, "job.json"));
  let_go(id);
  ASSERT_TRUE(wait_until([&] { return job(id).has_ended(); }));
  EXPECT_FALSE(jobs_.end_of(job(id)));
  EXPECT_FALSE(jobs_.is_saved(id));
  EXPECT_FALSE(told_.contains(id));
  EXPECT_EQ(jobs_.counters().at("not_saved"), 1);
  EXPECT_THAT(folder_.read("d/00000001.events"), HasSubstr("cannot be stored yet"));

  state.repair();
  ASSERT_TRUE(wait_until([&] { return told_.contains(id); }));
  EXPECT_EQ(told_.at(id).at("state"), "finished");
  EXPECT_EQ(Json::parse(folder_.read("d/00000001.job.json")).at("state"), "finished");
  EXPECT_EQ(jobs_.counters().at("not_saved"), 0);
}

TEST_F(JobsTest, EndThatIsNotOnDiskIsWrittenWhenTheDaemonStops) {
  const std::int64_t id = submit(kHeld);
  ASSERT_TRUE(wait_until([&] { return !job(id).run_id.empty(); }));
  const Unwritable state(file(id, "job.json"));
  let_go(id);
  ASSERT_TRUE(wait_until([&] { return job(id).has_ended(); }));
  state.repair();
  jobs_.stop(0ns);
  EXPECT_EQ(told_.at(id).at("state"), "finished");
}

// The busy one has something new to write more often than what failed is tried again.
TEST_F(JobsTest, OneThatCannotBeSavedDoesNotPutOffAnother) {
  const std::int64_t ended = submit(kHeld, "one");
  const std::int64_t busy = submit(kBusy, "other");
  ASSERT_TRUE(wait_until([&] { return !job(ended).run_id.empty() && !job(busy).run_id.empty(); }));
  const Unwritable state(file(ended, "job.json"));
  const Unwritable busy_state(file(busy, "job.json"));
  let_go(ended);
  ASSERT_TRUE(wait_until([&] { return job(ended).has_ended() && !jobs_.is_saved(busy); }));
  state.repair();
  EXPECT_TRUE(wait_until([&] { return told_.contains(ended); }));
  EXPECT_FALSE(jobs_.is_saved(busy));
}

TEST_F(JobsTest, CountsTrialsByWhatTheyFailedOf) {
  const std::int64_t before = SystemClock().unix_time_ns();
  const std::int64_t id = submit(kBusy);
  ASSERT_TRUE(wait_until([&] { return job(id).trials.contains("failed"); }));
  const Json counters = jobs_.counters();
  EXPECT_GE(counters.at("trial_failures").at("out_of_memory"), 1);
  EXPECT_EQ(counters.at("trial_failures").at("out_of_memory"), counters.at("trials").at("failed"));
  EXPECT_EQ(counters.at("trial_outcomes").at("out_of_host_memory"),
            counters.at("trials").at("failed"));
  EXPECT_GT(counters.at("started_unix_ns"), 0);
  EXPECT_LE(counters.at("started_unix_ns"), before);
}

TEST_F(JobsTest, CountsHowTrainersEnded) {
  const std::int64_t id = submit(kBusy);
  ASSERT_TRUE(wait_until([&] { return jobs_.counters().at("trainer_ends").contains("crashed"); }));
  let_go(id);
  ASSERT_TRUE(wait_until([&] { return job(id).has_ended(); }));
  const Json counters = jobs_.counters();
  const std::int64_t times = counters.at("trainer_ends").at("crashed");
  EXPECT_EQ(counters.at("trainer_ends").at("out_of_host_memory"), times);
  // What a trainer does outside of trials is none's outcome.
  EXPECT_EQ(counters.at("trial_outcomes"), (Json{{"ok", times}, {"out_of_host_memory", times}}));
}

TEST_F(JobsTest, CancelledRunIsOneInTheHistory) {
  const std::int64_t id = submit(kHeld);
  ASSERT_TRUE(wait_until([&] { return !job(id).run_id.empty(); }));
  store_run(id);
  ASSERT_TRUE(jobs_.cancel(std::to_string(id)));
  ASSERT_TRUE(wait_until([&] { return told_.contains(id); }));
  EXPECT_EQ(told_.at(id).at("state"), "cancelled");
  const auto history = storage::History::open(history_, storage::Access::read_only);
  ASSERT_TRUE(history) << history.error().message();
  const auto run = history->run(job(id).run_id);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->state, storage::RunState::cancelled);
}

// The next command of the same job took the run over.
TEST_F(JobsTest, CancelledRunOfAnotherProcessStaysAsItIs) {
  const std::int64_t id = submit(kHeld);
  ASSERT_TRUE(wait_until([&] { return !job(id).run_id.empty(); }));
  store_run(id);
  const auto history = storage::History::open(history_, storage::Access::read_only);
  ASSERT_TRUE(history) << history.error().message();
  const auto claim = history->claim({job(id).run_id});
  ASSERT_TRUE(claim) << claim.error().message();
  ASSERT_TRUE(jobs_.cancel(std::to_string(id)));
  ASSERT_TRUE(wait_until([&] { return told_.contains(id); }));
  EXPECT_EQ(history->run(job(id).run_id)->state, storage::RunState::tuning);
}

// The rows that the daemon would change can be read: no other command writes there either.
TEST_F(JobsTest, CancelledRunIsNotWrittenIntoADamagedHistory) {
  const std::int64_t id = submit(kHeld);
  ASSERT_TRUE(wait_until([&] { return !job(id).run_id.empty(); }));
  store_run(id);
  const std::string bytes = storage::damage_table(history_, "blocks");
  ASSERT_TRUE(jobs_.cancel(std::to_string(id)));
  ASSERT_TRUE(wait_until([&] { return told_.contains(id); }));
  EXPECT_EQ(told_.at(id).at("state"), "cancelled");
  EXPECT_TRUE(folder_.read("history.db") == bytes);
  EXPECT_THAT(folder_.read("d/00000001.events"),
              AllOf(HasSubstr("the history does not know that the run was cancelled"),
                    HasSubstr("is damaged")));
}

// Its submission cannot be read, as on a disk with a bad sector.
TEST_F(JobsTest, OneThatCannotStartLetsOthersPast) {
  const std::int64_t unreadable = submit(kShort);
  const std::int64_t next = submit(kShort);
  const fs::path submission = file(unreadable, "submission.json");
  fs::rename(submission, folder_ / "aside");
  fs::create_symlink("/proc/self/mem", submission);  // EIO at its first byte
  ASSERT_TRUE(wait_until([&] { return told_.contains(next); }));
  EXPECT_EQ(told_.at(next).at("state"), "finished");
  EXPECT_EQ(job(unreadable).state, JobState::queued);
  EXPECT_THAT(folder_.read("d/00000001.events"),
              AllOf(HasSubstr("the run cannot start and waits"), HasSubstr("go first")));
  fs::rename(folder_ / "aside", submission);
  ASSERT_TRUE(wait_until([&] { return told_.contains(unreadable); }));
  EXPECT_EQ(told_.at(unreadable).at("state"), "finished");
}

}  // namespace
}  // namespace autotuned::daemon
