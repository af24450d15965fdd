// SPDX-License-Identifier: Apache-2.0
// A loader at work takes no memory. In a program of its own, because it replaces operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/trainer/input/loader_fixture.hpp"
#include "trainer/input/loader.hpp"

namespace {
std::atomic<std::int64_t> allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace autotuned::input {
namespace {

TEST(LoaderAllocation, DoesNotHappenInSteadyState) {
  for (const bool is_in_memory : {true, false}) {
    const NumberedDataset dataset(1000, is_in_memory);
    for (const int workers : {0, 1, 3}) {
      for (const PixelType type : {PixelType::float32, PixelType::uint8}) {
        const Job job{.workers = workers, .slots = 4, .batch_size = 32, .type = type};
        Buffers buffers(job.slots, job.batch_size, job.type);
        const auto loader = make_loader(dataset, {}, settings_of(job, buffers));
        loader->resume();
        const auto take = [&](int count) {
          for (int i = 0; i < count; ++i) {
            const auto batch = loader->next();
            ASSERT_TRUE(batch);
            loader->release(batch->slot);
          }
        };
        take(100);  // every thread has started and has its scratch
        loader->pause();
        const std::int64_t before = allocations;
        loader->resume();
        take(200);  // over the ends of six epochs
        loader->pause();
        EXPECT_EQ(allocations, before) << workers;
      }
    }
  }
}

}  // namespace
}  // namespace autotuned::input
