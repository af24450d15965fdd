// SPDX-License-Identifier: Apache-2.0
// A loader at work takes no memory, nor do the libraries that it calls. In a program of its own, because it
// replaces malloc.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/base/temporary_folder.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/loader_fixture.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/decode/jpeg_decoder.hpp"
#include "trainer/input/decode/png_decoder.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/loader.hpp"

namespace {
std::atomic<std::int64_t> allocations = 0;
}

// glibc's own, under the names by which those who replace it may call it. `operator new` calls malloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) noexcept {
  ++allocations;
  return __libc_malloc(bytes);
}
[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_calloc(count, bytes);
}
[[gnu::visibility("default")]] void* realloc(void* memory, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment,
                                                   std::size_t bytes) noexcept {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
[[gnu::visibility("default")]] int posix_memalign(void** memory, std::size_t alignment,
                                                  std::size_t bytes) noexcept {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
}

namespace autotuned::input {
namespace {

// Else the tests below would see nothing.
TEST(LoaderAllocation, IsCountedInLibrariesToo) {
  const auto jpeg = bytes_of_file(fixture_path("420_37x51.jpg"));
  const auto png = bytes_of_file(fixture_path("png_rgb.png"));
  JpegDecoder jpegs;
  PngDecoder pngs;
  std::int64_t before = allocations;
  ASSERT_TRUE(jpegs.begin(jpeg));
  EXPECT_GE(allocations, before + 3);
  before = allocations;
  ASSERT_TRUE(pngs.begin(png));
  EXPECT_GE(allocations, before + 1);
}

TEST(LoaderAllocation, DoesNotHappenInSteadyState) {
  for (const bool is_in_memory : {true, false}) {
    const NumberedDataset dataset(1000, is_in_memory);
    for (const int workers : {0, 1, 3}) {
      for (const PixelType type : {PixelType::float32, PixelType::uint8}) {
        const LoaderCase job{.workers = workers, .slots = 4, .batch_size = 32, .type = type};
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

std::unique_ptr<Dataset> files(const char* type, const char* pattern, std::int64_t samples) {
  auto dataset = open_dataset(
      type,
      {{"files", fixture_path(pattern).string()}, {"repeat_to", samples}, {"labels", "random"}});
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message());
  return dataset ? std::move(*dataset) : nullptr;
}

constexpr std::int64_t kBatch = 8;

// A loader over the data and what it keeps.
class Loading {
 public:
  Loading(const Dataset& data, const std::vector<Transform>& transforms, PipelineForm form,
          int workers, std::int64_t cache_bytes = 1 << 24) {
    auto pipeline = Pipeline::compile(data.type(), transforms, 1, form);
    EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message());
    pipeline_ = std::move(*pipeline);
    LoaderSettings settings{.workers = workers, .batch_size = kBatch};
    const std::int64_t items = data.stored().items;
    if (pipeline_.is_cached()) {
      auto cache = form.cache_place == CachePlace::file
                       ? SampleCache::create_in_file(items, cache_bytes, folder_.path())
                       : SampleCache::create(items, cache_bytes);
      EXPECT_TRUE(cache);
      cache_ = std::move(*cache);
      settings.kept.cache = cache_.get();
    }
    index_ = std::move(*JpegIndex::create(items, 1 << 20));
    settings.kept.index = index_.get();
    const auto elements = static_cast<std::size_t>(pipeline_.shape().elements());
    for (std::size_t i = 0; i < 3; ++i) {
      images_.emplace_back(kBatch * elements);
      labels_.emplace_back(kBatch);
    }
    for (std::size_t i = 0; i < images_.size(); ++i)
      settings.ring.push_back({images_[i].data(), labels_[i].data()});
    auto loader = Loader::create(data, {}, pipeline_, settings);
    EXPECT_TRUE(loader) << (loader ? "" : loader.error().message());
    loader_ = std::move(*loader);
  }

  void take(int batches) {
    loader_->resume();
    for (int i = 0; i < batches; ++i) {
      const auto batch = loader_->next();
      ASSERT_TRUE(batch) << batch.error().message();
      loader_->release(batch->slot);
    }
    loader_->pause();
  }
  [[nodiscard]] const JpegIndex& index() const { return *index_; }

 private:
  TemporaryFolder folder_;
  Pipeline pipeline_;
  std::unique_ptr<SampleCache> cache_;
  std::unique_ptr<JpegIndex> index_;
  std::vector<std::vector<float>> images_;
  std::vector<std::vector<std::int64_t>> labels_;
  std::unique_ptr<Loader> loader_;
};

void expect_none(const Dataset& data, const std::vector<Transform>& transforms, PipelineForm form,
                 std::int64_t cache_bytes = 1 << 24) {
  for (const int workers : {0, 1}) {  // of several one may sleep through the beginning
    Loading loading(data, transforms, form, workers, cache_bytes);
    loading.take(60);
    const std::int64_t before = allocations;
    loading.take(60);
    EXPECT_EQ(allocations, before) << workers << " workers";
    if (form.indexes_jpegs) {
      EXPECT_GT(loading.index().kept_items(), 0);
    }
  }
}

const Transform kCrop{"random_crop", {{"size", 32}}};
const Transform kMask{"random_mask", {{"ratio", 0.1}}};
const Transform kScale{"scale", {{"by", "1/255"}}};
// Its crops have one size in each picture.
const Transform kAreaCrop{"random_resized_crop",
                          {{"size", 13}, {"scale", {0.5, 0.5}}, {"ratio", {1, 1}}}};

// Baseline of every sampling, grey, progressive and with restarts, one after the other.
TEST(LoaderAllocation, DoesNotHappenInAnyForm) {
  const auto jpegs = files("jpeg_files", "*_37x51.jpg", 300);
  const std::vector<Transform> cropped = {{"decode_jpeg"}, kCrop, kMask, {"rgb_to_yuv"}, kScale};
  const std::vector<Transform> resized = {{"decode_jpeg"},
                                          kAreaCrop,
                                          {"random_flip"},
                                          {"color_jitter", {{"hue", 0.1}, {"contrast", 0.4}}},
                                          kScale};
  for (const bool decodes_crop : {false, true}) {
    for (const PointOps ops : {PointOps::per_sample, PointOps::fused, PointOps::per_batch}) {
      SCOPED_TRACE(testing::Message() << decodes_crop << static_cast<int>(ops));
      expect_none(*jpegs, cropped, {.decodes_crop = decodes_crop, .point_ops = ops});
      expect_none(*jpegs, resized, {.decodes_crop = decodes_crop, .point_ops = ops});
    }
  }
  expect_none(*jpegs, cropped, {.decodes_crop = true, .indexes_jpegs = true});
  expect_none(*jpegs, resized, {.decode_scale = 2});
  expect_none(*jpegs, {{"decode_jpeg"}, kCrop, kMask, {"resize", {{"size", {40, 9}}}}, kScale}, {});
}

TEST(LoaderAllocation, DoesNotHappenWithACache) {
  const auto jpegs = files("jpeg_files", "*_37x51.jpg", 300);
  const std::vector<Transform> cropped = {{"decode_jpeg"}, kCrop, {"rgb_to_yuv"}, kScale};
  for (const CachePlace place : {CachePlace::memory, CachePlace::file}) {
    for (const CacheKind kind : {CacheKind::raw, CacheKind::decoded, CacheKind::prefix}) {
      for (const bool decodes_crop : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(place) << static_cast<int>(kind) << decodes_crop);
        expect_none(*jpegs, cropped,
                    {.decodes_crop = decodes_crop, .cache = kind, .cache_place = place});
        // Room for some of them.
        expect_none(*jpegs, cropped,
                    {.decodes_crop = decodes_crop, .cache = kind, .cache_place = place}, 13'000);
      }
    }
  }
}

TEST(LoaderAllocation, DoesNotHappenWithPngFiles) {
  const auto pngs = files("image_files", "png_*.png", 300);
  for (const bool decodes_crop : {false, true}) {
    expect_none(*pngs, {{"decode"}, {"random_crop", {{"size", 9}}}, {"rgb_to_yuv"}, kScale},
                {.decodes_crop = decodes_crop});
  }
}

// What a job holds does not follow the data: the order of an epoch takes four bytes of a sample.
TEST(LoaderMemory, IsAFewBytesForASample) {
  const auto held = [](std::int64_t samples) {
    const auto in_use = [] {
      const struct mallinfo2 info = mallinfo2();
      return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
    };
    const std::int64_t before = in_use();
    const auto jpegs = files("jpeg_files", "*_37x51.jpg", samples);
    Loading loading(*jpegs, {{"decode_jpeg"}, kCrop, kScale}, {}, 1);
    loading.take(40);
    return in_use() - before;
  };
  (void)held(10'000);  // what is made once is made
  const std::int64_t few = held(10'000);
  const std::int64_t many = held(1'000'000);
  EXPECT_LE(many - few, 990'000 * 6) << few << " and " << many;
}

}  // namespace
}  // namespace autotuned::input
