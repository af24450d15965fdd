// SPDX-License-Identifier: Apache-2.0
// A trace as any program sees it that knows nothing of this one.
#pragma once

#include <zlib.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/json.hpp"

namespace autotuned {

// Throws where the file holds no JSON.
inline Json read_packed_json(const std::filesystem::path& file) {
  std::string text;
  gzFile opened = gzopen(file.c_str(), "rb");
  std::array<char, 4096> part{};
  for (int count = 0; (count = gzread(opened, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  gzclose(opened);
  return Json::parse(text);
}

}  // namespace autotuned
