// SPDX-License-Identifier: Apache-2.0
// The order of copies and steps, against a device that does everything as late as it may.
#include "trainer/feed/device_flow.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "profiler/spans.hpp"

namespace autotuned::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two streams, whose operations are numbered. What is before what follows from the order within a stream and
// from what waited for what; all else may be in any order, so that two operations on one memory that are not
// ordered are a fault.
class FakeDevice final : public Copier {
 public:
  enum Stream : std::size_t { kSteps = 0, kCopies = 1 };

  std::vector<std::string> log;
  std::vector<std::string> faults;

  void copy(const TakenBatch& batch) override {
    log.push_back("copy " + text(batch) + open_span());
    transfer(batch, kSteps);
    host_ = merged(host_, known_[kSteps]);
  }
  void copy_beside(const TakenBatch& batch) override {
    log.push_back("copy beside " + text(batch));
    transfer(batch, kCopies);
  }
  void let_copies_wait(int landing) override {
    log.push_back("copies wait " + std::to_string(landing));
    known_[kCopies] = merged(known_[kCopies], at(landing).used);
  }
  void mark_copied(int landing) override { at(landing).copied = known_[kCopies]; }
  void let_steps_wait(int landing) override {
    log.push_back("steps wait " + std::to_string(landing));
    known_[kSteps] = merged(known_[kSteps], at(landing).copied);
  }
  void mark_used(int landing) override {
    log.push_back("used " + std::to_string(landing));
    at(landing).used = known_[kSteps];
  }
  void wait_for_copy(int landing) override {
    log.push_back("wait " + std::to_string(landing));
    host_ = merged(host_, at(landing).copied);
  }
  void wait_for_device() override {
    log.push_back("wait for all" + open_span());
    host_ = merged(host_, merged(known_[kSteps], known_[kCopies]));
  }

  void step(const TakenBatch& batch) {
    log.push_back("step " + std::to_string(batch.landing));
    Landing& landing = at(batch.landing);
    expect(is_before(landing.written, known_[kSteps]), "a step before its batch has landed");
    expect(landing.sample == batch.position.sample, "a step on another batch");
    landing.read = enqueue(kSteps);
  }
  // As if the loader filled it at once.
  void refill(int slot) {
    log.push_back("refill " + std::to_string(slot));
    expect(is_before(slots_.at(static_cast<std::size_t>(slot)), host_),
           "a slot is filled while it is copied");
  }

 private:
  using Clock = std::array<std::int64_t, 2>;  // of each stream, the last operation that is over
  struct Operation {
    Stream stream = kSteps;
    std::int64_t number = 0;  // 0: there was none
  };
  struct Landing {
    Operation written;
    Operation read;
    Clock copied{};
    Clock used{};
    std::int64_t sample = -1;
  };

  // " in NAME" while somebody records spans.
  static std::string open_span() {
    const profiler::SpanRecorder* const spans = profiler::SpanRecorder::current();
    return spans != nullptr ? std::string(" in ") + spans->open_span() : "";
  }
  static std::string text(const TakenBatch& batch) {
    return std::to_string(batch.slot) + " to " + std::to_string(batch.landing);
  }
  static Clock merged(const Clock& a, const Clock& b) {
    return {std::max(a[0], b[0]), std::max(a[1], b[1])};
  }
  static bool is_before(const Operation& operation, const Clock& clock) {
    return operation.number <= clock[operation.stream];
  }
  void expect(bool holds, const char* fault) {
    if (!holds) faults.emplace_back(fault);
  }
  Landing& at(int landing) { return landings_.at(static_cast<std::size_t>(landing)); }

  Operation enqueue(Stream stream) { return {stream, ++known_[stream][stream]}; }
  void transfer(const TakenBatch& batch, Stream stream) {
    Landing& landing = at(batch.landing);
    expect(is_before(landing.read, known_[stream]), "a landing is filled while a step uses it");
    expect(is_before(landing.written, known_[stream]), "a landing is filled while it is filled");
    landing.written = enqueue(stream);
    landing.sample = batch.position.sample;
    slots_.at(static_cast<std::size_t>(batch.slot)) = landing.written;
  }

  std::array<Clock, 2> known_{};  // what the next operation of each stream comes after
  Clock host_{};
  std::array<Landing, DeviceFlow::kLandings> landings_;
  std::array<Operation, 2> slots_;
};

// A loader with as many slots as may be held at once.
class FakeSource final : public BatchSource {
 public:
  FakeSource(FakeDevice& device, int slots)
      : device_(device), is_held_(static_cast<std::size_t>(slots)) {}

  bool fails = false;
  std::optional<TakenBatch> repeated;  // comes again and again, and keeps its slot

