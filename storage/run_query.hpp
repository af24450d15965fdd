// SPDX-License-Identifier: Apache-2.0
// The statement behind History::runs(), apart so that a test can ask SQLite how it would run it.
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
