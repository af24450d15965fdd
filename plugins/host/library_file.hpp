// SPDX-License-Identifier: Apache-2.0
// Checks a shared library and reads what it exports from the file, before any of its code runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace autotuned::plugins {

// Ok for a complete shared library of this architecture. Everything that its headers point to must lie in the file:
// code that reads symbols trusts those sizes, and reading a mapped, truncated file ends in SIGBUS. Errors say what the
// file is and what was expected.
[[nodiscard]] Result<void> check_library_file(const std::filesystem::path& file);

// Whether a library exports the pointer `alias`, whose last character is the major version that this
// program speaks. REQUIRES: check_library_file(file).
[[nodiscard]] Result<void> check_alias(const std::filesystem::path& file, const std::string& alias);

enum class FieldType { number, text, function };

// One field of a descriptor, as it will be in memory unless code of the library changes it.
struct DescriptorField {
  std::uint64_t number = 0;  // of a number
  bool is_set = false;       // of a text or function: not NULL
  std::string text;          // empty when it does not lie in this library
};

// The fields, 8 bytes each, of the descriptor whose address `alias` holds. They are the file's data with
// the addresses in its tables of relocations; what only code would fill in reads as zero or not set.
// ErrorKind::invalid: the alias holds no address in the library. REQUIRES: check_alias(file, alias).
[[nodiscard]] Result<std::vector<DescriptorField>> read_descriptor(
    const std::filesystem::path& file, const std::string& alias, std::span<const FieldType> fields);

// The text in the section of that name up to its first NUL, at most 1 MiB; empty where there is no such
// section. REQUIRES: check_library_file(file).
[[nodiscard]] Result<std::string> read_section(const std::filesystem::path& file,
                                               std::string_view name);

}  // namespace autotuned::plugins
