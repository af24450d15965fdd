// SPDX-License-Identifier: Apache-2.0
// The script of a Slurm job: one run, or an array with a run for each recipe. Pure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace autotuned::daemon {

// The comment of submitted jobs, as `squeue` shows it.
inline constexpr std::string_view kSlurmComment = "autotuned";

struct JobScript {
  std::string name;               // any text; what Slurm may not like in it becomes '_'
  int ranks = 1;                  // of each run
  std::filesystem::path program;  // this and the other paths are absolute
  std::vector<std::filesystem::path> recipes;  // at least one; several make an array
  std::vector<std::string> run_options;        // of `autotuned run`
  std::filesystem::path folder;                // for the log and the history of the job
  std::filesystem::path known;                 // a history to begin with; empty: none
};

[[nodiscard]] std::string script_text(const JobScript& job);

// `word` quoted as one word for a shell, whatever characters it has.
[[nodiscard]] std::string single_quoted(std::string_view word);

// The name without ending of the files of a job in its folder ("7", or of an array "7_0" and so on), by the number that
// Slurm gave and how many recipes there are.
[[nodiscard]] std::vector<std::string> job_file_names(const std::string& number,
                                                      std::size_t recipes);

// The value of sbatch's --output for these names.
[[nodiscard]] std::string log_pattern(const std::filesystem::path& folder, std::size_t recipes);

}  // namespace autotuned::daemon
