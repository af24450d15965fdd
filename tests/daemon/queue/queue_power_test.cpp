// SPDX-License-Identifier: Apache-2.0
// The power goes after each thing that a daemon did to the files of its queue: what it had told is there.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/queue/queue_runner.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/recorded_disk.hpp"
#include "tests/daemon/queue/submission_sample.hpp"
#include "tests/daemon/supervisor/supervision.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kQueue = "state/autotuned/daemon";  // of which nothing is there at first

// What a client was told, and how much had been done to the files by then.
struct Told {
  enum class What { submitted, cancel_requested, ended };
  What what = What::submitted;
  std::int64_t id = 0;
  std::size_t operations = 0;
  JobState state = JobState::queued;  // of one that ended
};

// A daemon without its socket: what clients would be told is written down.
class Daemon {
 public:
  Daemon(const RecordedDisk& disk, const fs::path& queue, const TemporaryFolder& elsewhere,
         std::vector<Told>& told)
      : disk_(&disk),
        elsewhere_(&elsewhere),
        told_(&told),
        jobs_(context_, JobStore::open(queue).value(), JobLimits{}, [this](std::int64_t id) {
          const QueuedRun* const job = jobs_.queue().find(id);
          if (job == nullptr || !jobs_.end_of(*job) || !ended_.insert(id).second) return;
          tell({.what = Told::What::ended, .id = id, .state = job->state});
        }) {}

  void recover() {
    ASSERT_TRUE(jobs_.recover());
    jobs_.schedule();
  }
  void submit(std::int64_t id, const char* part) {
    fs::create_directory(work(id));
    Submission submission = sample_submission(token_of(id));
    submission.folder = work(id);
    submission.session.history = *elsewhere_ / "history.db";
    submission.environment = {std::string("AUTOTUNED_TRAINER=") + part};
    ASSERT_EQ(jobs_.submit(submission).value_or(-1), id);
    tell({.what = Told::What::submitted, .id = id});
  }
  void cancel(std::int64_t id) {
    ASSERT_TRUE(jobs_.cancel(std::to_string(id)));
    tell({.what = Told::What::cancel_requested, .id = id});
  }
  void let_go(std::int64_t id) { elsewhere_->write("work" + std::to_string(id) + "/go", ""); }
  [[nodiscard]] bool runs(std::int64_t id) {
    return run_until(context_, [&] { return !jobs_.queue().find(id)->run_id.empty(); });
  }
  [[nodiscard]] bool ends(std::int64_t id) {
    return run_until(context_, [&] { return ended_.contains(id); });
  }
  [[nodiscard]] bool stops() {
    jobs_.stop(0ns);
    return run_until(context_, [&] { return !jobs_.has_sessions(); });
  }

  static std::string token_of(std::int64_t id) {
    return "queue-power-" + std::to_string(getpid()) + "-" + std::to_string(id);
  }

 private:
  void tell(Told told) {
    told.operations = disk_->operations();
    told_->push_back(told);
  }
  [[nodiscard]] fs::path work(std::int64_t id) const {
    return *elsewhere_ / ("work" + std::to_string(id));
  }

  const RecordedDisk* disk_;
  const TemporaryFolder* elsewhere_;
  std::vector<Told>* told_;
  std::set<std::int64_t> ended_;
  boost::asio::io_context context_{1};
  QueueRunner jobs_;
};

// Two daemons, one after the other, and what became of five runs.
class QueuePowerTest : public testing::Test {
 protected:
  void SetUp() override {
    {
      Daemon daemon(disk_, folder_ / kQueue, elsewhere_, told_);
      daemon.submit(1, kShort);
      ASSERT_TRUE(daemon.ends(1));
      daemon.submit(2, kHeld);
      ASSERT_TRUE(daemon.runs(2));
      daemon.submit(3, kShort);
      daemon.cancel(3);
      daemon.cancel(2);
      ASSERT_TRUE(daemon.ends(2));
      daemon.submit(4, kHeld);
      daemon.submit(5, kShort);
      ASSERT_TRUE(daemon.runs(4));
      ASSERT_TRUE(daemon.stops());
    }
    Daemon daemon(disk_, folder_ / kQueue, elsewhere_, told_);
    daemon.recover();
    daemon.let_go(4);
    ASSERT_TRUE(daemon.ends(4));
    ASSERT_TRUE(daemon.ends(5));
  }

