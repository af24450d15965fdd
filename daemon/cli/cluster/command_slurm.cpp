// SPDX-License-Identifier: Apache-2.0
// status and cancel of jobs of Slurm: Slurm is asked, and keeps what is known of them.
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/report.hpp"
#include "daemon/slurm/slurm.hpp"

namespace autotuned::daemon {
namespace {

// The exit code, as for the daemon: an unknown job is a mistake in the command line, a missing Slurm is not.
int report_slurm_error(const Error& error) {
  return report_error(error, error.kind == ErrorKind::invalid || error.kind == ErrorKind::not_found
                                 ? kUsageError
                                 : kEnvironmentUnusable);
}

}  // namespace

int slurm_status(const std::string& id, bool as_json) {
  std::optional<std::string> number;
  if (id.starts_with(kSlurmPrefix)) {
    const auto named = slurm_number_of(id);
    if (!named) return report_slurm_error(named.error());
    number = *named;
  }
  const auto jobs = slurm_jobs(number);
  if (!jobs) return report_slurm_error(jobs.error());
  if (as_json) {
    Json list = Json::array();
    for (const SlurmJob& job : *jobs)
      list.push_back(job.to_json());
    std::cout << to_line({{"jobs", list}}) << "\n";
    return kDone;
  }
  if (jobs->empty()) {
    std::cout << "Slurm has no jobs of `autotuned submit`\n";
    return kDone;
  }
  std::vector<std::vector<std::string>> rows = {
      {"id", "state", "job", "nodes", "elapsed", "reason"}};
  for (const SlurmJob& job : *jobs) {
    rows.push_back({std::string(kSlurmPrefix) + job.number, job.state, printable(job.name),
                    job.nodes, job.elapsed, printable(job.reason)});
  }
  std::cout << table_text(rows);
  return kDone;
}

int slurm_cancel(const std::string& id, bool as_json) {
  const auto number = slurm_number_of(id);
  if (!number) return report_slurm_error(number.error());
  if (const auto cancelled = cancel_slurm_job(*number); !cancelled) {
    return report_slurm_error(cancelled.error());
  }
  if (as_json) {
    std::cout << to_line({{"job", id}}) << "\n";
  } else {
    std::cout << "job " << id << " is cancelled\n";
  }
  return kDone;
}

}  // namespace autotuned::daemon
