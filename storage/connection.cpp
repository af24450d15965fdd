// SPDX-License-Identifier: Apache-2.0
#include "storage/connection.hpp"

#include <sqlite3.h>

#include <array>
#include <set>
#include <thread>
#include <utility>

#include "storage/location.hpp"
#include "storage/migrations.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;

// "Atun", which marks our files at byte 68.
constexpr std::int64_t kApplicationId = 0x4174756E;

bool has_log(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file.string() + "-wal", error);
  return !error && size > 0;
}

// Whether a log is there, perhaps an empty one. Every connection makes one with its first access, and the last removes it.
bool is_log_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file.string() + "-wal", error) || error;
}

// How a connection shares the file with others.
enum class Sharing {
  with_others,  // by files beside the history
  alone,        // its locks keep others out, and it needs no file but the log, which it only reads
  as_it_is,     // without locks: immutable_uri()
};

// Whether a reader may have failed because there was no room for the files beside the history. SQLite does not always say so.
bool may_lack_room(const Error& error) {
  return error.kind == ErrorKind::disk_full || error.kind == ErrorKind::io;
}

// Whether the schema has a view, a virtual table or a trigger, which no version of this program makes. A view may have the name of one
// of our tables, and reading it may never end. A trigger would run when we write.
bool has_other_than_tables(SQLite::Database& database) {
  // The SQL text decides, because it makes the object, and the type beside it may be wrong. An index of a constraint has no text.
  return database
             .execAndGet(
                 "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR "
                 "(sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %'"
                 " AND sql NOT LIKE 'CREATE UNIQUE INDEX %')")
             .getInt64() != 0;
}

// A foreign schema must not run code: no triggers and views, also if they are made while the history is open; no functions with side
// effects in the expression of an index; and no changes of the schema's own tables.
void distrust_schema(SQLite::Database& database) {
  for (const auto& [setting, value] :
       {std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}, std::pair{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        std::pair{SQLITE_DBCONFIG_ENABLE_VIEW, 0}, std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}}) {
    sqlite3_db_config(database.getHandle(), setting, value, nullptr);
  }
}

// Returns the schema version; 0 for an empty database. Fails if the database is not ours, or of a newer version.
Result<std::int64_t> stored_version(SQLite::Database& database, const fs::path& file) {
  const auto number = [&](const char* sql) { return database.execAndGet(sql).getInt64(); };
  // In one transaction, because another process may make the schema between two statements.
  const SQLite::Transaction snapshot(database);
  const std::int64_t application = number("PRAGMA application_id");
  const std::int64_t version = number("PRAGMA user_version");
  const auto known = static_cast<std::int64_t>(migrations().size());
  if (application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema") == 0) {
    return 0;
  }
  if (application != kApplicationId || version < 1) {
    return tl::unexpected(foreign_error(file));
  }
  if (version > known) {
    return fail(ErrorKind::newer_version,
                "the history has schema version " + std::to_string(version) +
                    ", this program knows versions up to " + std::to_string(known),
                file, "use the newer autotuned, or another file with --history");
  }
  if (has_other_than_tables(database)) return tl::unexpected(foreign_error(file));
  return version;
}

// Refuses a file that is not ours before anything changes it: an ordinary connection makes files beside it, and may move a log that
// another program left into it. Reading without locks can fail while another process writes. Then this returns no error, and
// stored_version() decides under a lock.
Result<void> check_untouched(const fs::path& file) {
  try {
    if (const auto opened = open_as_it_is(file); !opened) return forward_error(opened);
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
                      pragma.expected + ", so a power cut could lose what was stored",
                  file, "choose a file on a local disk with --history");
    }
  }
  return {};
}

void checkpoint_on_close(SQLite::Database& database, bool is_wanted) {
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_wanted ? 0 : 1,
                    nullptr);
}

