// SPDX-License-Identifier: Apache-2.0
// batch_size on a device whose memory is fragmented as LibTorch's allocator fragments it: how close it comes to the
// largest batch that fits, and what a probe that runs out of memory costs.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/builtin/device_memory.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

constexpr const char* kBatchKnob = "batch_size";
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kCapacity = 16'384 * kMiB;
constexpr std::int64_t kSampleBytes = 600'000;  // of the input
constexpr int kStart = 32;
constexpr int kStepsEach = 3;
constexpr int kPairs = 2;
constexpr double kClose = 0.95;

struct Network {
  std::vector<std::int64_t> parameters;   // bytes, by layer
  std::vector<std::int64_t> activations;  // bytes a sample, by layer
};

Network random_network(unsigned seed) {
  std::minstd_rand dice(seed + 1);
  Network network;
  const int layers = 8 + static_cast<int>(dice() % 25);
  for (int i = 0; i < layers; ++i) {
    network.parameters.push_back(static_cast<std::int64_t>(1'000 + dice() % 8'000'000));
    network.activations.push_back(static_cast<std::int64_t>(50'000 + dice() % 900'000));
  }
  return network;
}

// What becomes of the cache when the batch size changes. The trainer gives it back (trainer/job/job_state.cpp).
enum class AtChange { give_back, keep };

// A process that trains, with what the trainer asks of its allocator and in that order.
class Process {
 public:
  Process(Network network, std::int64_t capacity_bytes, AtChange at_change)
      : network_(std::move(network)),
        memory_(capacity_bytes),
        at_change_(at_change),
        gradients_(network_.parameters.size()) {
    for (const std::int64_t bytes : network_.parameters)
      EXPECT_NE(memory_.allocate(bytes), 0);
  }

  // The peak of some steps; 0: out of memory, and the process goes on.
  std::int64_t run(std::int64_t batch) {
    bool fits = batch == batch_ || change_to(batch);
    memory_.reset_peak();
    for (int i = 0; fits && i < kStepsEach; ++i)
      fits = step(batch);
    if (fits) return memory_.peak_bytes();
    abandon_step();
    return 0;
  }

  void abandon_step() {
    drop_gradients();
    memory_.give_back();
  }

 private:
  // Two batches on the device: the one of the step, and the one that is copied meanwhile.
  bool change_to(std::int64_t batch) {
    const bool gives_back = at_change_ == AtChange::give_back;
    if (gives_back) abandon_step();
    const std::array<int, 2> inputs = {memory_.allocate(batch * kSampleBytes),
                                       memory_.allocate(batch * kSampleBytes)};
    const bool fits = inputs[0] != 0 && inputs[1] != 0;
    for (const int input : fits ? inputs_ : inputs)
      if (input != 0) memory_.free(input);
    if (!fits) return false;
    inputs_ = inputs;
    batch_ = batch;
    if (gives_back) memory_.give_back();
    return true;
  }

  void drop_gradients() {
    for (int& gradient : gradients_)
      if (const int handle = std::exchange(gradient, 0); handle != 0) memory_.free(handle);
  }

  bool step(std::int64_t batch) {
    drop_gradients();
    std::vector<int> live;
    const auto allocate = [&](std::int64_t bytes) {
      live.push_back(memory_.allocate(bytes));
      return live.back() != 0;
    };
    const auto free_last = [&](std::size_t count) {
      for (; count > 0; --count) {
        if (live.back() != 0) memory_.free(live.back());
        live.pop_back();
      }
    };
    bool fits = true;
    for (std::size_t i = 0; fits && i < network_.activations.size(); ++i) {
      const std::int64_t bytes = network_.activations[i] * batch;
      fits = allocate(bytes);
      // Every third layer needs room to work in, for a moment.
      if (fits && i % 3 == 0) {
        fits = allocate(bytes / 2);
        free_last(1);
      }
    }
    for (std::size_t i = network_.activations.size(); fits && i > 0; --i) {
      fits = allocate(network_.activations[i - 1] * batch);
      if (fits) {
        gradients_[i - 1] = memory_.allocate(network_.parameters[i - 1]);
        fits = gradients_[i - 1] != 0;
      }
      free_last(fits ? 2 : 1);
    }
    free_last(live.size());
    return fits && (has_momentum_ || make_momentum());
  }

  // The optimizer does that in its first step: it lies where that one's activations lay.
  bool make_momentum() {
    std::vector<int> made;
    for (const std::int64_t bytes : network_.parameters) {
      made.push_back(memory_.allocate(bytes));
      if (made.back() != 0) continue;
      made.pop_back();
      for (const int handle : made)
        memory_.free(handle);
      return false;
    }
    return has_momentum_ = true;
  }

  Network network_;
  DeviceMemory memory_;
  AtChange at_change_;
  std::int64_t batch_ = 0;
  std::array<int, 2> inputs_{};
  std::vector<int> gradients_;
  bool has_momentum_ = false;
};

// In a process that starts with this size, as the training does, and in one that was started with another, as the trial's.
bool fits(const Network& network, std::int64_t batch, std::int64_t limit) {
  const auto is_within = [limit](std::int64_t peak) { return peak > 0 && peak <= limit; };
  if (!is_within(Process(network, kCapacity, AtChange::give_back).run(batch))) return false;
  Process other(network, kCapacity, AtChange::give_back);
  return other.run(kStart) > 0 && is_within(other.run(batch));
}

// The largest multiple of 8 up to which all multiples fit. Beyond it some fit and some do not: it depends on which
// pieces happen to be of use again.
std::int64_t largest_that_fits(const Network& network, std::int64_t limit) {
  std::int64_t of_a_sample = 0;
  for (const std::int64_t bytes : network.activations)
    of_a_sample += bytes;
  std::int64_t batch = limit / of_a_sample / 2 / 8 * 8;
  EXPECT_TRUE(fits(network, batch, limit));
  while (fits(network, batch + 8, limit))
    batch += 8;
  return batch;
}

struct Found {
  std::int64_t size = 0;
  std::vector<std::int64_t> probes;
  bool has_lost_incumbent = false;  // a size that was kept ran no more
};

// Asks until there is nothing more, as the tuner would. Steps take the same time whatever their size, so that the largest
// batch is the fastest. `broken_probe`: that one runs out of memory whatever it needs; -1: none.
Found search(const Network& network, std::int64_t limit, int broken_probe,
             AtChange at_change = AtChange::give_back) {
  Process process(network, kCapacity, at_change);
  Json json = situation("resnet18_gpu");
  json["incumbent"][kBatchKnob] = kStart;
  json["job"]["train_samples"] = 10'000'000;
  json["permissions"]["batch_size_max"] = 1'000'000;
  json["permissions"]["memory_limit_bytes"] = limit;
  json["metrics"]["memory.peak_device_bytes"] = process.run(kStart);
  Found found;
  std::set<std::int64_t> ran = {kStart};
  std::int64_t failed = 2'000'000;
  for (int question = 0; question < 40; ++question) {
    const std::int64_t now = json["incumbent"][kBatchKnob];
    found.size = now;
    const Json change = first_change(ask("batch_size", json));
    if (change.is_null()) {
      EXPECT_TRUE(ran.contains(found.size)) << found.size << " never ran";
      return found;
    }
    const std::int64_t size = change.at(kBatchKnob);
    EXPECT_LT(size, failed) << "it asks for what has failed";
    std::int64_t peak = 0;
    if (static_cast<int>(found.probes.size()) == broken_probe) {
      process.abandon_step();
    } else {
      // A trial's blocks, in turn.
      for (int pair = 0; pair < kPairs; ++pair) {
        peak = process.run(size);
        if (peak == 0) break;
        found.has_lost_incumbent = found.has_lost_incumbent || process.run(now) == 0;
      }
    }
    found.probes.push_back(size);
    if (found.has_lost_incumbent) return found;
    const bool is_within = peak > 0 && peak <= limit;
    std::string verdict = "failed";
    if (peak > 0) verdict = is_within ? "accepted" : "rejected";
    tell(json, change, verdict,
         peak > 0 ? static_cast<double>(size) / static_cast<double>(now) : 0.0);
    json["trials"].back()["peak_memory_bytes"] = peak;
    if (is_within) {
      ran.insert(size);
      json["metrics"]["memory.peak_device_bytes"] = peak;
    } else {
      failed = std::min(failed, size);
    }
  }
  ADD_FAILURE() << "the search does not end";
  return found;
}

double share_of(std::int64_t size, std::int64_t largest) {
  return static_cast<double>(size) / static_cast<double>(largest);
}

TEST(BatchMemory, ComesWithinFivePercentOfWhatFits) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Network network = random_network(seed);
    // By the tensors' bytes, and by what fragmentation leaves of the device.
    for (const std::int64_t limit : {kCapacity / 10 * 9, kCapacity / 2, kCapacity}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", limit " << limit / kMiB << " MiB");
      const std::int64_t largest = largest_that_fits(network, limit);
      const Found found = search(network, limit, -1);
      EXPECT_FALSE(found.has_lost_incumbent) << found.size;
      EXPECT_GE(share_of(found.size, largest), kClose) << found.size << " of " << largest;
    }
  }
}