  Result<TakenBatch> take() override {
    if (fails) return fail(ErrorKind::io, "the disk is gone");
    if (repeated) return *repeated;
    const auto free = std::ranges::find(is_held_, false);
    EXPECT_NE(free, is_held_.end()) << "more slots are held than there are";
    if (free == is_held_.end()) return fail(ErrorKind::internal, "no slot");
    *free = true;
    return TakenBatch{.slot = static_cast<int>(free - is_held_.begin()),
                      .samples = 1,
                      .position = {.epoch = 0, .sample = next_++}};
  }
  void give_back(const TakenBatch& batch) override {
    if (batch.is_repeated) return;
    device_.refill(batch.slot);
    is_held_.at(static_cast<std::size_t>(batch.slot)) = false;
  }
  void go_back_to(input::Position position) override {
    for (std::size_t i = 0; i < is_held_.size(); ++i) {
      if (is_held_[i]) device_.refill(static_cast<int>(i));
      is_held_[i] = false;
    }
    next_ = position.sample;
  }
  void begin_repeating() {
    const auto taken = take();
    ASSERT_TRUE(taken);
    repeated = *taken;
    repeated->is_repeated = true;
  }
  // What the flow still copies from the slot must be over.
  void end_repeating() {
    TakenBatch batch = *std::exchange(repeated, std::nullopt);
    batch.is_repeated = false;
    give_back(batch);
  }
  [[nodiscard]] std::int64_t next() const { return next_; }

 private:
  FakeDevice& device_;
  std::vector<bool> is_held_;
  std::int64_t next_ = 0;
};

struct Scene {
  explicit Scene(bool is_beside)
      : source(device, is_beside ? 2 : 1), flow(source, device, is_beside) {}
  std::int64_t next_sample() {
    const auto batch = flow.next();
    EXPECT_TRUE(batch);
    if (!batch) return -1;
    device.step(*batch);
    return batch->position.sample;
  }
  FakeDevice device;
  FakeSource source;
  DeviceFlow flow;
};

TEST(DeviceFlow, CopiesOneBatchAheadBesideTheStep) {
  Scene scene(true);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.run_ahead();
  ASSERT_NE(scene.flow.ahead(), nullptr);
  EXPECT_EQ(scene.flow.ahead()->position.sample, 1);
  scene.flow.run_ahead();  // one is enough
  scene.flow.done();
  EXPECT_EQ(scene.next_sample(), 1);
  scene.flow.run_ahead();
  scene.flow.done();
  EXPECT_THAT(
      scene.device.log,
      ElementsAre("copies wait 0", "copy beside 0 to 0", "steps wait 0", "step 0", "copies wait 1",
                  "copy beside 1 to 1", "wait 0", "refill 0", "used 0", "steps wait 1", "step 1",
                  "copies wait 0", "copy beside 0 to 0", "wait 1", "refill 1", "used 1"));
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, WithoutAStreamOfItsOwnTheSlotIsFreeAtOnce) {
  Scene scene(false);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.run_ahead();
  EXPECT_EQ(scene.flow.ahead(), nullptr);
  scene.flow.done();
  EXPECT_EQ(scene.next_sample(), 1);
  EXPECT_THAT(scene.device.log, ElementsAre("copy 0 to 0", "refill 0", "step 0", "copy 0 to 1",
                                            "refill 0", "step 1"));
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, AnErrorAheadComesFromTheNextCall) {
  Scene scene(true);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.source.fails = true;
  scene.flow.run_ahead();
  scene.flow.done();
  const auto failed = scene.flow.next();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  scene.source.fails = false;
  EXPECT_EQ(scene.next_sample(), 1);
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, WhatWasAheadComesAgainAfterADrop) {
  Scene scene(true);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.run_ahead();
  scene.flow.drop();  // in the middle of a step
  EXPECT_EQ(scene.flow.ahead(), nullptr);
  EXPECT_EQ(scene.source.next(), 1);
  EXPECT_EQ(scene.next_sample(), 1);
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, AFailedStepWaitsForItsCopy) {
  Scene scene(true);
  ASSERT_TRUE(scene.flow.next());
  scene.flow.drop();
  scene.source.go_back_to({.epoch = 0, .sample = 0});
  EXPECT_THAT(scene.device.log, ElementsAre("copies wait 0", "copy beside 0 to 0", "steps wait 0",
                                            "wait 0", "used 0", "refill 0"));
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, NoCopyIsUnderWayOnceItIsSettled) {
  Scene scene(true);
  scene.flow.settle();  // nothing to wait for
  EXPECT_THAT(scene.device.log, IsEmpty());
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.run_ahead();
  scene.flow.settle();
  scene.device.refill(0);
  scene.device.refill(1);
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, ARepeatedBatchAheadIsGivenUpWhenItsCopyIsOver) {
  Scene scene(true);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.done();
  scene.source.begin_repeating();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scene.next_sample(), 1);
    scene.flow.run_ahead();
    scene.flow.done();
  }
  ASSERT_NE(scene.flow.ahead(), nullptr);
  scene.flow.drop_repeated();
  EXPECT_EQ(scene.flow.ahead(), nullptr);
  scene.source.end_repeating();
  EXPECT_EQ(scene.next_sample(), 2) << "the loader goes on where it was";
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, ARepeatedBatchInUseKeepsItsLanding) {
  Scene scene(true);
  scene.source.begin_repeating();
  const auto batch = scene.flow.next();
  ASSERT_TRUE(batch);
  scene.flow.drop_repeated();  // in the middle of a step
  scene.source.end_repeating();
  scene.device.step(*batch);
  scene.flow.run_ahead();
  scene.flow.done();
  EXPECT_EQ(scene.next_sample(), 1);
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, WhatIsAheadFromTheLoaderOutlivesARepetition) {
  Scene scene(true);
  EXPECT_EQ(scene.next_sample(), 0);
  scene.flow.run_ahead();
  scene.flow.drop_repeated();
  ASSERT_NE(scene.flow.ahead(), nullptr);
  scene.flow.done();
  EXPECT_EQ(scene.next_sample(), 1);
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

// A copy that is waited for waits for the steps before it, too: their time is not its own.
TEST(DeviceFlow, ATimedTransferBeginsWhenTheDeviceIsIdle) {
  Scene scene(false);
  scene.flow.time_transfers(true);
  const profiler::SpanRecorder spans;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(scene.next_sample(), i);
    scene.flow.done();
  }
  EXPECT_THAT(scene.device.log,
              ElementsAre("wait for all in ", "copy 0 to 0 in transfer", "refill 0", "step 0",
                          "wait for all in ", "copy 0 to 1 in transfer", "refill 0", "step 1"));
  scene.device.log.clear();
  scene.flow.time_transfers(false);
  EXPECT_EQ(scene.next_sample(), 2);
  EXPECT_THAT(scene.device.log, ElementsAre("copy 0 to 0 in transfer", "refill 0", "step 0"));
  EXPECT_THAT(scene.device.faults, IsEmpty());
}