// All checks of the file that are possible before a connection may change something.
Result<void> check_place(const fs::path& file, bool is_writer) {
  std::error_code error;
  if (!file.has_filename() || fs::is_directory(file, error)) {
    return fail(ErrorKind::invalid, "the history must be a file", file, "name a file");
  }
  // Opening a named pipe would wait for its other end.
  if (const auto status = fs::status(file, error);
      fs::exists(status) && !fs::is_regular_file(status)) {
    return fail(ErrorKind::invalid, "the history is not a regular file", file, "name a file");
  }
  // Before it is opened: that would drop the locks that a connection of this process holds on the file of another history.
  if (auto checked = check_no_side_file(file); !checked) return checked;
  if (auto checked = check_file_system(file); !checked) return checked;
  if (is_writer) {
    if (auto made = make_file(file); !made) return made;
    if (auto checked = check_writable(file); !checked) return checked;
  } else if (auto checked = check_readable(file); !checked) {
    return checked;
  }
  return check_untouched(file);
}

Result<void> set_up_writer(SQLite::Database& database, std::chrono::milliseconds lock_timeout,
                           const fs::path& file) {
  use_write_ahead_log(database, lock_timeout);
  database.exec("PRAGMA synchronous = FULL");
  database.exec("PRAGMA foreign_keys = ON");
  if (auto checked = check_pragmas(database, lock_timeout, file); !checked) return checked;
  return migrate(database, file);
}

Result<void> set_up_reader(SQLite::Database& database, std::int64_t version, const fs::path& file) {
  if (version == 0) {
    return fail(ErrorKind::not_found, "the history is empty", file,
                "'autotuned run FILE' starts one");
  }
  database.exec("PRAGMA query_only = ON");
  return {};
}

}  // namespace

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

