// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/queue.hpp"

#include <gmock/gmock.h>

namespace autotuned::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::int64_t submit(Queue& queue, const std::string& token, const std::string& device = "cpu") {
  QueuedRun job;
  job.token = token;
  job.device = device;
  const auto queued = queue.submit(job);
  return queued ? queued->id : -1;
}

void set_state(Queue& queue, std::int64_t id, JobState state) {
  queue.find(id)->state = state;
}

TEST(Queue, NumbersJobsInTheirOrder) {
  Queue queue;
  EXPECT_EQ(submit(queue, "a"), 1);
  EXPECT_EQ(submit(queue, "b"), 2);
  EXPECT_EQ(queue.find(2)->state, JobState::queued);
  EXPECT_EQ(queue.count(JobState::queued), 2);
}

TEST(Queue, TokenMakesASubmissionSingle) {
  Queue queue;
  EXPECT_EQ(submit(queue, "a"), 1);
  set_state(queue, 1, JobState::finished);
  EXPECT_EQ(submit(queue, "a"), 1);
  EXPECT_EQ(queue.jobs().size(), 1);
  EXPECT_EQ(queue.find(1)->state, JobState::finished);
}

TEST(Queue, StartsOnePerDeviceInOrder) {
  Queue queue;
  submit(queue, "a", "cpu");
  submit(queue, "b", "cpu");
  submit(queue, "c", "GPU-1");
  submit(queue, "d", "GPU-1");
  EXPECT_THAT(queue.startable(), ElementsAre(1, 3));
  set_state(queue, 1, JobState::running);
  EXPECT_THAT(queue.startable(), ElementsAre(3));
  set_state(queue, 3, JobState::running);
  EXPECT_THAT(queue.startable(), IsEmpty());
  set_state(queue, 1, JobState::failed);
  EXPECT_THAT(queue.startable(), ElementsAre(2));
  // One that was put back keeps its place.
  set_state(queue, 3, JobState::queued);
  EXPECT_THAT(queue.startable(), ElementsAre(2, 3));
}

TEST(Queue, OneThatCannotStartLetsOthersPast) {
  Queue queue({.waiting = 10, .ended = 10, .starts_in_turn = 2});
  submit(queue, "a", "cpu");
  submit(queue, "b", "cpu");
  submit(queue, "c", "GPU-1");
  queue.find(1)->failed_starts = 1;
  EXPECT_THAT(queue.startable(), ElementsAre(1, 3));
  queue.find(1)->failed_starts = 2;
  EXPECT_THAT(queue.startable(), ElementsAre(2, 3));
  // It is tried when nobody else waits.
  set_state(queue, 2, JobState::running);
  EXPECT_THAT(queue.startable(), ElementsAre(3));
  set_state(queue, 2, JobState::finished);
  EXPECT_THAT(queue.startable(), ElementsAre(3, 1));
}

