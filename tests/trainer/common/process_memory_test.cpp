// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/process_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace autotuned::trainer {
namespace {

constexpr std::size_t kBig = 64U << 20U;

// Touches so much memory and gives it back.
void use_memory() {
  void* const memory =
      mmap(nullptr, kBig, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBig);
  munmap(memory, kBig);
}

TEST(HostMemoryPeak, SeesWhatWasGivenBackAndForgetsItAtTheNextStart) {
  HostMemoryPeak peak;
  peak.start();
  const std::int64_t before = peak.peak_bytes();
  EXPECT_GT(before, 0);
  use_memory();
  const std::int64_t after = peak.peak_bytes();
  if (after < before + std::int64_t{kBig / 2}) GTEST_SKIP() << "the kernel keeps its record";
  peak.start();
  EXPECT_LT(peak.peak_bytes(), after - std::int64_t{kBig / 2});
}

TEST(AvailableMemory, IsWhatIsAllowedLessWhatIsUsedAtMost) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 50;
  EXPECT_GT(available_memory_bytes(kEndless), 0);
  EXPECT_LT(available_memory_bytes(kEndless), kEndless / 2);
  EXPECT_LT(available_memory_bytes(std::int64_t{64} << 20), std::int64_t{64} << 20);
  EXPECT_EQ(available_memory_bytes(1), 0);
}

TEST(ProcessCpu, CountsWork) {
  const std::int64_t before = process_cpu_ns();
  volatile double sum = 0.0;
  for (int i = 0; i < 1'000'000; ++i)
    sum = sum + 1.0;
  EXPECT_GT(process_cpu_ns(), before);
}

TEST(Allocator, IsTheOneThatTheProcessWasStartedWith) {
  EXPECT_EQ(allocator_in_use(), "glibc");
  EXPECT_TRUE(check_allocator("glibc", "keep"));
  const auto other = check_allocator("jemalloc", "default");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::invalid);
  EXPECT_EQ(other.error().what, "the trainer was not started with jemalloc, but with glibc");
}

// In one test, because the policy holds for the whole process.
TEST(MallocPolicy, OnceKeptAlwaysKept) {
  EXPECT_EQ(set_malloc_policy("sometimes").error().kind, ErrorKind::invalid);
  EXPECT_TRUE(set_malloc_policy("default"));
  EXPECT_TRUE(set_malloc_policy("keep"));
  EXPECT_TRUE(set_malloc_policy("keep"));
  EXPECT_EQ(set_malloc_policy("default").error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace autotuned::trainer
