// SPDX-License-Identifier: Apache-2.0
// A loader at work takes no memory. In a program of its own, because it replaces operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/loader_fixture.hpp"
#include "trainer/input/loader.hpp"

namespace {
std::atomic<std::int64_t> allocations = 0;
}

// Not inlined: GCC 12 would see memory of `new` given to free() and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
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

// libjpeg takes memory of its own for every picture, which is not counted here.
TEST(LoaderAllocation, DoesNotHappenInAnyTransform) {
  const auto dataset =
      open_dataset("jpeg_files", {{"files", fixture_path("4*_37x51.jpg")}, {"repeat_to", 300}});
  ASSERT_TRUE(dataset) << dataset.error().message();
  const Pipeline pipeline = pipeline_of((*dataset)->type(), {{"decode_jpeg"},
                                                             {"random_crop", {{"size", 32}}},
                                                             {"random_mask", {{"ratio", 0.1}}},
                                                             {"resize", {{"size", {40, 9}}}},
                                                             {"rgb_to_yuv"},
                                                             {"scale", {{"by", "1/255"}}}});
  std::vector<std::vector<float>> images(3, std::vector<float>(8 * 3 * 40 * 9));
  std::vector<std::vector<std::int64_t>> labels(3, std::vector<std::int64_t>(8));
  for (const int workers : {0, 1}) {  // of several one may sleep through the beginning
    LoaderSettings settings{.workers = workers, .batch_size = 8};
    for (std::size_t i = 0; i < images.size(); ++i)
      settings.ring.push_back({images[i].data(), labels[i].data()});
    auto loader = Loader::create(**dataset, {}, pipeline, settings);
    ASSERT_TRUE(loader) << loader.error().message();
    const auto take = [&](int count) {
      (*loader)->resume();
      for (int i = 0; i < count; ++i) {
        const auto batch = (*loader)->next();
        ASSERT_TRUE(batch) << batch.error().message();
        (*loader)->release(batch->slot);
      }
      (*loader)->pause();
    };
    take(100);
    const std::int64_t before = allocations;
    take(100);
    EXPECT_EQ(allocations, before) << workers;
  }
}

}  // namespace
}  // namespace autotuned::input
