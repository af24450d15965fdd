// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/checkpoint_writer.hpp"

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <stdexcept>

namespace autotuned::trainer {
namespace {

// Writes nothing, and that only when the test says so; as many bytes as steps.
class HeldWriter {
 public:
  [[nodiscard]] CheckpointWriter::Write write() {
    return [this](const std::filesystem::path& file, const Checkpoint& checkpoint,
                  const std::string& note) -> Result<std::int64_t> {
      is_begun_.set_value();
      may_go_on_.get_future().wait();
      if (note == "fails") return fail(ErrorKind::internal, "the disk is full", file.string());
      if (note == "throws") throw std::runtime_error("broken");
      return checkpoint.steps;
    };
  }
  void wait_until_begun() { is_begun_.get_future().wait(); }
  void let_go() { may_go_on_.set_value(); }

 private:
  std::promise<void> is_begun_;
  std::promise<void> may_go_on_;
};

Checkpoint after(std::int64_t steps) {
  Checkpoint checkpoint;
  checkpoint.steps = steps;
  return checkpoint;
}

TEST(CheckpointWriter, WritesWhileItsCallerGoesOn) {
  HeldWriter held;
  CheckpointWriter writer(held.write());
  EXPECT_FALSE(writer.is_busy());
  writer.begin("file", after(7), "");
  held.wait_until_begun();  // and this thread has come so far
  EXPECT_TRUE(writer.is_busy());
  EXPECT_FALSE(writer.is_done());
  held.let_go();
  const auto written = writer.finish();
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(*written, 7);
  EXPECT_FALSE(writer.is_busy());
}

TEST(CheckpointWriter, TellsWhatWentWrongWhenAsked) {
  for (const auto& [note, what] : {std::pair{"fails", "the disk is full"}, {"throws", "broken"}}) {
    HeldWriter held;
    CheckpointWriter writer(held.write());
    writer.begin("file", after(7), note);
    held.let_go();
    const auto written = writer.finish();
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().what, what);
    EXPECT_FALSE(writer.is_busy());
  }
}

TEST(CheckpointWriter, ItsEndWaitsForWhatIsBeingWritten) {
  HeldWriter held;
  auto writer = std::make_unique<CheckpointWriter>(held.write());
  writer->begin("file", after(7), "");
  held.wait_until_begun();
  auto ended = std::async(std::launch::async, [&] { writer.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  held.let_go();
  ended.get();
}

}  // namespace
}  // namespace autotuned::trainer
