// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/decode/picture_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace autotuned::input {
namespace {

std::uint8_t* take(PictureMemory& memory, std::size_t bytes) {
  void* const taken = memory.take(bytes);
  EXPECT_NE(taken, nullptr) << bytes;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken) % PictureMemory::kAlignment, 0U);
  return static_cast<std::uint8_t*>(taken);
}

TEST(PictureMemory, GivesEveryoneTheirOwn) {
  PictureMemory memory;
  for (int picture = 0; picture < 4; ++picture) {
    std::vector<std::pair<std::uint8_t*, std::size_t>> all;
    for (std::size_t i = 0; i < 200; ++i) {
      const std::size_t bytes = i * i % 5000;
      all.emplace_back(take(memory, bytes), bytes);
      std::memset(all.back().first, static_cast<int>(i), bytes);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t k = 0; k < all[i].second; ++k)
        ASSERT_EQ(all[i].first[k], static_cast<std::uint8_t>(i));
    }
    memory.reset();
  }
}

// What a picture took is one block from then on.
TEST(PictureMemory, IsTheSameForEveryPicture) {
  PictureMemory memory;
  const auto ask = [&] {
    std::vector<std::uint8_t*> places;
    for (const std::size_t bytes : {100, 50'000, 7, 300'000})
      places.push_back(take(memory, bytes));
    memory.reset();
    return places;
  };
  (void)ask();
  const auto second = ask();
  EXPECT_EQ(second[1], second[0] + 128);
  EXPECT_EQ(ask(), second);
  EXPECT_EQ(ask(), second);
}

TEST(PictureMemory, UsesAgainWhatWasGivenBackAtOnce) {
  PictureMemory memory;
  std::uint8_t* const first = take(memory, 100);
  std::uint8_t* const second = take(memory, 100);
  memory.give_back(first);  // not the last
  memory.give_back(nullptr);
  memory.give_back(second);
  memory.give_back(second);
  EXPECT_EQ(take(memory, 64), second);
  EXPECT_NE(take(memory, 64), first);
}

TEST(PictureMemory, SaysWhereThereIsNoMore) {
  PictureMemory memory;
  EXPECT_EQ(memory.take(std::numeric_limits<std::size_t>::max()), nullptr);
  (void)take(memory, 10);
  memory.reset();
  (void)take(memory, std::size_t{100} << 20U);  // more than is kept
  memory.reset();
  (void)take(memory, 10);
}

}  // namespace
}  // namespace autotuned::input
