// SPDX-License-Identifier: Apache-2.0
// What a fuzz target is: one function that takes any bytes and survives. The form is libFuzzer's, so
// that a target links either with it (preset `fuzz`, clang) or with driver.cpp (any compiler).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

// Always 0. Whatever is wrong must end the process: a sanitizer does, FUZZ_CHECK does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// What must hold for every input.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace autotuned::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file with these bytes, in memory; the same path every time, until the next call.
[[nodiscard]] std::filesystem::path file_with(std::string_view bytes);

}  // namespace autotuned::fuzz
