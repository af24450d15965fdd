// SPDX-License-Identifier: Apache-2.0
// compare: two runs or trials against each other.
#include <iostream>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/run_comparison.hpp"
#include "daemon/screen/wrapped_text.hpp"

namespace autotuned::daemon {

int compare(const std::filesystem::path& file, const std::string& a, const std::string& b,
            bool is_all, bool as_json) {
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  std::vector<ComparedSide> sides;
  for (const std::string& name : {a, b}) {
    auto named = find_named_run(*history, name);
    if (!named) return report_error(named.error(), exit_code_of(named.error()));
    auto side = read_side(*history, std::move(*named));
    if (!side) return report_error(side.error());
    sides.push_back(std::move(*side));
  }
  if (as_json) {
    std::cout << to_line(comparison_json(sides[0], sides[1])) << "\n";
  } else {
    print_text(printable_lines(is_all ? comparison_text(sides[0], sides[1])
                                      : comparison_summary(sides[0], sides[1])));
  }
  return kDone;
}

}  // namespace autotuned::daemon
