// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/events.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autotuned::daemon {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10U;
constexpr std::size_t kLongestLine = std::size_t{16} << 20U;

// Where the last whole line ends.
std::int64_t end_of_lines(int file, std::int64_t size) {
  std::string chunk(kChunkBytes, '\0');
  while (size > 0) {
    const std::int64_t start = std::max<std::int64_t>(0, size - std::ssize(chunk));
    const ssize_t count =
        ::pread(file, chunk.data(), static_cast<std::size_t>(size - start), start);
    if (count < size - start) return size;  // it cannot be read: then nothing is cut off
    const std::size_t newline =
        std::string_view(chunk).substr(0, static_cast<std::size_t>(count)).rfind('\n');
    if (newline != std::string::npos) return start + static_cast<std::int64_t>(newline) + 1;
    size = start;
  }
  return 0;
}

}  // namespace

bool EventFilter::keeps(std::string_view event, std::size_t event_bytes, std::int64_t log_bytes,
                        std::chrono::nanoseconds now) {
  if (event_bytes > limits_.event_bytes) return false;
  if (log_bytes < limits_.thin_bytes) return true;
  if (event == "result" || event == "error") return true;
  if (log_bytes >= limits_.full_bytes) return false;
  if (event != "training" && event != "block") return true;
  const bool is_due =
      last_progress_ == std::chrono::nanoseconds::min() || now - last_progress_ >= limits_.interval;
  if (is_due) last_progress_ = now;
  return is_due;
}

Result<EventLog> EventLog::open(const std::filesystem::path& file, EventLimits limits) {
  Descriptor opened(
      ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status {};
  if (!opened.is_open() || ::fstat(opened.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot open the log of events", file.string()));
  }
  const std::int64_t size = end_of_lines(opened.get(), status.st_size);
  if (size < status.st_size && ::ftruncate(opened.get(), size) != 0) {
    return tl::unexpected(system_error(errno, "cannot repair the log of events", file.string()));
  }
  return EventLog(std::move(opened), size, limits);
}

bool EventLog::append(const Json& event, std::chrono::nanoseconds now) {
  const std::string line = to_line(event) + "\n";
  const std::string name = get_string(event, "event").value_or("");
  if (!filter_.keeps(name, line.size(), size_, now)) return false;
  if (!write_all(file_.get(), line)) {
    // Half a line would spoil the next one.
    return static_cast<void>(::ftruncate(file_.get(), size_) == 0), false;
  }
  size_ += std::ssize(line);
  return true;
}

Result<EventReader> EventReader::open(const std::filesystem::path& file) {
  Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!opened.is_open()) {
    return tl::unexpected(system_error(errno, "cannot open the log of events", file.string()));
  }
  return EventReader(std::move(opened));
}

std::vector<std::string> EventReader::read() {
  std::vector<std::string> lines;
  std::string text;
  std::size_t wanted = kChunkBytes;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(wanted);
    const ssize_t count = ::pread(file_.get(), text.data() + before, wanted - before,
                                  offset_ + static_cast<std::int64_t>(before));
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    const bool is_whole = text.find('\n') != std::string::npos;
    if (is_whole || count <= 0 || text.size() < wanted || wanted >= kLongestLine) break;
    wanted *= 2;
  }
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  offset_ += static_cast<std::int64_t>(start);
  return lines;
}

}  // namespace autotuned::daemon
