// SPDX-License-Identifier: Apache-2.0
#include "storage/sql.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "recipes/knobs.hpp"

namespace autotuned::storage {
namespace {

void bind(SQLite::Statement& statement, int index, const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    statement.bind(index, *number);
  } else if (const auto* ratio = std::get_if<double>(&value)) {
    statement.bind(index, *ratio);
  } else if (const auto* words = std::get_if<std::string>(&value)) {
    statement.bind(index, *words);
  } else {
    statement.bind(index);
  }
}

std::string columns_of(const Fields& fields) {
  std::string columns;
  for (const Field& field : fields)
    columns.append(columns.empty() ? "" : ", ").append(field.column);
  return columns;
}

std::string insert_sql(const std::string& table, const Fields& fields) {
  std::string marks = "?";
  for (std::size_t i = 1; i < fields.size(); ++i)
    marks += ", ?";
  return "INSERT INTO " + table + " (" + columns_of(fields) + ") VALUES (" + marks + ")";
}

std::vector<Value> values_of(const Fields& fields) {
  std::vector<Value> values;
  values.reserve(fields.size());
  for (const Field& field : fields)
    values.push_back(field.value);
  return values;
}

bool is_out_of_space(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

ErrorKind kind_of(int code, int extended_code, int error_number) {
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::busy;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return ErrorKind::permission;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorKind::corrupt;
    case SQLITE_FULL:
      return ErrorKind::disk_full;
    case SQLITE_NOMEM:
      return ErrorKind::out_of_memory;
    case SQLITE_CANTOPEN:
      return error_number == EACCES || error_number == EPERM || error_number == EROFS
                 ? ErrorKind::permission
                 : ErrorKind::io;
    case SQLITE_IOERR:
      if (extended_code == SQLITE_IOERR_CORRUPTFS) return ErrorKind::corrupt;
      if (extended_code == SQLITE_IOERR_NOMEM) return ErrorKind::out_of_memory;
      return is_out_of_space(error_number) ? ErrorKind::disk_full : ErrorKind::io;
    case SQLITE_CONSTRAINT:
      return extended_code == SQLITE_CONSTRAINT_FOREIGNKEY ? ErrorKind::not_found
                                                           : ErrorKind::invalid;
    case SQLITE_TOOBIG:
      return ErrorKind::invalid;
    default:
      return ErrorKind::internal;
  }
}

const char* remedy_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::busy:
      return "another program holds the file: wait for it or end it ('fuser FILE' names it)";
    case ErrorKind::permission:
      return "check owner and mode, or choose another file with --history";
    case ErrorKind::corrupt:
      return "move the file away or name another with --history to start a new one; 'sqlite3 FILE "
             ".recover' may save its rows";
    case ErrorKind::disk_full:
      return "free space on its file system, then run the same command again";
    default:
      return "";
  }
}

}  // namespace

Value real(double value) {
  if (std::isnan(value)) return std::monostate{};
  return value;
}

Value json_text(const Json& value) {
  return to_line(value);
}

SQLite::Statement prepare(const SQLite::Database& database, const std::string& sql,
                          const std::vector<Value>& values) {
  SQLite::Statement statement(database, sql);
  int index = 0;
  for (const Value& value : values)
    bind(statement, ++index, value);
  return statement;
}

void insert(SQLite::Database& database, const std::string& table, const Fields& fields) {
  prepare(database, insert_sql(table, fields), values_of(fields)).exec();
}

void upsert(SQLite::Database& database, const std::string& table, const std::string& keys,
            const Fields& fields) {
  std::string sql = insert_sql(table, fields) + " ON CONFLICT (" + keys + ") DO UPDATE SET ";
  for (const Field& field : fields) {
    if (&field != &fields.front()) sql += ", ";
    sql += std::string(field.column) + " = excluded." + field.column;
  }
  prepare(database, sql, values_of(fields)).exec();
}

