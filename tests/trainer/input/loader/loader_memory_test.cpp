// SPDX-License-Identifier: Apache-2.0
// What a sample takes in memory where no cache keeps it: a few bytes, however many there are. In a program of its
// own, because it replaces operator new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/trainer/input/fixtures.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/loader.hpp"

namespace {

std::atomic<std::int64_t> held = 0;
std::atomic<std::int64_t> most_held = 0;

[[gnu::noinline]] void* taken(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<std::int64_t>(::malloc_usable_size(memory));
  const std::int64_t now = held.fetch_add(bytes) + bytes;
  for (std::int64_t most = most_held; now > most && !most_held.compare_exchange_weak(most, now);) {
  }
  return memory;
}

[[gnu::noinline]] void given_back(void* memory) {
  held -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// Those for arrays and for no exceptions call these.
void* operator new(std::size_t bytes) {
  return taken(std::malloc(bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return taken(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
void operator delete(void* memory) noexcept {
  given_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  given_back(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  given_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  given_back(memory);
}

namespace autotuned::input {
namespace {

constexpr std::int64_t kFew = 10'000;
constexpr std::int64_t kMany = 1'000'000;

// The most that is held at a time from the opening of such data to their second epoch.
std::int64_t most_bytes(const std::string& type, Json parameters, const char* count,
                        std::int64_t samples, const std::vector<Transform>& transforms) {
  constexpr std::int64_t kBatch = 16;
  parameters[count] = samples;
  const std::int64_t before = held;
  most_held = before;
  {
    const auto data = open_dataset(type, parameters);
    EXPECT_TRUE(data) << (data ? "" : data.error().message());
    if (!data) return 0;
    EXPECT_EQ((*data)->size(), samples);
    const auto pipeline = Pipeline::compile((*data)->type(), transforms, 1);
    EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
    if (!pipeline) return 0;
    const auto elements = static_cast<std::size_t>(kBatch * pipeline->shape().elements());
    std::vector<std::vector<float>> images(3, std::vector<float>(elements));
    std::vector<std::vector<std::int64_t>> labels(3, std::vector<std::int64_t>(kBatch));
    LoaderSettings settings{.workers = 2, .batch_size = kBatch};
    for (std::size_t i = 0; i < images.size(); ++i)
      settings.ring.push_back({images[i].data(), labels[i].data()});
    auto loader = Loader::create(**data, {.seed = 3, .is_shuffled = true}, *pipeline, settings);
    EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
    if (!loader) return 0;
    (*loader)->resume();
    for (const Position at : {Position{0, 0}, Position{0, samples - 2 * kBatch}, Position{1, 0}}) {
      (*loader)->seek(at);
      for (int i = 0; i < 8; ++i) {
        const auto batch = (*loader)->next();
        EXPECT_TRUE(batch) << (batch ? "" : batch.error().message());
        if (!batch) return 0;
        (*loader)->release(batch->slot);
      }
    }
  }
  return most_held - before;
}

void expect_little(const std::string& type, const Json& parameters, const char* count,
                   const std::vector<Transform>& transforms) {
  SCOPED_TRACE(type);
  (void)most_bytes(type, parameters, count, kFew,
                   transforms);  // what is made once, by whoever is first
  const std::int64_t few = most_bytes(type, parameters, count, kFew, transforms);
  const std::int64_t many = most_bytes(type, parameters, count, kMany, transforms);
  EXPECT_GT(few, 0);
  EXPECT_LE(many - few, 5 * (kMany - kFew));  // its place in the order
}

TEST(LoaderMemory, IsAFewBytesForASample) {
  expect_little("jpeg_files",
                {{"files", fixture_path("4*_37x51.jpg").string()}, {"labels", "random"}},
                "repeat_to", {{"decode_jpeg"}, {"random_crop", {{"size", 8}}}, {"to_float"}});
  expect_little("synthetic", {{"shape", {3, 8, 8}}, {"classes", 4}}, "samples", {{"to_float"}});
  expect_little("synthetic_normal", {{"shape", {3, 8, 8}}, {"classes", 4}}, "samples", {});
}

// No stored sample is kept yet.
TEST(LoaderMemory, IsLittleForThePlacesOfACacheAndAnIndex) {
  const auto bytes_of = [](auto make) {
    const std::int64_t before = held;
    const auto made = make();
    EXPECT_TRUE(made);
    return held - before;
  };
  EXPECT_LE(bytes_of([] { return SampleCache::create(kMany, 0); }), 9 * kMany);
  EXPECT_LE(bytes_of([] { return JpegIndex::create(kMany, 0); }), 10 * kMany);
}

}  // namespace
}  // namespace autotuned::input
