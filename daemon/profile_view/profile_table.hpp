// SPDX-License-Identifier: Apache-2.0
// A table of figures that the terminal, JSON and the page of a profile all show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.hpp"

namespace autotuned::daemon {

enum class Unit {
  text,
  count,
  time,
  bytes,
  ratio,
  change,  // growth as a share of before; not known: there was nothing before
  number
};

struct Column {
  const char* key;  // "host_self"; in JSON with its unit: "host_self_us"
  const char* heading;
  Unit unit;
};

// A figure that is not known, a text, or a number: nanoseconds, bytes, or a share of 1.
using Cell = std::variant<std::monostate, std::string, double>;

struct Table {
  std::string id;     // "operators"
  std::string title;  // for people
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string when_empty;  // what to say where there are no rows
};

[[nodiscard]] inline Cell number_cell(std::int64_t value) {
  return static_cast<double>(value);
}

// Sorts the rows: numbers with the largest first, texts from A to Z, unknown values last. `column` is a key or a
// heading. Returns false, and changes nothing, if the table has no such column.
[[nodiscard]] bool sort_by(Table& table, std::string_view column);

// Title, heading and at most `top` rows (0: all).
[[nodiscard]] std::string to_text(const Table& table, std::size_t top);

// A list of objects, at most `top` (0: all).
[[nodiscard]] Json rows_json(const Table& table, std::size_t top);

// A growth of 0.5 is "50.0 %", one of 445 "446 x as much".
[[nodiscard]] std::string change_share_text(double share);
// The cell for people: "1.5 GiB", "12.3 %", "-".
[[nodiscard]] std::string cell_text(const Cell& cell, Unit unit);

// A name from a trace, made printable (a trace may hold any text) and cut to fit a table.
[[nodiscard]] std::string short_name(const std::string& whole);

}  // namespace autotuned::daemon