int update(SQLite::Database& database, const std::string& table, const Fields& fields,
           const std::string& where, const std::vector<Value>& where_values) {
  std::string sql = "UPDATE " + table + " SET ";
  for (const Field& field : fields) {
    if (&field != &fields.front()) sql += ", ";
    sql += std::string(field.column) + " = ?";
  }
  std::vector<Value> values = values_of(fields);
  values.insert(values.end(), where_values.begin(), where_values.end());
  return prepare(database, sql + " WHERE " + where, values).exec();
}

Result<Configuration> configuration_from(const Json& value) {
  auto configuration = Configuration::from_json(value);
  if (!configuration) return configuration;
  if (auto checked = recipes::check_types(*configuration); !checked)
    return tl::unexpected(checked.error());
  return configuration;
}

SQLite::Column Row::column(const char* name, int type) const {
  SQLite::Column found = statement_.getColumn(name);
  if (found.getType() != type) damaged(name, "the value has another type");
  return found;
}

void Row::damaged(const char* column, const std::string& what) const {
  throw DamagedRow(std::string("column ") + column + ": " + what);
}

bool Row::has(const char* name) const {
  for (int i = 0; i < statement_.getColumnCount(); ++i) {
    if (std::string_view(statement_.getColumnName(i)) == name) return true;
  }
  return false;
}

std::int64_t Row::integer(const char* name) const {
  return column(name, SQLITE_INTEGER).getInt64();
}

int Row::small_integer(const char* name) const {
  const std::int64_t value = integer(name);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    damaged(name, std::to_string(value) + " is out of range");
  }
  return static_cast<int>(value);
}

double Row::real(const char* name) const {
  if (is_null(name)) return std::numeric_limits<double>::quiet_NaN();
  return column(name, SQLITE_FLOAT).getDouble();
}

std::string Row::text(const char* name) const {
  return column(name, SQLITE_TEXT).getString();
}

bool Row::is_null(const char* name) const {
  return statement_.getColumn(name).isNull();
}

Json Row::json(const char* name) const {
  auto value = parse_json(text(name), name);
  if (!value) damaged(name, value.error().message());
  return *std::move(value);
}

Configuration Row::configuration(const char* name) const {
  auto value = configuration_from(json(name));
  if (!value) damaged(name, value.error().message());
  return *std::move(value);
}

std::string Row::key() const {
  using Names = std::vector<const char*>;
  const Names names = has("run_id")
                          ? Names{"run_id",       "trial_number", "number",          "pair",
                                  "is_candidate", "recipe_hash",  "environment_key", "sequence"}
                          : Names{"id", "key"};
  std::string key;
  for (const char* name : names) {
    if (!has(name)) continue;
    key += (key.empty() ? "" : ", ") + std::string(name) + " " +
           statement_.getColumn(name).getString();
  }
  return key;
}

void UnreadableRows::leave_out(const char* table, const Row& row, const DamagedRow& damage,
                               const std::string& file) {
  const std::string key = row.key();
  if (!told_.insert(std::string(table) + " " + key).second || !tell_) return;
  tell_("a row of the history " + file + " cannot be read and is left out (table " + table + ", " +
        key + "): " + damage.what());
}

Error sql_error(const SQLite::Exception& exception, sqlite3* handle, std::string_view doing,
                const std::string& file) {
  const int last_error = errno;
  const int extended_code = exception.getExtendedErrorCode();
  const int code = exception.getErrorCode() & 0xFF;
  const bool has_system_error = code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
  int error_number = handle != nullptr && has_system_error ? sqlite3_system_errno(handle) : 0;
  // SQLite gives no reason for a failed COMMIT.
  if (has_system_error && error_number == 0 && is_out_of_space(last_error)) {
    error_number = last_error;
  }
  const ErrorKind kind = kind_of(code, extended_code, error_number);

  std::string what = "cannot " + std::string(doing) + ": " + exception.what();
  if (error_number != 0) what += " (" + system_error(error_number, "").what + ")";
  return Error{kind, std::move(what), file, remedy_of(kind)};
}

Error corrupt_error(std::string what, const std::string& file) {
  return Error{ErrorKind::corrupt, std::move(what), file, remedy_of(ErrorKind::corrupt)};
}

}  // namespace autotuned::storage