// It is the trainer's doing: with what other sizes left in the cache, the search ends early, or what it kept runs no more.
TEST(BatchMemory, MissesWhatFitsWhereTheCacheIsKept) {
  int missed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Network network = random_network(seed);
    const Found found = search(network, kCapacity, -1, AtChange::keep);
    const std::int64_t largest = largest_that_fits(network, kCapacity);
    if (found.has_lost_incumbent || share_of(found.size, largest) < kClose) ++missed;
  }
  EXPECT_GE(missed, 3);
}

TEST(BatchMemory, SurvivesEveryProbeThatRunsOutOfMemory) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Network network = random_network(seed);
    const std::int64_t limit = kCapacity / 10 * 9;
    const std::int64_t largest = largest_that_fits(network, limit);
    const auto probes = static_cast<int>(search(network, limit, -1).probes.size());
    for (int broken = 0; broken < probes; ++broken) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", probe " << broken);
      const Found found = search(network, limit, broken);
      ASSERT_GT(found.probes.size(), static_cast<std::size_t>(broken));
      EXPECT_FALSE(found.has_lost_incumbent) << found.size;
      const std::int64_t failed = found.probes[static_cast<std::size_t>(broken)];
      // What failed once is not tried again; all below it is.
      const std::int64_t reachable = std::min(largest, failed - 8);
      EXPECT_GE(share_of(found.size, reachable), kClose) << found.size << " of " << reachable;
      EXPECT_LT(found.size, failed);
    }
  }
}

