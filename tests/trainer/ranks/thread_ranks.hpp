// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "trainer/ranks/rank_group.hpp"

namespace autotuned::trainer {

// Calls `act` in as many threads, each as another rank, and waits for them.
inline void as_ranks(int ranks, std::chrono::milliseconds patience,
                     const std::function<void(RankGroup&)>& act) {
  // Gloo's record of collectives, one for a process, is not made for several ranks in it: they crash in it now and then.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  const Descriptor store(::memfd_create("ranks", MFD_CLOEXEC));
  const std::string file = "/proc/self/fd/" + std::to_string(store.get());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = RankGroup::join({.rank = rank, .ranks = ranks, .store = file},
                                   std::chrono::minutes(1), patience);
      ASSERT_TRUE(group) << group.error().message();
      act(**group);
    });
  }
}

}  // namespace autotuned::trainer