TEST(Queue, IsBounded) {
  Queue queue({.waiting = 2, .ended = 1});
  submit(queue, "a");
  submit(queue, "b");
  const auto refused = queue.submit(QueuedRun{.token = "c"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
  // It is no new one.
  EXPECT_EQ(submit(queue, "b"), 2);
  set_state(queue, 1, JobState::running);
  EXPECT_EQ(submit(queue, "c"), 3);
}

TEST(Queue, ForgetsTheOldestThatHaveEnded) {
  Queue queue({.waiting = 10, .ended = 2});
  for (const char* token : {"a", "b", "c", "d", "e"})
    submit(queue, token);
  EXPECT_THAT(queue.forget_old(), IsEmpty());
  for (const std::int64_t id : {1, 2, 4, 5})
    set_state(queue, id, JobState::finished);
  EXPECT_THAT(queue.forget_old(), ElementsAre(1, 2));
  EXPECT_EQ(queue.find(1), nullptr);
  EXPECT_NE(queue.find(3), nullptr);
}

TEST(Queue, ForgetsByTheEndAndNotByTheNumber) {
  Queue queue({.waiting = 10, .ended = 1});
  for (const char* token : {"a", "b", "c"})
    submit(queue, token);
  set_state(queue, 1, JobState::cancelled);
  queue.find(1)->ended_unix_ns = 20;
  set_state(queue, 2, JobState::finished);
  queue.find(2)->ended_unix_ns = 10;
  EXPECT_THAT(queue.forget_old(), ElementsAre(2));
}

TEST(Queue, GivesNoNumberTwice) {
  Queue queue({.waiting = 10, .ended = 0});
  submit(queue, "a");
  submit(queue, "b");
  set_state(queue, 1, JobState::finished);
  set_state(queue, 2, JobState::finished);
  EXPECT_THAT(queue.forget_old(), ElementsAre(1));
  EXPECT_EQ(submit(queue, "c"), 3);
  Queue restored;
  restored.restore(QueuedRun{.id = 2, .token = "a"});
  restored.skip_ids(7);
  EXPECT_EQ(submit(restored, "b"), 8);
}

TEST(Queue, WithdrawsWhatCannotBeStored) {
  Queue queue;
  submit(queue, "a");
  submit(queue, "b");
  queue.withdraw(2);
  EXPECT_EQ(queue.find(2), nullptr);
  EXPECT_EQ(submit(queue, "c"), 2);
}

std::vector<std::int64_t> ids(const Json& jobs) {
  std::vector<std::int64_t> found;
  for (const Json& job : jobs)
    found.push_back(job.at("id"));
  return found;
}

TEST(Queue, TellsOfAllWhileTheyFit) {
  Queue queue;
  for (const char* token : {"a", "b", "c"})
    submit(queue, token);
  set_state(queue, 2, JobState::finished);
  const ToldJobs told = queue.tell(100'000);
  EXPECT_THAT(ids(told.jobs), ElementsAre(1, 2, 3));
  EXPECT_EQ(told.left_out, 0);
  Json whole = queue.find(3)->to_json();
  whole.erase("token");
  EXPECT_EQ(told.jobs[2], whole);
}

TEST(Queue, TellsFirstOfWhatRunsAndWaits) {
  Queue queue;
  for (const char* token : {"a", "b", "c", "d", "e"})
    submit(queue, token);
  set_state(queue, 1, JobState::finished);
  set_state(queue, 2, JobState::failed);
  set_state(queue, 4, JobState::running);
  const std::size_t one = to_line(queue.find(1)->to_json()).size();
  EXPECT_THAT(ids(queue.tell(1).jobs), IsEmpty());
  EXPECT_THAT(ids(queue.tell(one + 20).jobs), ElementsAre(4));
  EXPECT_THAT(ids(queue.tell(4 * one).jobs), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(queue.tell(4 * one).left_out, 1);
}

// A full queue of what clients may send at most is one answer of bounded size.
TEST(Queue, TellsInBoundedSpace) {
  Queue queue({.waiting = 2000, .ended = 200});
  for (int i = 0; i < 1200; ++i) {
    QueuedRun job;
    job.token = std::to_string(i);
    job.recipe_name = job.recipe_file = job.folder = job.error = std::string(4096, '\x01');
    ASSERT_TRUE(queue.submit(job));
  }
  constexpr std::size_t kMax = std::size_t{1} << 20U;
  const ToldJobs told = queue.tell(kMax);
  EXPECT_LE(to_line(told.jobs).size(), kMax);
  EXPECT_EQ(told.jobs.size() + told.left_out, 1200);
  EXPECT_GT(told.jobs.size(), 60);
}

TEST(Queue, FindsByNumberRunAndLast) {
  Queue queue;
  EXPECT_EQ(queue.find(std::string_view("last")), nullptr);
  submit(queue, "a");
  submit(queue, "b");
  submit(queue, "c");
  queue.find(1)->run_id = "r-20260101-000001";
  queue.find(2)->run_id = "r-20260101-000001";
  EXPECT_EQ(queue.find(std::string_view("1"))->id, 1);
  EXPECT_EQ(queue.find(std::string_view("last"))->id, 3);
  EXPECT_EQ(queue.find(std::string_view("r-20260101-000001"))->id, 2);
  for (const char* text : {"", "4", "0", "-1", "1x", " 1", "99999999999999999999", "r-"}) {
    EXPECT_EQ(queue.find(std::string_view(text)), nullptr) << text;
  }
}

TEST(QueuedRun, SurvivesAsJson) {
  QueuedRun job;
  job.id = 7;
  job.token = "t";
  job.state = JobState::failed;
  job.device = "GPU-1";
  job.recipe_name = "small";
  job.recipe_file = "/r.yaml";
  job.folder = "/w";
  job.cancel_requested = true;
  job.run_id = "r-1";
  job.exit_code = 4;
  job.error = "why";
  job.restarts = 3;
  job.trials = {{"accepted", 2}};
  job.submitted_unix_ns = 1;
  job.started_unix_ns = 2;
  job.ended_unix_ns = 3;
  const auto read = QueuedRun::from_json(job.to_json());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->to_json(), job.to_json());
  EXPECT_EQ(read->trials.at("accepted"), 2);
  EXPECT_TRUE(read->has_ended());
}

TEST(QueuedRun, RefusesWhatIsNone) {
  const Json whole = QueuedRun{.id = 1}.to_json();
  for (const auto& [field, unused] : whole.items()) {
    if (field == "trials") continue;
    Json broken = whole;
    broken[field] = Json::array();
    const auto read = QueuedRun::from_json(broken);
    ASSERT_FALSE(read) << field;
    EXPECT_THAT(read.error().message(), HasSubstr(field));
  }
  Json state = whole;
  state["state"] = "dancing";
  EXPECT_THAT(QueuedRun::from_json(state).error().message(), HasSubstr("dancing"));
  EXPECT_FALSE(QueuedRun::from_json(QueuedRun{.id = 0}.to_json()));
  EXPECT_FALSE(QueuedRun::from_json(Json()));
}

}  // namespace
}  // namespace autotuned::daemon