TEST(DeviceFlow, CopiesBesideTheStepsAreTimedAsTheyAre) {
  Scene scene(true);
  scene.flow.time_transfers(true);
  EXPECT_EQ(scene.next_sample(), 0);
  EXPECT_THAT(scene.device.log, testing::Not(testing::Contains(testing::HasSubstr("all"))));
}

// Whatever the trainer does in which order.
TEST(DeviceFlow, NothingIsOverwrittenInUse) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const bool is_beside = seed % 3 != 0;
    Scene scene(is_beside);
    std::minstd_rand dice(seed + 1);
    std::int64_t expected = 0;
    for (int i = 0; i < 60; ++i) {
      const bool fails = dice() % 8 == 0;
      scene.source.fails = fails;
      const bool was_ahead = scene.flow.ahead() != nullptr;
      const auto batch = scene.flow.next();
      ASSERT_EQ(batch.has_value(), was_ahead || !fails);
      if (!batch) continue;
      ASSERT_EQ(batch->position.sample, expected++);
      for (auto steps = dice() % 3; steps > 0; --steps)
        scene.device.step(*batch);
      if (dice() % 4 != 0) scene.flow.run_ahead();
      if (dice() % 5 == 0) {
        scene.flow.drop();
        expected = static_cast<std::int64_t>(dice() % 100);
        scene.source.go_back_to({.epoch = 0, .sample = expected});
      } else {
        scene.flow.done();
      }
    }
    ASSERT_THAT(scene.device.faults, IsEmpty()) << "seed " << seed;
  }
}

// The device of these tests finds what it is there for.
TEST(DeviceFlow, TheFakeSeesEveryMissingWait) {
  const TakenBatch batch{.slot = 0, .samples = 1, .landing = 0};
  {
    FakeDevice device;
    device.copy_beside(batch);
    device.step(batch);
    EXPECT_THAT(device.faults, ElementsAre("a step before its batch has landed"));
  }
  {
    FakeDevice device;
    device.copy_beside(batch);
    device.mark_copied(0);
    device.refill(0);
    EXPECT_THAT(device.faults, ElementsAre("a slot is filled while it is copied"));
  }
  {
    FakeDevice device;
    device.copy_beside(batch);
    device.mark_copied(0);
    device.let_steps_wait(0);
    device.step(batch);
    device.copy_beside(batch);
    EXPECT_THAT(device.faults, ElementsAre("a landing is filled while a step uses it"));
    device.step({.slot = 0, .samples = 1, .position = {.epoch = 0, .sample = 7}, .landing = 0});
    EXPECT_THAT(device.faults, testing::Contains("a step on another batch"));
  }
}

}  // namespace
}  // namespace autotuned::trainer
