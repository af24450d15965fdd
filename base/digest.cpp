// SPDX-License-Identifier: Apache-2.0
#include "base/digest.hpp"

#include <fcntl.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <vector>

#include "base/descriptor.hpp"

namespace autotuned {

struct Sha256::State {
  sha256_ctx context{};

  std::array<std::uint8_t, SHA256_DIGEST_SIZE> finish();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  sha256_init(&state_->context);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  assert(state_ != nullptr);
  sha256_update(&state_->context, bytes.size(),
                reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::array<std::uint8_t, SHA256_DIGEST_SIZE> Sha256::State::finish() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context, digest.size(), digest.data());
  return digest;
}

std::string Sha256::finish() {
  assert(state_ != nullptr);
  const auto digest = state_->finish();
  state_.reset();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(digest.size() * 2);
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string Sha256::finish_base64() {
  assert(state_ != nullptr);
  const auto digest = state_->finish();
  state_.reset();
  std::string text(BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE), '\0');
  base64_encode_raw(text.data(), digest.size(), digest.data());
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
