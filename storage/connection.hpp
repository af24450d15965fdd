// SPDX-License-Identifier: Apache-2.0
// An open history: the database with its pragmas, and the functions that turn exceptions into errors.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "storage/history.hpp"
#include "storage/sql.hpp"

namespace autotuned::storage {

// Returns a URI that opens a file read-only as it is: no locks, no write-ahead log, no new file beside it.
[[nodiscard]] std::string immutable_uri(const std::filesystem::path& file);

// Opens a history as immutable_uri() does; also an empty database. Errors: `corrupt` for a file of another program, newer_version.
// Throws the exceptions of SQLite.
[[nodiscard]] Result<std::unique_ptr<SQLite::Database>> open_as_it_is(
    const std::filesystem::path& file);

// Returns the findings of SQLite's checks of pages and references.
[[nodiscard]] Integrity integrity_of(const SQLite::Database& database);

// Brings the schema of a history up to date, step by step. Another process may do the same at the same time. `file`: for messages.
[[nodiscard]] Result<void> migrate(SQLite::Database& database, const std::filesystem::path& file);

// The error for a database that another program made.
[[nodiscard]] Error foreign_error(const std::filesystem::path& file);

// The error for a history whose file was deleted or moved while it was open.
[[nodiscard]] Error gone_error(const std::filesystem::path& file);

struct History::Connection {
  std::filesystem::path file;       // absolute
  std::int64_t schema_version = 0;  // an earlier one than this program's is only read
  // SQLite keeps its address, so it is declared before the database and destroyed after it.
  LockPatience patience;
  std::unique_ptr<SQLite::Database> database;
  UnreadableRows unreadable;

  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(
      const std::filesystem::path& file, Access access, std::chrono::milliseconds lock_timeout);

  // Whether the file was deleted or moved since it was opened. Data that is written to a deleted file is lost when the last process
  // closes it.
  [[nodiscard]] bool is_gone() const;

  // Runs `work()`, which returns a Result. Turns its exceptions into an Error whose text begins with "cannot " and `doing`.
  template <class Work>
  auto guard(std::string_view doing, Work work) const -> decltype(work()) {
    errno = 0;
    try {
      return work();
    } catch (const SQLite::Exception& exception) {
      return tl::unexpected(
          sql_error(exception, database ? database->getHandle() : nullptr, doing, file));
    } catch (const DamagedRow& row) {
      return tl::unexpected(
          corrupt_error("cannot " + std::string(doing) + ": " + row.what(), file));
    } catch (const std::bad_alloc&) {
      return fail(ErrorKind::out_of_memory, "cannot " + std::string(doing), file);
    }
  }

  template <class Work>
  auto read(std::string_view doing, Work work) const -> decltype(work(*database)) {
    return guard(doing, [&] { return work(*database); });
  }

  // Runs `work` in one transaction. After an error nothing is stored.
  template <class Work>
  auto write(std::string_view doing, Work work) -> decltype(work(*database)) {
    return read(doing, [&](SQLite::Database& open) -> decltype(work(open)) {
      if (is_gone()) return tl::unexpected(gone_error(file));
      // IMMEDIATE, because a read lock that wants to become a write lock cannot wait for another one.
      SQLite::Transaction transaction(open, SQLite::TransactionBehavior::IMMEDIATE);
      auto outcome = work(open);
      if (outcome) transaction.commit();
      return outcome;
    });
  }
};

}  // namespace autotuned::storage
