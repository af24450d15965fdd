// SPDX-License-Identifier: Apache-2.0
// The SQL statement of History::runs(), separate so that a test can ask SQLite for its query plan.
#pragma once

#include <string>
#include <vector>

#include "storage/history.hpp"
#include "storage/sql.hpp"

namespace autotuned::storage {

struct RunQuery {
  std::string sql;
  std::vector<Value> values;
};

[[nodiscard]] RunQuery run_query(const RunFilter& filter);

}  // namespace autotuned::storage
