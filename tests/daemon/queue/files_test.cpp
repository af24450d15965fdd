// SPDX-License-Identifier: Apache-2.0
// The files of a daemon: logs of events, the queue, the socket, and what it logs.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "daemon/queue/events.hpp"
#include "daemon/queue/log.hpp"
#include "daemon/queue/socket.hpp"
#include "daemon/queue/store.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/daemon/queue/submission_sample.hpp"

namespace autotuned::daemon {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(EventFilter, KeepsEverythingWhileTheLogIsSmall) {
  EventFilter filter({.thin_bytes = 100, .full_bytes = 200, .event_bytes = 50, .interval = 10s});
  EXPECT_TRUE(filter.keeps("training", 10, 0, 0s));
  EXPECT_TRUE(filter.keeps("training", 10, 99, 0s));
  EXPECT_FALSE(filter.keeps("training", 51, 0, 0s));
}

TEST(EventFilter, ThinsProgressWhenItIsLarge) {
  EventFilter filter({.thin_bytes = 100, .full_bytes = 200, .event_bytes = 50, .interval = 10s});
  EXPECT_TRUE(filter.keeps("training", 10, 100, 1000s));
  EXPECT_FALSE(filter.keeps("training", 10, 100, 1001s));
  EXPECT_FALSE(filter.keeps("block", 10, 100, 1009s));
  EXPECT_TRUE(filter.keeps("trial_finished", 10, 100, 1009s));
  EXPECT_TRUE(filter.keeps("training", 10, 100, 1010s));
  EXPECT_FALSE(filter.keeps("training", 10, 100, 1019s));
}

TEST(EventFilter, KeepsTheEndWhateverTheSize) {
  EventFilter filter({.thin_bytes = 100, .full_bytes = 200, .event_bytes = 50, .interval = 10s});
  EXPECT_FALSE(filter.keeps("trial_finished", 10, 200, 0s));
  EXPECT_FALSE(filter.keeps("training", 10, 200, 1000s));
  EXPECT_TRUE(filter.keeps("result", 10, 1'000'000, 0s));
  EXPECT_TRUE(filter.keeps("error", 10, 1'000'000, 0s));
}

TEST(EventLog, IsReadWhileItIsWritten) {
  const TemporaryFolder folder;
  auto log = EventLog::open(folder / "e");
  auto reader = EventReader::open(folder / "e");
  ASSERT_TRUE(log && reader);
  EXPECT_THAT(reader->read(), IsEmpty());
  EXPECT_TRUE(log->append({{"event", "a"}}, 0s));
  EXPECT_THAT(reader->read(), ElementsAre(R"({"event":"a"})"));
  EXPECT_THAT(reader->read(), IsEmpty());
  for (int i = 0; i < 20'000; ++i)
    ASSERT_TRUE(log->append({{"event", "n"}, {"i", i}}, 0s));
  int count = 0;
  for (auto lines = reader->read(); !lines.empty(); lines = reader->read()) {
    for (const std::string& line : lines)
      EXPECT_EQ(Json::parse(line).at("i"), count++);
  }
  EXPECT_EQ(count, 20'000);
}

TEST(EventLog, LineLongerThanAPieceIsRead) {
  const TemporaryFolder folder;
  auto log = EventLog::open(folder / "e");
  ASSERT_TRUE(log);
  const std::string text(1'000'000, 'x');
  EXPECT_TRUE(log->append({{"event", text}}, 0s));
  auto reader = EventReader::open(folder / "e");
  const auto lines = reader->read();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(Json::parse(lines[0]).at("event"), text);
}

TEST(EventLog, HalfALineOfACrashIsCutOff) {
  const TemporaryFolder folder;
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"{\"event\":\"a\"}\n{\"ev", "{\"event\":\"a\"}\n"},
           {"{\"ev", ""},
           {"", ""},
           {"{}\n" + std::string(200'000, 'x'), "{}\n"}}) {
    folder.write("e", before);
    auto log = EventLog::open(folder / "e");
    ASSERT_TRUE(log);
    EXPECT_TRUE(log->append({{"event", "b"}}, 0s));
    EXPECT_EQ(folder.read("e"), after + "{\"event\":\"b\"}\n");
  }
}

TEST(JobStore, GivesBackWhatWasPut) {
  const TemporaryFolder folder;
  {
    const auto store = JobStore::open(folder / "state/daemon");
    ASSERT_TRUE(store) << store.error().message();
    EXPECT_THAT(store->load()->jobs, IsEmpty());
    for (const std::int64_t id : {10, 9, 11}) {
      ASSERT_TRUE(store->put(sample_submission("t" + std::to_string(id)), id));
      ASSERT_TRUE(store->put(QueuedRun{.id = id, .token = "t" + std::to_string(id)}));
    }
    ASSERT_TRUE(store->put(QueuedRun{.id = 9, .token = "t9", .state = JobState::running}));
    store->forget(11);
  }
  const auto store = JobStore::open(folder / "state/daemon");
  ASSERT_TRUE(store);
  const auto loaded = store->load();
  ASSERT_TRUE(loaded);
  ASSERT_THAT(loaded->jobs, SizeIs(2));
  EXPECT_THAT(loaded->problems, IsEmpty());
  EXPECT_EQ(loaded->jobs[0].id, 9);
  EXPECT_EQ(loaded->jobs[0].state, JobState::running);
  EXPECT_EQ(loaded->jobs[1].id, 10);
  EXPECT_EQ(store->submission(10)->token, "t10");
  EXPECT_FALSE(store->submission(11));
}

TEST(JobStore, RemovesWhatACrashLeftHalfMade) {
  const TemporaryFolder folder;
  const auto store = JobStore::open(folder / "d");
  ASSERT_TRUE(store->put(sample_submission("t"), 3));  // and no job
  folder.write("d/00000003.events", "");
  folder.write("d/.autotuned-0123456789abcdef.tmp", "half");
  EXPECT_THAT(store->load()->jobs, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / "d/00000003.submission.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "d/00000003.events"));
  EXPECT_FALSE(std::filesystem::exists(folder / "d/.autotuned-0123456789abcdef.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "d/lock"));
}

TEST(JobStore, SetsAsideWhatItCannotRead) {
  const TemporaryFolder folder;
  const auto store = JobStore::open(folder / "d");
  ASSERT_TRUE(store->put(QueuedRun{.id = 1, .token = "t"}));
  folder.write("d/00000002.job.json", "{\"id\":2,");
  folder.write("d/00000004.job.json", QueuedRun{.id = 1}.to_json().dump());
  const auto loaded = store->load();
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->jobs, SizeIs(1));
  EXPECT_THAT(loaded->problems, SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(folder / "d/00000002.job.json.bad"));
}

TEST(JobStore, WhatWasSetAsideKeepsItsNumberAndItsFiles) {
  const TemporaryFolder folder;
  const auto store = JobStore::open(folder / "d");
  ASSERT_TRUE(store->put(QueuedRun{.id = 1, .token = "t"}));
  folder.write("d/00000007.job.json", "{");
  folder.write("d/00000007.events", "");
  for (int start = 0; start < 2; ++start) {
    const auto loaded = store->load();
    ASSERT_TRUE(loaded);
    EXPECT_THAT(loaded->jobs, SizeIs(1));
    EXPECT_THAT(loaded->problems, SizeIs(start == 0 ? 1 : 0));
    EXPECT_EQ(loaded->highest_id, 7);
    EXPECT_TRUE(std::filesystem::exists(folder / "d/00000007.job.json.bad"));
    EXPECT_TRUE(std::filesystem::exists(folder / "d/00000007.events"));
  }
}

// Here a link to nowhere stands for a shortage: the file cannot be opened, whatever is in it.
TEST(JobStore, SetsNothingAsideThatItCouldNotOpen) {
  const TemporaryFolder folder;
  const auto store = JobStore::open(folder / "d");
  std::filesystem::create_symlink(folder / "nowhere", folder / "d/00000002.job.json");
  folder.write("d/00000001.job.json", "{");
  EXPECT_FALSE(store->load());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "d/00000002.job.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "d/00000001.job.json"));
}

TEST(JobStore, IsOneDaemonsAndOneUsers) {
  const TemporaryFolder folder;
  const auto first = JobStore::open(folder / "d");
  ASSERT_TRUE(first);
  const auto second = JobStore::open(folder / "d");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  std::filesystem::create_directory(folder / "open");
  chmod((folder / "open").c_str(), 0777);
  EXPECT_EQ(JobStore::open(folder / "open").error().kind, ErrorKind::permission);
  std::filesystem::create_directory_symlink(folder / "d", folder / "link");
  EXPECT_EQ(JobStore::open(folder / "link").error().kind, ErrorKind::permission);
}

TEST(Listener, HasASocketOfThisUserAlone) {
  const TemporaryFolder folder;
  auto listener = Listener::open(folder / "s");
  ASSERT_TRUE(listener) << listener.error().message();
  struct stat status {};
  ASSERT_EQ(stat((folder / "s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  auto client = connect_to_daemon(folder / "s");
  ASSERT_TRUE(client);
  ASSERT_TRUE(*client);
  EXPECT_EQ(peer_user((*client)->get()), getuid());
  listener->close();
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
}

TEST(Listener, TakesThePlaceOfAStaleSocketOnly) {
  const TemporaryFolder folder;
  {
    // Bound, never listened on, left behind.
    const Descriptor stale(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (folder / "s").c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(folder / "s"));
  const auto nobody = connect_to_daemon(folder / "s");
  ASSERT_TRUE(nobody);
  EXPECT_FALSE(*nobody);
  const auto listener = Listener::open(folder / "s");
  ASSERT_TRUE(listener) << listener.error().message();
  const auto second = Listener::open(folder / "s");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  EXPECT_THAT(second.error().message(), HasSubstr("a daemon serves this user already"));
  EXPECT_THAT(second.error().message(), HasSubstr("process " + std::to_string(getpid())));
  // The refused one left the socket alone.
  EXPECT_TRUE(*connect_to_daemon(folder / "s"));
}

TEST(Listener, SaysThatAPathIsTooLong) {
  const auto listener = Listener::open("/tmp/" + std::string(200, 'x'));
  ASSERT_FALSE(listener);
  EXPECT_THAT(listener.error().message(), HasSubstr("at most 107 characters"));
  EXPECT_THAT(listener.error().message(), HasSubstr("XDG_RUNTIME_DIR"));
  // Then nobody serves there, and who asks does without.
  const auto client = connect_to_daemon("/tmp/" + std::string(200, 'x'));
  ASSERT_TRUE(client) << client.error().message();
  EXPECT_FALSE(*client);
}

TEST(Listener, NobodyIsThereWithoutASocket) {
  const TemporaryFolder folder;
  const auto client = connect_to_daemon(folder / "s");
  ASSERT_TRUE(client);
  EXPECT_FALSE(*client);
}

TEST(NotifyManager, SendsOneDatagram) {
  const TemporaryFolder folder;
  const Descriptor manager(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "n").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  setenv("NOTIFY_SOCKET", (folder / "n").c_str(), 1);
  notify_manager("READY=1");
  unsetenv("NOTIFY_SOCKET");
  notify_manager("nobody hears this");
  std::array<char, 64> text{};
  EXPECT_EQ(recv(manager.get(), text.data(), text.size(), MSG_DONTWAIT), 7);
  EXPECT_STREQ(text.data(), "READY=1");
}

TEST(LogText, CannotBeForged) {
  EXPECT_EQ(log_text("job_ended", {{"job", "7"}, {"run", ""}}), "job_ended job=7 run=\"\"");
  EXPECT_EQ(log_text("x", {{"error", "a b\n2026 info forged"}}),
            R"(x error="a b\n2026 info forged")");
  EXPECT_EQ(log_text("x", {{"a", "b=c"}}), R"(x a="b=c")");
  EXPECT_EQ(log_text("x", {{"a", "ü\x1b[2J\x7f\xC2\x9B"}}), R"(x a="ü\u001b[2J??")");
}

}  // namespace
}  // namespace autotuned::daemon