  // What was told by then and is not there; the text says where to look.
  [[nodiscard]] std::vector<std::string> lost_at(std::size_t operations, Unsynced unsynced,
                                                 Heeded heeded = Heeded::all) const {
    const TemporaryFolder after;
    disk_.write_disk(after.path(), operations, unsynced, /*seed=*/operations, heeded);
    std::vector<QueuedRun> jobs;
    std::vector<std::string> lost;
    const std::string where = " after " + std::to_string(operations) + " operations";
    // Where there is nothing yet, opening it would only make it.
    std::optional<JobStore> store;
    if (fs::exists(after / kQueue)) {
      store.emplace(JobStore::open(after / kQueue).value());
      const auto loaded = store->load();
      if (!loaded) return {loaded.error().message() + where};
      for (const Error& problem : loaded->problems)
        lost.push_back(problem.message() + where);
      jobs = loaded->jobs;
    }
    for (const Told& told : told_) {
      if (told.operations > operations) continue;
      const auto job = std::ranges::find(jobs, told.id, &QueuedRun::id);
      if (job == jobs.end() || !holds(told, *job, *store)) {
        lost.push_back("what was told of run " + std::to_string(told.id) + where);
      }
    }
    return lost;
  }

  [[nodiscard]] static bool holds(const Told& told, const QueuedRun& job, const JobStore& store) {
    switch (told.what) {
      case Told::What::submitted: {
        const auto submission = store.submission(job.id);
        return job.token == Daemon::token_of(job.id) && submission &&
               submission->token == job.token;
      }
      case Told::What::cancel_requested:
        return job.cancel_requested || job.state == JobState::cancelled;
      case Told::What::ended:
        return job.state == told.state;
    }
    return false;
  }

  const TemporaryFolder folder_;
  const TemporaryFolder elsewhere_;
  const RecordedDisk disk_{folder_.path()};
  std::vector<Told> told_;
};

TEST_F(QueuePowerTest, NothingThatWasToldIsLost) {
  // Five submissions, two cancels, five ends.
  ASSERT_EQ(told_.size(), 12);
  for (std::size_t operations = 0; operations <= disk_.operations(); ++operations) {
    for (const Unsynced unsynced :
         {Unsynced::lost, Unsynced::kept, Unsynced::names_kept, Unsynced::by_coin}) {
      EXPECT_THAT(lost_at(operations, unsynced), testing::IsEmpty())
          << "unsynced: " << static_cast<int>(unsynced);
    }
  }
}

// The test above would not be worth much if it passed without the syncs.
TEST_F(QueuePowerTest, WithoutSyncsOfFilesOrFoldersMuchIs) {
  for (const Heeded heeded : {Heeded::files_only, Heeded::folders_only}) {
    EXPECT_FALSE(lost_at(disk_.operations(), Unsynced::lost, heeded).empty());
  }
  EXPECT_FALSE(lost_at(disk_.operations(), Unsynced::names_kept, Heeded::folders_only).empty());
}

// Nor if the folders above were there in any case.
TEST_F(QueuePowerTest, FoldersAboveAreSyncedBeforeTheFirstRunIsTaken) {
  ASSERT_FALSE(told_.empty());
  const TemporaryFolder after;
  disk_.write_disk(after.path(), told_.front().operations, Unsynced::lost);
  EXPECT_TRUE(fs::exists(after / kQueue));
}

}  // namespace
}  // namespace autotuned::daemon
