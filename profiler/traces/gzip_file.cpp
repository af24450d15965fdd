// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/gzip_file.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/file.hpp"

namespace autotuned::traces {
namespace {

// Traces are repetitive: the lowest level achieves most of the compression, several times faster than the others.
constexpr const char* kMode = "wb1";
constexpr unsigned kBufferBytes = 256U << 10U;

}  // namespace

struct GzipFile::Handle {
  gzFile file = nullptr;
  std::filesystem::path name;
  std::filesystem::path part;
  int error_number = 0;  // errno of the first write that failed
  bool has_failed = false;

  Handle(gzFile opened, std::filesystem::path final_name, std::filesystem::path part_name)
      : file(opened), name(std::move(final_name)), part(std::move(part_name)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (file != nullptr) gzclose(file);
    if (!part.empty()) ::unlink(part.c_str());
  }

  void fail(int number) {
    if (has_failed) return;
    has_failed = true;
    error_number = number;
  }
};

GzipFile::GzipFile(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
GzipFile::GzipFile(GzipFile&&) noexcept = default;
GzipFile& GzipFile::operator=(GzipFile&&) noexcept = default;
GzipFile::~GzipFile() = default;

Result<GzipFile> GzipFile::create(const std::filesystem::path& file) {
  std::filesystem::path part = file;
  part += kUnfinishedTrace;
  const int descriptor =
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) {
    return tl::unexpected(system_error(errno, "cannot write the trace", part.string()));
  }
  gzFile opened = gzdopen(descriptor, kMode);
  if (opened == nullptr) {
    ::close(descriptor);
    ::unlink(part.c_str());
    return autotuned::fail(ErrorKind::out_of_memory, "no memory to write the trace", file.string());
  }
  gzbuffer(opened, kBufferBytes);
  return GzipFile(std::make_unique<Handle>(opened, file, std::move(part)));
}

void GzipFile::write(std::string_view bytes) {
  constexpr std::size_t kMax = std::numeric_limits<int>::max();
  while (!bytes.empty() && !handle_->has_failed) {
    const auto count = static_cast<unsigned>(std::min(bytes.size(), kMax));
    errno = 0;
    if (gzwrite(handle_->file, bytes.data(), count) != static_cast<int>(count)) {
      handle_->fail(errno);
      return;
    }
    bytes.remove_prefix(count);
  }
}

Result<std::int64_t> GzipFile::close() {
  Handle& handle = *handle_;
  errno = 0;
  if (gzclose(std::exchange(handle.file, nullptr)) != Z_OK) handle.fail(errno);
  if (handle.has_failed) {
    return tl::unexpected(
        system_error(handle.error_number, "cannot write the trace", handle.part.string()));
  }
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(handle.part, failed);
  if (auto published = publish_file(handle.part, handle.name); !published) {
    return tl::unexpected(published.error());
  }
  handle.part.clear();
  return static_cast<std::int64_t>(failed ? 0 : bytes);
}

}  // namespace autotuned::traces
