// SPDX-License-Identifier: Apache-2.0
// What is asked of a device's allocator and streams, with a device of our own in the place that LibTorch leaves for
// devices that it does not know.
#include "trainer/common/device.hpp"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

#include "trainer/feed/device_copier.hpp"

namespace autotuned::trainer {
namespace {

using c10::CachingAllocator::StatType;
using testing::HasSubstr;

constexpr const char* kDevice = "privateuseone:0";

// Gives out nothing; its books are set by tests.
class FakeAllocator final : public c10::DeviceAllocator {
 public:
  c10::CachingDeviceAllocator::DeviceStats stats;
  int emptied = 0;

  c10::CachingAllocator::Stat& allocated() { return total(stats.allocated_bytes); }
  c10::CachingAllocator::Stat& reserved() { return total(stats.reserved_bytes); }

  c10::DataPtr allocate(std::size_t /*bytes*/) override {
    return {nullptr, c10::Device(c10::DeviceType::PrivateUse1, 0)};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override { ++emptied; }
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    for (auto* const one : {&allocated(), &reserved()})
      one->peak = one->current;
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    return {1000, 5000};
  }

 private:
  static c10::CachingAllocator::Stat& total(c10::CachingAllocator::StatArray& stats) {
    return stats[static_cast<std::size_t>(StatType::AGGREGATE)];
  }
};

// Draws another stream each time, as CUDA's pool does.
class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  mutable int drawn = 0;

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return getDevice(); }
  c10::Device getDevice() const override { return {type(), 0}; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*is_high*/) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, ++drawn);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

class FakeHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
};

// LibTorch keeps what is registered for the life of the process.
struct FakeDevice {
  FakeAllocator allocator;
  FakeGuard guard;
  FakeHooks hooks;

  FakeDevice() {
    c10::register_privateuse1_backend("fake");
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &allocator);
    const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::PrivateUse1, &guard);
    at::RegisterPrivateUse1HooksInterface(&hooks);
  }
};

FakeDevice& fake_device() {
  static auto& device = *new FakeDevice();
  return device;
}

// After a batch of 256 the allocator keeps the memory of that; the next one, of 32, needs no more than it uses.
TEST(Device, PeaksAreOfWhatTensorsUse) {
  FakeAllocator& allocator = fake_device().allocator;
  allocator.allocated() = {.current = 100, .peak = 4000};
  allocator.reserved() = {.current = 4100, .peak = 4100};
  EXPECT_EQ(device_peak_bytes(kDevice), 4000);
  reset_device_peak(kDevice);
  EXPECT_EQ(device_peak_bytes(kDevice), 100);
  allocator.allocated().increase(500);
  allocator.allocated().decrease(450);
  EXPECT_EQ(device_peak_bytes(kDevice), 600);
  EXPECT_EQ(device_memory(kDevice).allocated_bytes, 150);
  EXPECT_EQ(device_memory(kDevice).reserved_bytes, 4100);
  EXPECT_EQ(device_memory_bytes(kDevice), 5000);
}

TEST(Device, TheCpuHasNoMemoryOfItsOwn) {
  EXPECT_EQ(device_peak_bytes("cpu"), 0);
  EXPECT_EQ(device_memory("cpu").reserved_bytes, 0);
  EXPECT_EQ(device_memory_bytes("cpu"), 0);
  reset_device_peak("cpu");
  release_device_cache("cpu");
}

TEST(Device, GivesBackWhatTheAllocatorKeeps) {
  FakeAllocator& allocator = fake_device().allocator;
  const int before = allocator.emptied;
  release_device_cache(kDevice);
  EXPECT_EQ(allocator.emptied, before + 1);
}

// Each of 32 streams is drawn again: one of many draws would be that of a recorded step.
TEST(Device, CopiesHaveOneStreamForLife) {
  const FakeGuard& guard = fake_device().guard;
  const at::Device device(kDevice);
  const c10::Stream first = copy_stream(device);
  const int drawn = guard.drawn;
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(copy_stream(device), first);
  EXPECT_EQ(guard.drawn, drawn);
}

// Without the variable LibTorch refuses each matrix product of a deterministic job on a GPU.
TEST(Device, LetsCublasBeDeterministic) {
  constexpr const char* kVariable = "CUBLAS_WORKSPACE_CONFIG";
  ::unsetenv(kVariable);
  allow_deterministic("cpu");
  EXPECT_EQ(std::getenv(kVariable), nullptr);
  (void)fake_device();
  allow_deterministic(kDevice);
  EXPECT_STREQ(std::getenv(kVariable), ":4096:8");
  ::setenv(kVariable, ":16:8", 1);
  allow_deterministic(kDevice);
  EXPECT_STREQ(std::getenv(kVariable), ":16:8") << "what somebody has chosen stays";
  ::unsetenv(kVariable);
}

// The process has begun with one value, and cuDNN keeps what it chose under that.
TEST(Device, CudnnBenchmarkIsChosenOnce) {
  const bool chosen = at::globalContext().benchmarkCuDNN();
  ASSERT_TRUE(set_cudnn_benchmark(!chosen));
  EXPECT_EQ(at::globalContext().benchmarkCuDNN(), !chosen);
  EXPECT_TRUE(set_cudnn_benchmark(!chosen));
  const auto changed = set_cudnn_benchmark(chosen);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(changed.error().message(), HasSubstr("start another trainer"));
  EXPECT_EQ(at::globalContext().benchmarkCuDNN(), !chosen);
}

TEST(Device, EachRankHasAGpuOfItsOwn) {
  const Devices two{.names = {"cpu", "cuda:0", "cuda:1"}, .cuda_reason = ""};
  const Devices none{.names = {"cpu"}, .cuda_reason = "no NVIDIA driver"};
  EXPECT_EQ(choose_device("cuda", two).value_or(""), "cuda:0");
  EXPECT_EQ(choose_device("cuda:1", two).value_or(""), "cuda:1");
  for (const char* wanted : {"auto", "cuda"}) {
    EXPECT_EQ(choose_device(wanted, two, 0, 2).value_or(""), "cuda:0") << wanted;
    EXPECT_EQ(choose_device(wanted, two, 1, 2).value_or(""), "cuda:1") << wanted;
    // Two of them on one GPU, or on the CPU without a word, would be another job.
    const auto three = choose_device(wanted, two, 2, 3);
    ASSERT_FALSE(three) << wanted;
    EXPECT_EQ(three.error().kind, ErrorKind::unsupported);
    EXPECT_EQ(three.error().where, "train.ranks");
    EXPECT_THAT(three.error().what, HasSubstr("3 ranks need a GPU each, and this process sees 2"));
  }
  EXPECT_EQ(choose_device("cpu", two, 1, 3).value_or(""), "cpu");
  EXPECT_EQ(choose_device("auto", none, 1, 3).value_or(""), "cpu");
  EXPECT_EQ(choose_device("cuda", none, 1, 3).error().kind, ErrorKind::unsupported);
  const auto named = choose_device("cuda:1", two, 0, 2);
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().kind, ErrorKind::invalid);
}

TEST(Device, IsKnownByItsUuid) {
  const Devices devices{.names = {"cpu", "cuda:0", "cuda:1", "cuda:2"},
                        .cuda_reason = "",
                        .cuda_uuids = {"aa", "bb"}};
  EXPECT_EQ(devices.uuid_of("cuda:1"), "bb");
  EXPECT_EQ(devices.uuid_of("cuda:2"), "");
  EXPECT_EQ(devices.uuid_of("cuda:7"), "");
  EXPECT_EQ(devices.uuid_of("cpu"), "");
}

}  // namespace
}  // namespace autotuned::trainer
