// SPDX-License-Identifier: Apache-2.0
// The events of one job in a file, one line each, which any number of watchers follow. The file is bounded:
// for a run of days it reaches from the beginning to the end, with less detail once it is large.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

struct EventLimits {
  std::int64_t thin_bytes = std::int64_t{8}
                            << 20U;  // above this size, progress only once per interval
  std::int64_t full_bytes = std::int64_t{32} << 20U;  // above this size, only how the run ended
  std::size_t event_bytes = std::size_t{8} << 20U;    // a longer one is left out
  std::chrono::nanoseconds interval = std::chrono::seconds(10);
};

// Decides which events are kept. Pure.
class EventFilter {
 public:
  explicit EventFilter(EventLimits limits = {}) : limits_(limits) {}
  // `now` must not go back.
  [[nodiscard]] bool keeps(std::string_view event, std::size_t event_bytes, std::int64_t log_bytes,
                           std::chrono::nanoseconds now);

 private:
  EventLimits limits_;
  std::chrono::nanoseconds last_progress_{std::chrono::nanoseconds::min()};
};

// Writes the events of a job. They are not synced to disk: everything that must survive is in the history.
class EventLog {
 public:
  // Opens or makes the file. A partial last line, which a crash left, is cut off.
  [[nodiscard]] static Result<EventLog> open(const std::filesystem::path& file,
                                             EventLimits limits = {});
  // True when the event is in the file now. An event that does not fit on the disk is left out.
  bool append(const Json& event, std::chrono::nanoseconds now);
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  EventLog(Descriptor file, std::int64_t size, EventLimits limits)
      : file_(std::move(file)), size_(size), filter_(limits) {}

  Descriptor file_;
  std::int64_t size_ = 0;
  EventFilter filter_;
};

// One watcher's place in a log.
class EventReader {
 public:
  // Begins at the first event. Errors are those of opening the file.
  [[nodiscard]] static Result<EventReader> open(const std::filesystem::path& file);
  // The next whole lines, about 64 KiB of them (more when one line is longer); none at the end.
  [[nodiscard]] std::vector<std::string> read();

 private:
  explicit EventReader(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
  std::int64_t offset_ = 0;
};

}  // namespace autotuned::daemon
