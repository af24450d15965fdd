// SPDX-License-Identifier: Apache-2.0
// SHA-256, for identities: recipes, configurations, plugins, parameters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace autotuned {

// Computes SHA-256 of data that comes in parts. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // 64 lower-case hexadecimal digits. The object must not be used afterwards.
  [[nodiscard]] std::string finish();
  // The same digest in base64 (44 characters), the form of a Content-Security-Policy.
  [[nodiscard]] std::string finish_base64();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Both return 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::string_view text);
[[nodiscard]] Result<std::string> sha256_hex_of_file(const std::filesystem::path& file);

}  // namespace autotuned
