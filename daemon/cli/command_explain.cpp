// SPDX-License-Identifier: Apache-2.0
// explain: the story of a run.
#include <iostream>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/story.hpp"
#include "daemon/screen/wrapped_text.hpp"

namespace autotuned::daemon {

int explain(const ExplainOptions& options) {
  auto history = open_history(options.history, storage::Access::read_only);
  if (!history) return report_error(history.error());
  auto named = find_named_run(*history, options.run);
  if (!named) return report_error(named.error(), exit_code_of(named.error()));
  if (named->trial) {
    const Error error{ErrorKind::invalid, "expected a run, found a trial", options.run,
                      "`autotuned show " + options.run + "` tells about one trial"};
    return report_error(error, kUsageError);
  }
  if (options.is_break_even) {
    if (options.as_json) {
      std::cout << to_line(cost_json(named->run)) << "\n";
    } else {
      print_text(printable_lines(cost_text(named->run, named->trials)));
    }
    return kDone;
  }
  auto record = read_run(*history, named->run, std::move(named->trials));
  if (!record) return report_error(record.error());
  if (options.as_json) {
    std::cout << to_line(story_json(*record)) << "\n";
  } else {
    if (auto found = find_profiling_run(*history, *record); !found) {
      return report_error(found.error());
    }
    print_text(printable_lines(story_text(*record, options.is_whole)));
  }
  return kDone;
}

}  // namespace autotuned::daemon
