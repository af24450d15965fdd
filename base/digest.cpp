// SPDX-License-Identifier: Apache-2.0
#include "base/digest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/descriptor.hpp"
#include "base/sha256_blocks.hpp"

namespace autotuned {

namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthBytes = 8;  // at the end of the last block

}  // namespace

// FIPS 180-4.
struct Sha256::State {
  std::array<std::uint32_t, 8> words = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, kBlockBytes> rest{};  // what does not fill a block yet
  std::uint64_t bytes = 0;
  Sha256Blocks take =
      sha256_blocks_of_cpu() != nullptr ? sha256_blocks_of_cpu() : sha256_blocks_plain;

  void add(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t waiting = bytes % kBlockBytes;
    bytes += size;
    if (waiting > 0) {
      const std::size_t taken = std::min(size, kBlockBytes - waiting);
      std::memcpy(rest.data() + waiting, data, taken);
      if (waiting + taken < kBlockBytes) return;
      take(words.data(), rest.data(), 1);
      data += taken;
      size -= taken;
    }
    take(words.data(), data, size / kBlockBytes);
    std::memcpy(rest.data(), data + size / kBlockBytes * kBlockBytes, size % kBlockBytes);
  }

  void pad() {
    const std::uint64_t bits = bytes * 8;
    // A one, as many zeros as it takes, and the length.
    const std::size_t waiting = bytes % kBlockBytes;
    const std::size_t blocks = waiting < kBlockBytes - kLengthBytes ? 1 : 2;
    std::array<std::uint8_t, 2 * kBlockBytes> end{};
    const std::size_t size = blocks * kBlockBytes - waiting;
    end[0] = 0x80;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      end[size - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
    add(end.data(), size);
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  assert(state_ != nullptr);
  state_->add(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Sha256::finish() {
  assert(state_ != nullptr);
  state_->pad();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(state_->words.size() * 8);
  for (const std::uint32_t word : state_->words) {
    for (unsigned shift = 32; shift > 0; shift -= 4)
      text += kDigits[(word >> (shift - 4)) & 15U];
  }
  state_.reset();
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 digest;
  digest.update(text);
  return digest.finish();
}

Result<std::string> sha256_hex_of_file(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!input.is_open() || ::fstat(input.get(), &status) != 0) {
    return tl::unexpected(system_error(errno, "cannot open the file", file.string()));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::invalid, "it is not a regular file", file.string());
  }
  Sha256 digest;
  std::vector<std::byte> buffer(std::size_t{256} << 10U);
  while (true) {
    const ssize_t count = ::read(input.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(system_error(errno, "cannot read", file.string()));
    if (count == 0) return digest.finish();
    digest.update(std::span<const std::byte>(buffer.data(), static_cast<std::size_t>(count)));
  }
}

}  // namespace autotuned
