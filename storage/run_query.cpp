// SPDX-License-Identifier: Apache-2.0
#include "storage/run_query.hpp"

namespace autotuned::storage {

RunQuery run_query(const RunFilter& filter) {
  RunQuery query;
  std::string conditions;
  const auto require = [&](const std::string& condition) {
    conditions += (conditions.empty() ? " WHERE " : " AND ") + condition;
  };
  if (filter.recipe) {
    // The + keeps SQLite from finding rows by this term, so that it walks the index of the order and stops at the limit.
    require(
        "+sequence IN (SELECT sequence FROM runs WHERE recipe_name = ?"
        " UNION ALL SELECT sequence FROM runs WHERE recipe_hash = ?)");
    query.values.push_back(text(*filter.recipe));
    query.values.push_back(text(*filter.recipe));
  }
  if (filter.environment) {
    require("environment_key = ?");
    query.values.push_back(text(*filter.environment));
  }
  if (filter.since_unix_ns) {
    require("started_unix_ns >= ?");
    query.values.push_back(integer(*filter.since_unix_ns));
  }
  if (filter.plugin || filter.verdict) {
    std::string trial =
        "EXISTS (SELECT 1 FROM trials WHERE trials.run_id = runs.id AND trials.kind <> 'ablation'";
    if (filter.plugin) {
      trial += " AND trials.plugin = ?";
      query.values.push_back(text(*filter.plugin));
    }
    if (filter.verdict) {
      trial += " AND trials.verdict = ?";
      query.values.push_back(text(to_string(*filter.verdict)));
    }
    require(trial + ")");
  }
  // Not sorted by date, because clocks jump. The inner query reads only indexes; whole rows are read only for the runs that are shown.
  query.sql = "SELECT * FROM runs WHERE sequence IN (SELECT sequence FROM runs" + conditions +
              " ORDER BY sequence DESC LIMIT ?) ORDER BY sequence DESC";
  query.values.push_back(integer(filter.limit));
  return query;
}

}  // namespace autotuned::storage
