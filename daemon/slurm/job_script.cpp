// SPDX-License-Identifier: Apache-2.0
#include "daemon/slurm/job_script.hpp"

#include <algorithm>

namespace autotuned::daemon {
namespace {

// How long before its time limit a job gets the signal: enough for a checkpoint, although Slurm checks the time only
// once a minute.
constexpr const char* kSecondsBeforeLimit = "60";

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

// Ends what is a line of the script or a field of squeue.
std::string safe_name(std::string name) {
  for (char& c : name) {
    if (kNameCharacters.find(c) == std::string_view::npos) c = '_';
  }
  return name.empty() ? std::string(kSlurmComment) : name;
}

// SQLite needs a disk of the machine itself.
constexpr std::string_view kLocalHistory = R"sh(
scratch=$(mktemp -d "${TMPDIR:-/tmp}/autotuned-XXXXXX" 2>/dev/null) ||
  scratch=$(mktemp -d /tmp/autotuned-XXXXXX) || exit 4
export AUTOTUNED_HISTORY="$scratch/history.db"
)sh";

constexpr std::string_view kStop = R"sh(
# The first signal asks the run to stop, which writes a checkpoint. The second one ends it at once.
run=
signalled=
trap 'signalled=yes; test -z "$run" || kill -TERM "$run"' TERM
)sh";

// A signal ends `wait` while the run may go on. After a signal that came just after the end of the run, the next `wait`
// returns 127 or the exit code again, depending on the shell.
constexpr std::string_view kWait = R"sh(run=$!
test -z "$signalled" || kill -TERM "$run"
code=
while :; do
  signalled=
  wait "$run"
  status=$?
  test -n "$code" && test "$status" -eq 127 && break
  code=$status
  test -n "$signalled" || break
done
run=
)sh";

constexpr std::string_view kBringBack = R"sh(
if test -f "$AUTOTUNED_HISTORY"; then
  if "$program" history backup "$scratch/copy.db" >/dev/null &&
    cp "$scratch/copy.db" "$kept.partial" && mv "$kept.partial" "$kept"; then
    echo "history  $kept"
  else
    echo "error: the history could not be copied to $kept; it stays in $scratch on $(hostname)" >&2
    test "$code" -ne 0 || code=1
    exit "$code"
  fi
fi
rm -rf "$scratch"
exit "$code"
)sh";

}  // namespace

std::string single_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::vector<std::string> job_file_names(const std::string& number, std::size_t recipes) {
  if (recipes == 1) return {number};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < recipes; ++i)
    names.push_back(number + "_" + std::to_string(i));
  return names;
}

std::string log_pattern(const std::filesystem::path& folder, std::size_t recipes) {
  // In the pattern '%' stands for something, and "%%" for itself.
  std::string pattern;
  for (const char c : folder.string())
    pattern.append(c == '%' ? 2 : 1, c);
  return pattern + (recipes == 1 ? "/%j.log" : "/%A_%a.log");
}

std::string script_text(const JobScript& job) {
  const std::size_t count = job.recipes.size();
  const bool is_array = count > 1;
  std::string text =
      "#!/bin/sh\n"
      "# Written by `autotuned submit`. `sbatch FILE` submits it again.\n"
      "#SBATCH --job-name=" +
      safe_name(job.name) + "\n#SBATCH --comment=" + std::string(kSlurmComment) +
      "\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=" + std::to_string(job.ranks) + "\n";
  if (is_array) text += "#SBATCH --array=0-" + std::to_string(count - 1) + "\n";
  text += std::string("#SBATCH --signal=B:TERM@") + kSecondsBeforeLimit + "\n\n";

  text += "program=" + single_quoted(job.program.string()) + "\n";
  if (is_array) {
    text += "case \"$SLURM_ARRAY_TASK_ID\" in\n";
    for (std::size_t i = 0; i < count; ++i) {
      text +=
          "  " + std::to_string(i) + ") recipe=" + single_quoted(job.recipes[i].string()) + " ;;\n";
    }
    text +=
        "  *) echo \"error: there is no recipe $SLURM_ARRAY_TASK_ID\" >&2; exit 2 ;;\n"
        "esac\n";
  } else {
    text += "recipe=" + single_quoted(job.recipes.front().string()) + "\n";
  }
  text += "kept=" + single_quoted(job.folder.string()) +
          (is_array ? "/\"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}.db\"\n"
                    : "/\"$SLURM_JOB_ID.db\"\n");

  text +=
      "\n# The history lies on a disk of the node, and a copy of it is brought back at the end.";
  text += kLocalHistory;
  text +=
      "# A job that Slurm starts again goes on with its own.\n"
      "if test -f \"$kept\"; then\n"
      "  cp \"$kept\" \"$AUTOTUNED_HISTORY\"\n";
  if (!job.known.empty()) {
    const std::string known = single_quoted(job.known.string());
    text += "elif test -f " + known + "; then\n  cp " + known + " \"$AUTOTUNED_HISTORY\"\n";
  }
  text += "fi\n";
  text += kStop;
  text += "\"$program\" run \"$recipe\" --no-daemon";
  for (const std::string& option : job.run_options)
    text += " " + single_quoted(option);
  text += " &\n";
  text += kWait;
  text += kBringBack;
  return text;
}

}  // namespace autotuned::daemon
