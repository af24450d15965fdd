// SPDX-License-Identifier: Apache-2.0
#include "storage/connection.hpp"

#include <sqlite3.h>

#include <array>
#include <thread>

#include "storage/location.hpp"
#include "storage/migrations.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kApplicationId =
    0x4174756E;  // "Atun"; file(1) and others read it at byte 68
constexpr const char* kOpening = "open the history";

enum class Schema { none, present };

// A URI that opens the file as it lies there: no locks, no write-ahead log, nothing made beside it.
std::string immutable_uri(const fs::path& file) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string uri = "file://";
  for (const char c : file.string()) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

bool has_log(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file.string() + "-wal", error);
  return !error && size > 0;
}

// Whether the database is ours and of a version that we know.
Result<Schema> check_identity(SQLite::Database& database, const fs::path& file) {
  const auto number = [&](const char* sql) { return database.execAndGet(sql).getInt64(); };
  // One transaction: between two statements another process may make the schema.
  SQLite::Transaction snapshot(database);
  const std::int64_t application = number("PRAGMA application_id");
  const std::int64_t version = number("PRAGMA user_version");
  const auto known = static_cast<std::int64_t>(migrations().size());
  if (application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema") == 0) {
    return Schema::none;
  }
  if (application != kApplicationId || version < 1) {
    return tl::unexpected(Error{ErrorKind::corrupt,
                                "this SQLite database is not a history of autotuned", file,
                                "choose another file with --history; this one was left as it is"});
  }
  if (version > known) {
    return fail(ErrorKind::newer_version,
                "the history has schema version " + std::to_string(version) +
                    ", this program knows versions up to " + std::to_string(known),
                file, "use the newer autotuned, or another file with --history");
  }
  return Schema::present;
}

// Refuses what is not ours before anything can touch it: an ordinary connection makes files beside
// it, and may move a log that another program left into it. Reading without locks can go wrong while
// somebody writes; then there is no answer here and check_identity() decides under a lock.
Result<void> check_untouched(const fs::path& file) {
  try {
    SQLite::Database database(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
    if (const auto schema = check_identity(database, file); !schema) {
      return tl::unexpected(schema.error());
    }
  } catch (const SQLite::Exception&) {
  }
  return {};
}

// SQLite does not wait for a lock when it changes the journal mode, which only the first start does.
void use_write_ahead_log(SQLite::Database& database, std::chrono::milliseconds lock_timeout) {
  const auto give_up = std::chrono::steady_clock::now() + lock_timeout;
  for (;;) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& exception) {
      if ((exception.getErrorCode() & 0xFF) != SQLITE_BUSY ||
          std::chrono::steady_clock::now() > give_up) {
        throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

Result<void> check_pragmas(SQLite::Database& database, std::chrono::milliseconds lock_timeout,
                           const fs::path& file) {
  struct Pragma {
    const char* name;
    std::string expected;
  };
  const std::array expected = {Pragma{"journal_mode", "wal"}, Pragma{"synchronous", "2"},
                               Pragma{"foreign_keys", "1"},
                               Pragma{"busy_timeout", std::to_string(lock_timeout.count())}};
  for (const Pragma& pragma : expected) {
    const std::string found = database.execAndGet(std::string("PRAGMA ") + pragma.name).getString();
    if (found != pragma.expected) {
      return fail(ErrorKind::unsupported,
                  std::string("SQLite answers ") + pragma.name + " = " + found + " instead of " +
                      pragma.expected + ", without which nothing can be promised",
                  file, "choose a file on a local disk with --history");
    }
  }
  return {};
}

// Brings the schema up to date, step by step. Another process may be doing the same.
Result<void> migrate(SQLite::Database& database, const fs::path& file) {
  const auto steps = migrations();
  for (;;) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    const std::int64_t version = database.execAndGet("PRAGMA user_version").getInt64();
    if (version >= static_cast<std::int64_t>(steps.size())) break;
    database.exec(steps[static_cast<std::size_t>(version)]);
    database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.exec("PRAGMA user_version = " + std::to_string(version + 1));
    transaction.commit();
  }
  // Whoever was faster may have been a newer program.
  const auto schema = check_identity(database, file);
  if (!schema) return tl::unexpected(schema.error());
  return {};
}

void checkpoint_on_close(SQLite::Database& database, bool is_wanted) {
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_wanted ? 0 : 1,
                    nullptr);
}

}  // namespace

Result<std::unique_ptr<History::Connection>> History::Connection::open(
    const fs::path& given, Access access, std::chrono::milliseconds lock_timeout) {
  auto connection = std::make_unique<Connection>();
  std::error_code error;
  connection->file = fs::absolute(given, error);
  const fs::path& file = connection->file;
  const bool is_writer = access == Access::read_write;

  if (given.empty() || fs::is_directory(file, error)) {
    return fail(ErrorKind::invalid, "the history must be a file", given, "name a file");
  }
  if (auto checked = check_file_system(file); !checked) return tl::unexpected(checked.error());
  if (is_writer) {
    if (auto made = make_file(file); !made) return tl::unexpected(made.error());
    if (auto checked = check_writable(file); !checked) return tl::unexpected(checked.error());
  } else if (!fs::exists(file, error)) {
    return fail(ErrorKind::not_found, "there is no history yet", file,
                "'autotuned run RECIPE' starts one");
  }
  if (auto checked = check_untouched(file); !checked) return tl::unexpected(checked.error());

  auto opened = connection->guard(kOpening, [&]() -> Result<void> {
    auto& database = connection->database;
    const int timeout_ms = static_cast<int>(lock_timeout.count());
    // Where nothing can be made beside the file, and no log is waiting, it is read as it lies there.
    // Otherwise readers open it for writing too: they clean up after a writer that was killed.
    if (!is_writer && !check_writable(file) && !has_log(file)) {
      database = std::make_unique<SQLite::Database>(
          immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI, timeout_ms);
    } else {
      database =
          std::make_unique<SQLite::Database>(file.string(), SQLite::OPEN_READWRITE, timeout_ms);
    }
    checkpoint_on_close(*database, false);
    const auto schema = check_identity(*database, file);
    if (!schema) return tl::unexpected(schema.error());
    if (!is_writer) {
      if (*schema == Schema::none) {
        return fail(ErrorKind::not_found, "the history is empty", file,
                    "'autotuned run RECIPE' starts one");
      }
      database->exec("PRAGMA query_only = ON");
    } else {
      use_write_ahead_log(*database, lock_timeout);
      database->exec("PRAGMA synchronous = FULL");
      database->exec("PRAGMA foreign_keys = ON");
      if (auto checked = check_pragmas(*database, lock_timeout, file); !checked) return checked;
      if (auto migrated = migrate(*database, file); !migrated) return migrated;
    }
    checkpoint_on_close(*database, true);
    return {};
  });
  if (!opened) return tl::unexpected(opened.error());
  return connection;
}

}  // namespace autotuned::storage
