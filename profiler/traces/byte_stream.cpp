// SPDX-License-Identifier: Apache-2.0
#include "profiler/traces/byte_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>

namespace autotuned::traces {
namespace {

#ifdef AUTOTUNED_SHORT_READS
constexpr unsigned kBufferBytes = 4096;
#else
constexpr unsigned kBufferBytes = 256U << 10U;
#endif

}  // namespace

struct ByteStream::Handle {
  gzFile file = nullptr;
  std::string where;

  Handle(gzFile opened, std::string name) : file(opened), where(std::move(name)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { gzclose(file); }
};

ByteStream::ByteStream(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

Result<ByteStream> ByteStream::open(const std::filesystem::path& file) {
  // Without O_NONBLOCK a pipe without a writer would never open.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return tl::unexpected(system_error(errno, "cannot open the trace", file.string()));
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return fail(ErrorKind::invalid, "this is not a regular file", file.string(),
                "name the trace files themselves (*.pt.trace.json or .json.gz)");
  }
  gzFile opened = gzdopen(descriptor, "rb");
  if (opened == nullptr) {
    ::close(descriptor);
    return fail(ErrorKind::out_of_memory, "no memory for reading", file.string());
  }
  gzbuffer(opened, kBufferBytes);
  return ByteStream(std::make_unique<Handle>(opened, file.string()));
}

Result<std::size_t> ByteStream::read(char* to, std::size_t capacity) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const int count = gzread(handle_->file, to, static_cast<unsigned>(std::min(capacity, kMost)));
  if (count > 0) return static_cast<std::size_t>(count);
  int number = Z_OK;
  const char* text = gzerror(handle_->file, &number);
  if (number == Z_ERRNO) {
    return tl::unexpected(system_error(errno, "cannot read the trace", handle_->where));
  }
  if (number != Z_OK && number != Z_STREAM_END) {
    // zlib puts what it calls the file in front: "<fd:3>: ".
    const std::string_view said = text;
    const std::size_t prefix = said.starts_with('<') ? said.find(": ") : std::string_view::npos;
    const std::string what(prefix == std::string_view::npos ? said : said.substr(prefix + 2));
    return fail(ErrorKind::corrupt, "the compressed data is damaged (" + what + ")", handle_->where,
                "copy or write the trace again");
  }
  return std::size_t{0};
}

}  // namespace autotuned::traces
