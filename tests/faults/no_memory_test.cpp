// SPDX-License-Identifier: Apache-2.0
// Memory that runs out where the standard library or simdjson let nothing be thrown: no crash. In a program of its own,
// because it replaces operator new.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "base/machine/machine_state.hpp"
#include "base/memory_reserve.hpp"
#include "base/process/resident_memory.hpp"
#include "daemon/common/orphans.hpp"
#include "daemon/common/owner_mark.hpp"
#include "daemon/queue/store.hpp"
#include "plugins/host/loader.hpp"
#include "plugins/host/skeleton.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"

namespace {

// So many allocations until one finds no memory; 0: all find some.
int until_failure = 0;

[[gnu::noinline]] void* taken(std::size_t bytes) {
  for (;;) {
    void* const memory =
        until_failure > 0 && --until_failure == 0 ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

[[gnu::noinline]] void given_back(void* memory) {
  std::free(memory);
}

}  // namespace

// Those for arrays and for no exceptions call these.
void* operator new(std::size_t bytes) {
  return taken(bytes);
}
void operator delete(void* memory) noexcept {
  given_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  given_back(memory);
}

namespace autotuned {
namespace {

constexpr int kMaxTried = 150;

// A child does the work once for each of its first allocations, which finds no memory.
void expect_no_crash(const std::function<void()>& work) {
  constexpr int kHadFewer = 7;
  for (int nth = 1; nth <= kMaxTried; ++nth) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      until_failure = nth;
      try {
        work();
      } catch (const std::bad_alloc&) {
      }
      ::_exit(until_failure > 0 ? kHadFewer : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " at allocation " << nth;
    if (WEXITSTATUS(status) == kHadFewer) {
      EXPECT_GT(nth, 1);
      return;
    }
    ASSERT_EQ(WEXITSTATUS(status), 0);
  }
}

// Names that do not fit into a std::string itself.
std::string long_name(const std::string& end) {
  return std::string(40, 'x') + end;
}

TEST(NoMemory, NeverCrashesALookAtTheMachine) {
  const TemporaryFolder root;
  root.write("proc/self/stat", "20 (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 1 1\n");
  for (const char* process : {"20", "21", "22"})
    root.write(std::string("proc/") + process + "/stat", "20 (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 1 1\n");
  root.write("proc/" + long_name("/stat"), "");
  expect_no_crash([&] { (void)read_machine_state_below(root.path().string()); });
}

TEST(NoMemory, NeverCrashesACountOfMemory) {
  expect_no_crash([] { (void)ResidentGroup(::getpid()).held_bytes(0); });
}

TEST(NoMemory, NeverCrashesTheSearchForProcesses) {
  expect_no_crash([] { (void)daemon::end_left_behind(std::chrono::seconds(0)); });
  expect_no_crash([] { (void)daemon::processes_of({"a token that no process carries"}); });
}

TEST(NoMemory, NeverCrashesAListOfPlugins) {
  const TemporaryFolder folder;
  for (const char* end : {"1.txt", "2.txt", "3.txt"})
    folder.write(long_name(end), "");
  expect_no_crash([&] { (void)plugins::find_trainer_plugins({folder.path()}, {}); });
}

TEST(NoMemory, NeverCrashesTheStartOfAPlugin) {
  const TemporaryFolder folder;
  for (const char* end : {"1.in", "2.in", "3.in"})
    folder.write("policy/" + long_name(end), "@name@");
  const plugins::SkeletonSpec spec{
      .templates = folder.path(), .kind = "policy", .name = "mine", .parent = folder.path()};
  expect_no_crash([&] { (void)plugins::write_skeleton(spec); });
}

TEST(NoMemory, NeverCrashesTheQueue) {
  const TemporaryFolder folder;
  for (const char* end : {"1", "2", "3"})
    folder.write("queue/" + long_name(end), "");
  ::chmod((folder.path() / "queue").c_str(), 0700);
  expect_no_crash([&] {
    const auto store = daemon::JobStore::open(folder.path() / "queue");
    if (store) (void)store->load();
  });
}

// It must be the first use of simdjson in its process, because simdjson allocates its global state then.
TEST(NoMemory, NeverCrashesTheReadingOfATrace) {
  const std::string file = tests::source_folder() / "tests/profiler/data/recorded.pt.trace.json.gz";
  expect_no_crash([&] { (void)traces::read_trace(file); });
}

TEST(NoMemory, IsThereOnceWhereSomeWasLaidBy) {
  const MemoryReserve reserve(4096);
  until_failure = 1;
  std::string kept(100, 'x');
  EXPECT_EQ(until_failure, 0);
  until_failure = 1;
  EXPECT_THROW(kept.append(1000, 'x'), std::bad_alloc);
}

TEST(NoMemory, ThatIsLaidByIsLeftToItsOwner) {
  const std::new_handler before = std::get_new_handler();
  { const MemoryReserve reserve(4096); }
  EXPECT_EQ(std::get_new_handler(), before);
}

}  // namespace
}  // namespace autotuned
