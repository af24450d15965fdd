// SPDX-License-Identifier: Apache-2.0
// A log file of bounded size, for the output of programs that may print any amount.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/descriptor.hpp"

namespace autotuned::daemon {

// Writes to two files of at most `max_bytes` each; the name of the older one ends with .1.
class BoundedLog {
 public:
  explicit BoundedLog(std::filesystem::path file,
                      std::int64_t max_bytes = std::int64_t{512} << 10U);
  void append(std::string_view text);

 private:
  void open(bool is_new);

  std::filesystem::path path_;
  std::int64_t max_bytes_;
  std::int64_t size_ = 0;
  Descriptor file_;
};

}  // namespace autotuned::daemon
