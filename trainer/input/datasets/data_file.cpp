// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/datasets/data_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/text.hpp"

namespace autotuned::input {

Result<DataFile> open_data_file(const std::string& path) {
  // Not blocking: else opening a FIFO would wait for a writer.
  DataFile file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!file.descriptor.is_open()) {
    const int number = errno;
    Error error = system_error(number, "cannot open", path);
    if (number == EMFILE) error.remedy = "raise the limit of open files (ulimit -n)";
    return tl::unexpected(std::move(error));
  }
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot read", path));
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, "is not a regular file", path);
  file.bytes = status.st_size;
  return file;
}

FileStamp stamp_of(const DataFile& file) {
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) return {};
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  return {status.st_size, status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec};
}

Result<std::size_t> read_at(const DataFile& file, std::int64_t offset, std::span<std::uint8_t> out,
                            const std::string& path) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(file.descriptor.get(), out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(system_error(errno, "cannot read", path));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Result<void> read_all_at(const DataFile& file, std::int64_t offset, std::span<std::uint8_t> out,
                         const std::string& path) {
  const auto count = read_at(file, offset, out, path);
  if (!count) return tl::unexpected(count.error());
  if (*count == out.size()) return {};
  return fail(ErrorKind::corrupt,
              "ends after " + format_count(offset + static_cast<std::int64_t>(*count)) +
                  " bytes, but had " + format_count(file.bytes) + " when it was opened",
              path, "do not change the data during training");
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t kMaxShown = 200;
  constexpr unsigned char kDelete = 0x7f;
  std::string shown(text.substr(0, kMaxShown));
  for (char& letter : shown) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < ' ' || byte == kDelete) letter = '?';
  }
  return shown + (text.size() > kMaxShown ? "..." : "");
}

}  // namespace autotuned::input
