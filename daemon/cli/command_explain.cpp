// SPDX-License-Identifier: Apache-2.0
// explain: the story of a run.
#include <iostream>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/story.hpp"

namespace autotuned::daemon {

int explain(const std::filesystem::path& file, const std::string& id, bool is_break_even,
            bool as_json) {
  auto history = open_history(file, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto named = find_named_run(*history, id);
  if (!named) return report_error(named.error(), exit_code_of(named.error()));
  if (named->trial) {
    const Error error{ErrorKind::invalid, "expected a run, found a trial", id,
                      "`autotuned show " + id + "` tells about one trial"};
    return report_error(error, kUsageError);
  }
  if (is_break_even) {
    std::cout << (as_json ? to_line(cost_json(named->run)) + "\n"
                          : printable_lines(cost_text(named->run)));
    return kDone;
  }
  auto record = read_run(*history, named->run, std::move(named->trials));
  if (!record) return report_error(record.error());
  std::cout << (as_json ? to_line(story_json(*record)) + "\n"
                        : printable_lines(story_text(*record)));
  return kDone;
}

}  // namespace autotuned::daemon
