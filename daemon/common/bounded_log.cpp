// SPDX-License-Identifier: Apache-2.0
#include "daemon/common/bounded_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

namespace autotuned::daemon {

BoundedLog::BoundedLog(std::filesystem::path file, std::int64_t max_bytes)
    : path_(std::move(file)), max_bytes_(max_bytes) {
  open(/*is_new=*/false);
}

void BoundedLog::open(bool is_new) {
  file_.reset(::open(
      path_.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (is_new ? O_TRUNC : 0), 0600));
  struct stat status {};
  const bool is_known = file_.is_open() && ::fstat(file_.get(), &status) == 0;
  // A second name may be that of a file of somebody, who wants nothing added to it.
  if (is_known && (!S_ISREG(status.st_mode) || status.st_nlink > 1)) file_.reset();
  size_ = is_known ? status.st_size : 0;
}

void BoundedLog::append(std::string_view text) {
  while (!text.empty()) {
    if (size_ >= max_bytes_) {
      std::error_code ignored;
      std::filesystem::rename(path_, path_.string() + ".1", ignored);
      open(/*is_new=*/true);
    }
    const auto room = static_cast<std::size_t>(std::max<std::int64_t>(1, max_bytes_ - size_));
    const std::string_view part = text.substr(0, room);
    // A failure to write the output of a program is ignored.
    static_cast<void>(write_all(file_.get(), part));
    size_ += std::ssize(part);
    text.remove_prefix(part.size());
  }
}

}  // namespace autotuned::daemon
