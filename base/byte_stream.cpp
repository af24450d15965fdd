// SPDX-License-Identifier: Apache-2.0
#include "base/byte_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string>

#include "base/descriptor.hpp"

namespace autotuned {
namespace {

constexpr std::uint64_t kMaxGzipRatio = 1032;
constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr const char* kEnds = "the file ends";
#ifdef AUTOTUNED_SHORT_READS
constexpr std::size_t kBufferBytes = 4096;
#else
constexpr std::size_t kBufferBytes = std::size_t{64} << 10U;
#endif
constexpr const char* kFetchAgain = "copy or download it again";

Error ends_early(const std::string& where) {
  return {ErrorKind::corrupt, kEnds, where, kFetchAgain};
}

}  // namespace

struct ByteStream::State {
  std::string where;
  Descriptor file;
  std::uint64_t file_bytes = 0;
  std::array<std::uint8_t, kBufferBytes> buffer{};  // [begin, end) is not yet consumed
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_gzip = false;
  bool is_member_done = false;  // at the end of a gzip member, its checksum verified
  bool is_damaged = false;
  z_stream zlib{};

  ~State() {
    if (is_gzip) inflateEnd(&zlib);
  }

  // Reads more bytes into the buffer and keeps those that are not consumed yet. Returns false at the end of the file.
  Result<bool> refill() {
    std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(begin),
              buffer.begin() + static_cast<std::ptrdiff_t>(end), buffer.begin());
    end -= begin;
    begin = 0;
    ssize_t count = 0;
    do {
      count = ::read(file.get(), buffer.data() + end, buffer.size() - end);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return tl::unexpected(system_error(errno, "cannot read", where));
    end += static_cast<std::size_t>(count);
    return count > 0;
  }

  // A gzip file may consist of several members.
  Result<bool> starts_gzip_member() {
    while (end - begin < 2) {
      const auto more = refill();
      if (!more) return more;
      if (!*more) return false;
    }
    return buffer[begin] == 0x1f && buffer[begin + 1] == 0x8b;
  }

  // 0 at the end.
  Result<std::size_t> copy_into(std::span<std::uint8_t> out) {
    if (begin == end) {
      const auto more = refill();
      if (!more) return tl::unexpected(more.error());
    }
    const std::size_t count = std::min(end - begin, out.size());
    std::copy_n(buffer.data() + begin, count, out.data());
    begin += count;
    return count;
  }

  // Calls inflate once on the buffered bytes and returns the number of bytes that it wrote. REQUIRES: if a member is done, the
  // next one begins in the buffer.
  Result<std::size_t> inflate_into(std::span<std::uint8_t> out) {
    if (is_damaged) return fail(ErrorKind::corrupt, "the gzip data is damaged", where, kFetchAgain);
    if (is_member_done) {
      inflateReset(&zlib);
      is_member_done = false;
    }
    if (begin == end) {
      const auto more = refill();
      if (!more) return tl::unexpected(more.error());
      if (!*more) return tl::unexpected(ends_early(where));
    }
    constexpr std::size_t kMaxOut = std::numeric_limits<unsigned>::max();
    const std::size_t room = std::min(out.size(), kMaxOut);
    zlib.next_in = buffer.data() + begin;
    zlib.avail_in = static_cast<unsigned>(end - begin);
    zlib.next_out = out.data();
    zlib.avail_out = static_cast<unsigned>(room);
    const int code = inflate(&zlib, Z_NO_FLUSH);
    begin = end - zlib.avail_in;
    if (code == Z_MEM_ERROR) {
      return fail(ErrorKind::out_of_memory, "no memory to unpack the file", where);
    }
    is_member_done = code == Z_STREAM_END;
    // The next call reports the error: the bytes written so far are good.
    is_damaged = !is_member_done && code != Z_OK && code != Z_BUF_ERROR;
    return room - zlib.avail_out;
  }

  tl::unexpected<Error> something_follows() const {
    return fail(ErrorKind::corrupt, "more bytes follow", where, kFetchAgain);
  }
};

Result<ByteStream> ByteStream::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  state->where = path.string();
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  state->file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!state->file.is_open()) {
    return tl::unexpected(system_error(errno, "cannot open", state->where));
  }
  struct stat status {};
  if (::fstat(state->file.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot read", state->where));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, "is not a regular file", state->where, "give a data file");
  }
  state->file_bytes = static_cast<std::uint64_t>(status.st_size);
  const auto is_gzip = state->starts_gzip_member();
  if (!is_gzip) return tl::unexpected(is_gzip.error());
  if (*is_gzip) {
    if (inflateInit2(&state->zlib, kGzipOnly) != Z_OK) {
      return fail(ErrorKind::out_of_memory, "no memory to unpack the file", state->where);
    }
    state->is_gzip = true;
  }
  return ByteStream(std::move(state));
}

ByteStream::ByteStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;

ByteStream::Outcome ByteStream::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto count = read_some(out.subspan(done));
    if (!count) return {done, count.error()};
    if (*count == 0) return {done, ends_early(state_->where)};
    done += *count;
  }
  return {done, std::nullopt};
}

Result<std::size_t> ByteStream::read_some(std::span<std::uint8_t> out) {
  State& state = *state_;
  if (!state.is_gzip || out.empty()) return state.copy_into(out);
  for (;;) {
    if (state.is_member_done) {
      const auto another = state.starts_gzip_member();
      if (!another) return tl::unexpected(another.error());
      if (!*another) return std::size_t{0};
    }
    const auto count = state.inflate_into(out);
    if (!count || *count > 0) return count;
  }
}

Result<void> ByteStream::expect_end() {
  State& state = *state_;
  std::uint8_t extra = 0;
  auto count = read_some({&extra, 1});
  if (!count) {
    if (count.error().what == kEnds) count.error().what = "the gzip checksum is missing";
    return tl::unexpected(count.error());
  }
  if (*count > 0) return state.something_follows();
  // Other bytes may follow a gzip stream.
  const auto more = state.begin == state.end ? state.refill() : Result<bool>(true);
  if (!more) return tl::unexpected(more.error());
  if (*more) return state.something_follows();
  return {};
}

std::uint64_t ByteStream::most_bytes() const {
  const std::uint64_t ratio = state_->is_gzip ? kMaxGzipRatio : 1;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return state_->file_bytes > kMax / ratio ? kMax : state_->file_bytes * ratio;
}

}  // namespace autotuned
