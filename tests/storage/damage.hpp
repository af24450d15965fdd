// SPDX-License-Identifier: Apache-2.0
// A history on a disk with a bad sector: one page of one table holds other bytes.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace autotuned::storage {

// The bytes of the file after its first page of `table` was overwritten. Rows of other tables can still be read.
// No program may have the file open. Throws where that cannot be done.
inline std::string damage_table(const std::filesystem::path& file, const std::string& table) {
  std::size_t page = 0;
  sqlite3* database = nullptr;
  const auto take_page = [](void* found, int /*columns*/, char** texts, char** /*names*/) {
    *static_cast<std::size_t*>(found) = std::stoul(texts[0]);
    return 0;
  };
  const std::string question = "SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'";
  const bool is_known =
      sqlite3_open(file.c_str(), &database) == SQLITE_OK &&
      sqlite3_exec(database, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr) ==
          SQLITE_OK &&
      sqlite3_exec(database, question.c_str(), take_page, &page, nullptr) == SQLITE_OK;
  sqlite3_close(database);
  constexpr std::size_t kPageBytes = 4096;
  std::ifstream input(file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(input), {});
  if (!is_known || page == 0 || bytes.size() < page * kPageBytes) {
    throw std::runtime_error("no page of " + table + " in " + file.string());
  }
  bytes.replace((page - 1) * kPageBytes, kPageBytes, std::string(kPageBytes, '\x7f'));
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  return bytes;
}

}  // namespace autotuned::storage
