// SPDX-License-Identifier: Apache-2.0
// Calls Slurm's own commands: sbatch, squeue, sacct, scancel. Each is started with a list of arguments and this
// program's environment, and is ended when it takes longer than two minutes. ErrorKind::unsupported: the command is not
// here; ErrorKind::not_found: Slurm knows no such job; ErrorKind::io: the command failed, with its own words.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace autotuned::daemon {

// The prefix that tells a job of Slurm from a run of the daemon: "slurm:7", or "slurm:7_2" for one of an array.
inline constexpr std::string_view kSlurmPrefix = "slurm:";

// Whether `name` has the prefix.
[[nodiscard]] bool is_slurm_name(std::string_view name);
// The number behind the prefix, as Slurm's commands take it. ErrorKind::invalid: it is not a job number.
[[nodiscard]] Result<std::string> slurm_number_of(std::string_view name);

struct SlurmJob {
  std::string number;   // "7", "7_2"
  std::string state;    // in small letters: "pending", "running", "completed", ...
  std::string nodes;    // empty: none yet
  std::string elapsed;  // "1-02:03:04"
  std::string reason;   // why it waits, or how it ended; empty: nothing to say
  std::string name;

  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] Json to_json() const;
};

// Reads the answer of squeue in the format that slurm_jobs() asks for; `comment`: only jobs with this comment. Pure.
[[nodiscard]] std::vector<SlurmJob> jobs_of_squeue(std::string_view answer,
                                                   std::string_view comment = {});
// Reads the answer of sacct. Pure.
[[nodiscard]] std::vector<SlurmJob> jobs_of_sacct(std::string_view answer);

// The number of nodes that these sbatch options ask for, as it was typed ("2", "1-4"); empty: they do not say. Pure.
[[nodiscard]] std::string nodes_asked_for(const std::vector<std::string>& options);

// Submits the script and returns the number of the job.
[[nodiscard]] Result<std::string> submit_script(const std::filesystem::path& script,
                                                const std::vector<std::string>& options);
// This user's jobs with kSlurmComment that Slurm still knows; with `number`, that job or the jobs of that array.
[[nodiscard]] Result<std::vector<SlurmJob>> slurm_jobs(
    const std::optional<std::string>& number = std::nullopt);
// Removes a waiting job from the queue. Asks the script of a running job to stop its run (job_script.hpp); the second
// time, the run ends at once. ErrorKind::invalid: the job has ended.
[[nodiscard]] Result<void> cancel_slurm_job(const std::string& number);

}  // namespace autotuned::daemon