// The device of these tests fragments: it runs out of memory before its tensors fill it.
TEST(BatchMemory, TheSimulatedDeviceFragments) {
  DeviceMemory memory(100 * kMiB);
  std::vector<int> blocks;
  for (int i = 0; i < 8; ++i)
    blocks.push_back(memory.allocate(12 * kMiB));
  EXPECT_EQ(memory.allocate(12 * kMiB), 0) << "96 of 100 MiB are in use";
  for (std::size_t i = 0; i < blocks.size(); i += 2)
    memory.free(blocks[i]);
  EXPECT_EQ(memory.allocated_bytes(), 48 * kMiB);
  EXPECT_EQ(memory.reserved_bytes(), 96 * kMiB) << "it is kept";
  // Whole segments can be given back, parts of them cannot.
  EXPECT_NE(memory.allocate(40 * kMiB), 0);
  EXPECT_EQ(memory.reserved_bytes(), 88 * kMiB);
  DeviceMemory parts(40 * kMiB);
  const int first = parts.allocate(6 * kMiB);
  const int second = parts.allocate(6 * kMiB);
  EXPECT_EQ(parts.reserved_bytes(), 20 * kMiB);
  parts.free(first);
  EXPECT_EQ(parts.allocate(24 * kMiB), 0) << "20 MiB are held by a block of 6";
  parts.free(second);
  EXPECT_NE(parts.allocate(24 * kMiB), 0);
  EXPECT_EQ(parts.peak_bytes(), 24 * kMiB);
}

// A rest of no more than 1 MiB stays with its block, and counts as that one's.
TEST(BatchMemory, TheSimulatedDeviceCountsWhatItHasGivenOut) {
  DeviceMemory memory(100 * kMiB);
  const int block = memory.allocate(11 * kMiB);
  EXPECT_EQ(memory.reserved_bytes(), 12 * kMiB);
  EXPECT_EQ(memory.allocated_bytes(), 12 * kMiB);
  memory.free(block);
  EXPECT_EQ(memory.allocated_bytes(), 0);
  EXPECT_EQ(memory.peak_bytes(), 12 * kMiB);
}

}  // namespace
}  // namespace autotuned::plugins
