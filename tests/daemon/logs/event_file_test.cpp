// SPDX-License-Identifier: Apache-2.0
#include "daemon/logs/event_file.hpp"

#include <gmock/gmock.h>

#include "tests/daemon/logs/event_reader.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::int64_t kStartNs = 1'700'000'000'500'000'000;

TEST(EventFile, HasTheChecksumsOfTfRecord) {
  // RFC 3720, B.4: 32 bytes of zeros, and of ones.
  EXPECT_EQ(EventReader::crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(EventReader::crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  const std::uint32_t crc = 0x8A9136AAU;
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U);
}

TEST(EventFile, ReadsBackAsItWasWritten) {
  const std::vector<LogPoint> points = {
      {.name = "train/loss", .step = 100, .unix_ns = kStartNs + 2'000'000'000, .value = 0.51},
      {.name = "test/accuracy", .step = 1'000'000, .unix_ns = kStartNs, .value = -1.5e30},
      {.name = std::string(300, 'n'), .step = 0, .unix_ns = 0, .value = 0.0}};
  const std::vector<ReadEvent> events = EventReader::read(event_file_of(points, kStartNs));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_DOUBLE_EQ(events[0].wall_time, 1'700'000'000.5);
  EXPECT_EQ(events[0].tag, "");
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(events[i + 1].tag, points[i].name);
    EXPECT_EQ(events[i + 1].step, points[i].step);
    EXPECT_EQ(events[i + 1].value, static_cast<float>(points[i].value));
    EXPECT_DOUBLE_EQ(events[i + 1].wall_time, static_cast<double>(points[i].unix_ns) / 1e9);
  }
  EXPECT_EQ(event_file_name(kStartNs), "events.out.tfevents.1700000000.autotuned");
}

// The reader itself sees damage.
TEST(EventFile, DamageDoesNotReadBack) {
  std::string file = event_file_of({{.name = "a", .step = 1, .unix_ns = 1, .value = 1}}, 1);
  file[file.size() - 6] = static_cast<char>(file[file.size() - 6] + 1);
  EXPECT_THROW(static_cast<void>(EventReader::read(file)), std::runtime_error);
  file = event_file_of({}, 1);
  file.pop_back();
  EXPECT_THROW(static_cast<void>(EventReader::read(file)), std::runtime_error);
}

}  // namespace
}  // namespace autotuned::daemon
