// SPDX-License-Identifier: Apache-2.0
// The table of docs/metrics.md has every signal that a rule reads or a trace tells.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "profiler/analysis/findings/findings.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"
#include "tests/places.hpp"

namespace autotuned::analysis {
namespace {

// What stands in `` in the first column, from the heading of the signals to the end of their first table.
std::set<std::string> documented() {
  std::ifstream file(tests::source_folder() / "docs/metrics.md");
  std::set<std::string> names;
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    is_there = is_there || line == "### Signals";
    if (!is_there || !line.starts_with("| `")) {
      if (!names.empty()) break;
      continue;
    }
    const std::string cell = line.substr(0, line.find('|', 1));
    for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
      const std::size_t end = cell.find('`', at + 1);
      names.insert(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

TEST(SignalsDocument, HasWhatRulesRead) {
  const auto names = documented();
  ASSERT_GT(names.size(), 40U);
  for (const Rule& rule : rules())
    EXPECT_TRUE(names.contains(rule.signal)) << rule.signal << ", of " << rule.id;
}

TEST(SignalsDocument, HasWhatTracesTell) {
  const auto names = documented();
  for (const char* trace : {"rank0", "rank1", "classifier", "workers", "stacks", "unmarked"}) {
    const auto read = traces::read_trace(tests::source_folder() / "tests/profiler/data" /
                                         (std::string(trace) + ".pt.trace.json.gz"));
    ASSERT_TRUE(read);
    for (const auto& [name, value] : analyze(*read).signals)
      EXPECT_TRUE(names.contains(name)) << name << ", of " << trace;
  }
}

}  // namespace
}  // namespace autotuned::analysis
