// SPDX-License-Identifier: Apache-2.0
// tar files made for a test, whole or broken.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace autotuned::input {

// A header with the right sum: of ustar, with the size in octal.
inline std::string tar_header(const std::string& name, std::size_t size, char type = '0',
                              const std::string& prefix = "") {
  std::string header(512, '\0');
  const auto put = [&header](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  char octal[16];
  std::snprintf(octal, sizeof octal, "%011zo", size);
  put(0, name);
  put(100, "0000644");
  put(124, octal);
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put(345, prefix);
  unsigned sum = 0;
  for (const char letter : header)
    sum += static_cast<unsigned char>(letter);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(148, octal);
  header[155] = ' ';
  return header;
}

// Up to the end of its last block.
inline std::string tar_member(const std::string& name, const std::string& content,
                              char type = '0') {
  const std::string member = tar_header(name, content.size(), type) + content;
  return member + std::string((512 - member.size() % 512) % 512, '\0');
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace autotuned::input
