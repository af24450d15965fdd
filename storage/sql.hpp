// SPDX-License-Identifier: Apache-2.0
// Rows as lists of named fields, and exceptions of SQLite as errors. For storage/ only: functions here throw
// SQLite::Exception and DamagedRow, which Connection (connection.hpp) catches.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::storage {

// A value of a column; monostate is NULL.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;

// NaN becomes NULL, so that a value that could not be measured does not prevent the row from being stored.
[[nodiscard]] Value real(double value);
[[nodiscard]] inline Value integer(std::int64_t value) {
  return value;
}
[[nodiscard]] inline Value boolean(bool value) {
  return std::int64_t{value};
}
[[nodiscard]] inline Value text(std::string_view value) {
  return std::string(value);
}
[[nodiscard]] Value json_text(const Json& value);

// A column and its value.
struct Field {
  const char* column;
  Value value;
};
using Fields = std::vector<Field>;

// Returns a statement whose parameters have `values`, in order.
[[nodiscard]] SQLite::Statement prepare(const SQLite::Database& database, const std::string& sql,
                                        const std::vector<Value>& values);

void insert(SQLite::Database& database, const std::string& table, const Fields& fields);
// Inserts, or updates the row with the same values in `keys` (a unique constraint, "a, b").
void upsert(SQLite::Database& database, const std::string& table, const std::string& keys,
            const Fields& fields);
// Returns the number of rows that matched `where` (with parameters, such as "id = ?").
int update(SQLite::Database& database, const std::string& table, const Fields& fields,
           const std::string& where, const std::vector<Value>& where_values);

// Reads a stored configuration. ErrorKind::invalid if a knob of this version has a value that none of its readers expects
// (recipes::check_types()).
[[nodiscard]] Result<Configuration> configuration_from(const Json& value);

// Thrown for a stored value that this program could not have written.
class DamagedRow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The current row of a statement, by column name. Throws DamagedRow for a column that is missing, has another
// type or an invalid value (JSON, a name).
class Row {
 public:
  explicit Row(const SQLite::Statement& statement) : statement_(statement) {}

  [[nodiscard]] bool has(const char* column) const;
  [[nodiscard]] std::int64_t integer(const char* column) const;
  [[nodiscard]] int small_integer(const char* column) const;
  [[nodiscard]] bool boolean(const char* column) const { return integer(column) != 0; }
  [[nodiscard]] double real(const char* column) const;  // NULL is NaN
  [[nodiscard]] std::string text(const char* column) const;
  [[nodiscard]] bool is_null(const char* column) const;
  [[nodiscard]] Json json(const char* column) const;
  [[nodiscard]] Configuration configuration(const char* column) const;
  // Returns the columns that identify this row: "run_id r-20261123-0677b5, number 3".
  [[nodiscard]] std::string key() const;

  // Returns a stored name, converted by its `..._from` function.
  template <class Enumeration>
  [[nodiscard]] Enumeration name(const char* column,
                                 std::optional<Enumeration> (*from)(std::string_view)) const {
    const std::string stored = text(column);
    if (const auto known = from(stored)) return *known;
    damaged(column, "'" + stored + "' is not a known name");
  }

 private:
  [[nodiscard]] SQLite::Column column(const char* name, int type) const;
  [[noreturn]] void damaged(const char* column, const std::string& what) const;

  const SQLite::Statement& statement_;
};

// Reports the unreadable rows that lists leave out.
class UnreadableRows {
 public:
  // Called with one sentence for each such row.
  void tell_to(std::function<void(const std::string&)> tell) { tell_ = std::move(tell); }
  // Reports a row once, however often it is read.
  void leave_out(const char* table, const Row& row, const DamagedRow& damage,
                 const std::string& file);

 private:
  std::function<void(const std::string&)> tell_;
  std::set<std::string> told_;
};

// The error that SQLite reported while `doing` ("store a block") to the database `file`. `handle` may be
// null. REQUIRES: errno was 0 before the operation and is unchanged since its end.
[[nodiscard]] Error sql_error(const SQLite::Exception& exception, sqlite3* handle,
                              std::string_view doing, const std::string& file);
// The error for a file whose content is not, or no longer, valid.
[[nodiscard]] Error corrupt_error(std::string what, const std::string& file);

}  // namespace autotuned::storage