Result<std::unique_ptr<SQLite::Database>> open_as_it_is(const fs::path& file) {
  constexpr std::uintmax_t kSmallestPage = 512;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  // SQLite takes a file of one byte for an empty one, and would write over it.
  if (!error && size > 0 && size < kSmallestPage) {
    return tl::unexpected(corrupt_error("the file is not a database: it is too short", file));
  }
  auto database = std::make_unique<SQLite::Database>(immutable_uri(file),
                                                     SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  distrust_schema(*database);
  if (const auto version = stored_version(*database, file); !version) {
    return tl::unexpected(version.error());
  }
  return database;
}

Result<void> migrate(SQLite::Database& database, const fs::path& file) {
  const auto steps = migrations();
  for (;;) {
    // The version is read before the lock is taken, because nearly every start finds the schema up to date.
    const auto version = stored_version(database, file);
    if (!version) return tl::unexpected(version.error());
    if (*version == static_cast<std::int64_t>(steps.size())) return {};

    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    if (database.execAndGet("PRAGMA user_version").getInt64() != *version) continue;
    database.exec(steps[static_cast<std::size_t>(*version)]);
    database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.exec("PRAGMA user_version = " + std::to_string(*version + 1));
    transaction.commit();
  }
}

Integrity integrity_of(const SQLite::Database& database) {
  Integrity found;
  const auto add = [&found](const std::string& line) {
    found.damage += (found.damage.empty() ? "" : "\n") + line;
  };
  // One damaged page causes a hundred lines about the pages behind it.
  SQLite::Statement pages(database, "PRAGMA integrity_check(3)");
  try {
    while (pages.executeStep())
      add(pages.getColumn(0).getString());
  } catch (const SQLite::Exception& error) {
    // The check of rows comes after that of pages, and stops at a damaged page.
    if (error.getErrorCode() != SQLITE_CORRUPT) throw;
    add(error.what());
  }
  // References cannot be followed there.
  if (found.damage != "ok") return found;
  found.damage.clear();
  std::set<std::string> told;
  SQLite::Statement references(database, "PRAGMA foreign_key_check");
  while (references.executeStep()) {
    const std::string line = "a row of " + references.getColumn(0).getString() +
                             " refers to a missing row of " + references.getColumn(2).getString();
    if (told.insert(line).second) found.missing_references.push_back(line);
  }
  return found;
}

Error foreign_error(const fs::path& file) {
  return Error{ErrorKind::corrupt, "this SQLite database is not a history of autotuned",
               file.string(), "choose another file with --history; this one was left as it is"};
}

Error gone_error(const fs::path& file) {
  return Error{ErrorKind::io,
               "the history was deleted or moved while this program used it: nothing more can be "
               "stored",
               file.string(),
               "put it back and give the same command again; without it the command begins anew"};
}

bool History::Connection::is_gone() const {
  int has_moved = 0;
  return database &&
         sqlite3_file_control(database->getHandle(), nullptr, SQLITE_FCNTL_HAS_MOVED, &has_moved) ==
             SQLITE_OK &&
         has_moved != 0;
}

Result<std::unique_ptr<History::Connection>> History::Connection::open(
    const fs::path& given, Access access, std::chrono::milliseconds lock_timeout) {
  auto connection = std::make_unique<Connection>();
  std::error_code error;
  const fs::path file = connection->file = fs::absolute(given, error);
  const bool is_writer = access == Access::read_write;
  if (auto checked = check_place(file, is_writer); !checked) {
    return tl::unexpected(checked.error());
  }

  const auto open_with = [&](Sharing sharing) -> Result<void> {
    const bool is_immutable = sharing == Sharing::as_it_is;
    connection->database.reset();  // with its locks, if an earlier attempt failed
    return connection->guard("open the history", [&]() -> Result<void> {
      connection->database = std::make_unique<SQLite::Database>(
          is_immutable ? immutable_uri(file) : file.string(),
          is_immutable ? SQLite::OPEN_READONLY | SQLite::OPEN_URI : SQLite::OPEN_READWRITE,
          static_cast<int>(lock_timeout.count()));
      SQLite::Database& sqlite = *connection->database;
      distrust_schema(sqlite);
      // If the file is not ours, closing it must not move its log.
      checkpoint_on_close(sqlite, false);
      // Before the first access, so that SQLite keeps its index of the log in memory of its own instead of a file.
      if (sharing == Sharing::alone) sqlite.exec("PRAGMA locking_mode = EXCLUSIVE");
      const auto version = stored_version(sqlite, file);
      if (!version) return tl::unexpected(version.error());
      connection->schema_version =
          is_writer ? static_cast<std::int64_t>(migrations().size()) : *version;
      auto ready = is_writer ? set_up_writer(sqlite, lock_timeout, file)
                             : set_up_reader(sqlite, *version, file);
      // On a full disk the log stays where it is, for a connection that has room.
      const bool is_kept = sharing == Sharing::alone && has_log(file);
      checkpoint_on_close(sqlite, ready.has_value() && !is_kept);
      return ready;
    });
  };

  // If no file can be made beside the history and it has no log, it is read as it is. Otherwise readers open it for writing, too,
  // because they clean up after a writer that was killed.
  const bool is_writable = is_writer || check_writable(file).has_value();
  auto opened = open_with(is_writable || has_log(file) ? Sharing::with_others : Sharing::as_it_is);
  if (opened) return connection;
  if (!is_writer && is_writable && may_lack_room(opened.error())) {
    if (open_with(Sharing::alone)) return connection;
    // Not even an empty log could be made. So nobody has one, and without one nobody can write.
    if (!is_log_there(file) && open_with(Sharing::as_it_is)) return connection;
  }
  if (!is_writable && opened.error().kind == ErrorKind::io) {
    return fail(ErrorKind::permission,
                "the program that wrote the history was killed, and its recovery needs "
                "permission to write",
                file, "run 'autotuned history' once as the owner of the file");
  }
  return tl::unexpected(opened.error());
}

}  // namespace autotuned::storage
