// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/cupti_buffers.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

namespace autotuned::profiler {
namespace {

constexpr std::size_t kPage = CuptiBuffers::kAlignment;

bool is_zero(const std::uint8_t* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](std::uint8_t byte) { return byte == 0; });
}

TEST(CuptiBuffers, LendsEachOnceAlignedAndZeroed) {
  CuptiBuffers buffers(3, 2 * kPage);
  std::set<std::uint8_t*> lent;
  for (int i = 0; i < 3; ++i) {
    std::uint8_t* const data = buffers.lend();
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kPage, 0U);
    EXPECT_TRUE(is_zero(data, 2 * kPage));
    EXPECT_TRUE(lent.insert(data).second);
  }
  EXPECT_EQ(buffers.lent(), 3);
  EXPECT_EQ(buffers.lend(), nullptr);
  EXPECT_EQ(buffers.refused(), 1);
  for (std::uint8_t* const data : lent)
    buffers.accept(data, 0);
  EXPECT_EQ(buffers.lent(), 0);
}

TEST(CuptiBuffers, GivesFullOnesToTheReaderAndThenLendsThemAgainZeroed) {
  CuptiBuffers buffers(1, kPage);
  EXPECT_FALSE(buffers.next());
  std::uint8_t* const data = buffers.lend();
  ASSERT_NE(data, nullptr);
  EXPECT_FALSE(buffers.next());  // CUPTI has it
  std::memset(data, 7, kPage);
  buffers.accept(data, 100);
  const auto full = buffers.next();
  ASSERT_TRUE(full);
  EXPECT_EQ(full->data, data);
  EXPECT_EQ(full->bytes, 100U);
  EXPECT_FALSE(buffers.next());
  EXPECT_EQ(buffers.lend(), nullptr);  // it is being read
  buffers.give_back(*full);
  EXPECT_EQ(buffers.lend(), data);
  EXPECT_TRUE(is_zero(data, kPage));
  buffers.accept(data, 0);
}

TEST(CuptiBuffers, DoesNotBelieveWhatCannotBe) {
  CuptiBuffers buffers(1, kPage);
  std::uint8_t other = 0;
  buffers.accept(&other, 1);
  EXPECT_EQ(buffers.foreign(), 1);
  std::uint8_t* const data = buffers.lend();
  ASSERT_NE(data, nullptr);
  buffers.accept(data, 10 * kPage);  // more than there is
  buffers.accept(data, 8);           // twice
  EXPECT_EQ(buffers.foreign(), 2);
  const auto full = buffers.next();
  ASSERT_TRUE(full);
  EXPECT_EQ(full->bytes, kPage);
  buffers.give_back(*full);
}

TEST(CuptiBuffers, ServesCuptisCallbacksWhileInstalled) {
  std::uint8_t* data = nullptr;
  std::size_t bytes = 1;
  std::size_t records = 1;
  CuptiBuffers::on_requested(&data, &bytes, &records);
  EXPECT_EQ(data, nullptr);
  CuptiBuffers buffers(1, kPage);
  buffers.install();
  CuptiBuffers::on_requested(&data, &bytes, &records);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(bytes, kPage);
  EXPECT_EQ(records, 0U);  // as many as fit
  CuptiBuffers::on_completed(nullptr, 0, data, bytes, 16);
  buffers.uninstall();
  EXPECT_TRUE(buffers.next());
  CuptiBuffers::on_requested(&data, &bytes, &records);
  EXPECT_EQ(data, nullptr);
  CuptiBuffers::on_completed(nullptr, 0, data, bytes, 16);  // late: nobody minds
}

TEST(CuptiBuffers, LeavesCuptiTheMemoryThatItStillHas) {
  std::uint8_t* data = nullptr;
  {
    CuptiBuffers buffers(1, kPage);
    data = buffers.lend();
    ASSERT_NE(data, nullptr);
  }
  std::memset(data, 1, kPage);  // a sanitizer would object, were it freed
}

TEST(CuptiBuffers, WakesWhoWaits) {
  CuptiBuffers buffers(1, kPage);
  const std::uint64_t seen = buffers.change();
  std::jthread reader([&] {
    buffers.wait(seen);
    EXPECT_NE(buffers.change(), seen);
  });
  buffers.accept(buffers.lend(), 1);
}

// Every record that found a buffer is read exactly once, by a reader that keeps the pool going.
TEST(CuptiBuffers, LosesNothingBetweenAThousandThreads) {
  constexpr int kThreads = 1'000;
  constexpr int kEach = 20;
  CuptiBuffers buffers(8, kPage);
  buffers.install();
  std::int64_t read = 0;
  std::atomic<std::int64_t> written{0};
  const auto drain = [&] {
    while (const auto full = buffers.next()) {
      std::uint64_t value = 0;
      std::memcpy(&value, full->data, sizeof(value));
      read += static_cast<std::int64_t>(value);
      buffers.give_back(*full);
    }
  };
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const std::uint64_t seen = buffers.change();
      drain();
      if (!stop.stop_requested()) buffers.wait(seen);
    }
  });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&written] {
        for (int i = 0; i < kEach; ++i) {
          std::uint8_t* data = nullptr;
          std::size_t bytes = 0;
          std::size_t records = 0;
          CuptiBuffers::on_requested(&data, &bytes, &records);
          if (data == nullptr) continue;
          const std::uint64_t value = 1;
          std::memcpy(data, &value, sizeof(value));
          written.fetch_add(1);
          CuptiBuffers::on_completed(nullptr, 0, data, bytes, sizeof(value));
        }
      });
    }
  }
  reader.request_stop();
  buffers.wake();
  reader.join();
  buffers.uninstall();
  drain();
  EXPECT_EQ(read, written.load());
  EXPECT_GT(read, 0);
  EXPECT_EQ(written.load() + buffers.refused(), kThreads * kEach);
  EXPECT_EQ(buffers.lent(), 0);
  EXPECT_EQ(buffers.foreign(), 0);
}

}  // namespace
}  // namespace autotuned::profiler
