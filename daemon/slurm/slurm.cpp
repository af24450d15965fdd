// SPDX-License-Identifier: Apache-2.0
#include "daemon/slurm/slurm.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/descriptor.hpp"
#include "base/process/process.hpp"
#include "base/text.hpp"
#include "daemon/slurm/job_script.hpp"

namespace autotuned::daemon {
namespace {

constexpr std::chrono::nanoseconds kAnswerLimit = std::chrono::minutes(2);
constexpr std::size_t kLargestAnswer = std::size_t{16} << 20U;
// The name comes last: a person may have chosen one with a '|' in it.
constexpr const char* kSqueueFormat = "--format=%i|%T|%N|%M|%k|%r|%j";
constexpr const char* kSacctFormat = "--format=JobID,State,NodeList,Elapsed,JobName";

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};

std::string content_of(const Descriptor& file) {
  std::string content;
  char bytes[4096];
  for (;;) {
    const ssize_t count =
        ::pread(file.get(), bytes, sizeof bytes, static_cast<off_t>(content.size()));
    if (count <= 0 || content.size() > kLargestAnswer) return content;
    content.append(bytes, static_cast<std::size_t>(count));
  }
}

Result<Descriptor> unnamed_file() {
  Descriptor file(::memfd_create("answer", MFD_CLOEXEC));
  if (!file.is_open()) return tl::unexpected(system_error(errno, "cannot make a file in memory"));
  return file;
}

// In files instead of pipes: nobody has to read meanwhile.
Result<Answer> ask(const std::string& command, const std::vector<std::string>& arguments) {
  ProcessSpec spec;
  spec.program = program_in_path(command);
  if (spec.program.empty()) {
    return fail(ErrorKind::unsupported, "the command is not in PATH", command,
                "give this command on a machine where Slurm's commands are (on Debian: the package "
                "slurm-client)");
  }
  const auto out = unnamed_file();
  if (!out) return tl::unexpected(out.error());
  const auto err = unnamed_file();
  if (!err) return tl::unexpected(err.error());
  spec.arguments = arguments;
  spec.environment = whole_environment();
  spec.descriptors = {{out->get(), STDOUT_FILENO}, {err->get(), STDERR_FILENO}};
  spec.new_group = false;
  auto process = Process::start(spec);
  if (!process) return tl::unexpected(process.error());
  const auto end = process->wait(kAnswerLimit);
  if (!end) {
    return fail(ErrorKind::timeout, "no answer within " + format_duration(kAnswerLimit), command,
                "`scontrol ping` says whether Slurm answers at all");
  }
  if (end->signal != 0) return fail(ErrorKind::crashed, end->message(), command);
  return Answer{end->code, content_of(*out), content_of(*err)};
}

// The last line of the command's output says what went wrong; the others are about options.
Error refusal_of(const std::string& command, const Answer& answer) {
  std::string_view said = trimmed(answer.err);
  if (said.empty()) said = trimmed(answer.out);
  said = trimmed(said.substr(std::min(said.size(), said.rfind('\n') + 1)));
  if (said.empty()) {
    return {ErrorKind::io, "exit code " + std::to_string(answer.code), command, ""};
  }
  return {ErrorKind::io, std::string(said), command, ""};
}

bool is_unknown_job(const Answer& answer) {
  return answer.err.find("Invalid job id") != std::string::npos;
}

Error unknown_job(const std::string& number) {
  return {ErrorKind::not_found, "Slurm does not know this job, or not any more",
          std::string(kSlurmPrefix) + number,
          "`autotuned status slurm` lists the jobs that it knows"};
}

// As many as there are names; the last one is the rest.
std::vector<std::string> split(std::string_view line, std::size_t fields) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < fields) {
    const std::size_t end = line.find('|');
    if (end == std::string_view::npos) break;
    parts.emplace_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  parts.emplace_back(line);
  return parts;
}

std::vector<std::vector<std::string>> rows_of(std::string_view answer, std::size_t fields) {
  std::vector<std::vector<std::string>> rows;
  while (!answer.empty()) {
    const std::size_t end = std::min(answer.find('\n'), answer.size());
    auto row = split(answer.substr(0, end), fields);
    if (row.size() == fields) rows.push_back(std::move(row));
    answer.remove_prefix(std::min(end + 1, answer.size()));
  }
  return rows;
}

// "CANCELLED by 1000" is a state of sacct.
std::string state_of(std::string name) {
  name = name.substr(0, name.find(' '));
  for (char& c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::string told(const std::string& field) {
  return field == "None" || field == "(null)" || field == "None assigned" ? "" : field;
}

}  // namespace

bool is_slurm_name(std::string_view name) {
  return name.starts_with(kSlurmPrefix) || name == kSlurmPrefix.substr(0, kSlurmPrefix.size() - 1);
}

Result<std::string> slurm_number_of(std::string_view name) {
  if (name.starts_with(kSlurmPrefix)) {
    const std::string_view number = name.substr(kSlurmPrefix.size());
    const std::size_t digits = number.find_first_not_of("0123456789");
    const std::string_view task =
        digits == std::string_view::npos ? std::string_view("_0") : number.substr(digits);
    if (!number.empty() && digits != 0 && task.size() > 1 && task[0] == '_' &&
        task.find_first_not_of("0123456789", 1) == std::string_view::npos) {
      return std::string(number);
    }
  }
  return fail(ErrorKind::invalid,
              "expected a job of Slurm such as slurm:7, or slurm:7_2 of an array",
              std::string(name), "`autotuned status slurm` lists them");
}

bool SlurmJob::has_ended() const {
  for (const std::string_view going : {"pending", "running", "suspended", "configuring",
                                       "completing", "requeued", "resizing", "stopped"}) {
    if (state == going) return false;
  }
  return true;
}

Json SlurmJob::to_json() const {
  return {{"id", std::string(kSlurmPrefix) + number},
          {"state", state},
          {"job", name},
          {"nodes", nodes},
          {"elapsed", elapsed},
          {"reason", reason}};
}

std::vector<SlurmJob> jobs_of_squeue(std::string_view answer, std::string_view comment) {
  std::vector<SlurmJob> jobs;
  for (const auto& row : rows_of(answer, 7)) {
    if (!comment.empty() && row[4] != comment) continue;
    jobs.push_back({.number = row[0],
                    .state = state_of(row[1]),
                    .nodes = told(row[2]),
                    .elapsed = row[3],
                    .reason = told(row[5]),
                    .name = row[6]});
  }
  return jobs;
}

std::vector<SlurmJob> jobs_of_sacct(std::string_view answer) {
  std::vector<SlurmJob> jobs;
  for (const auto& row : rows_of(answer, 5)) {
    jobs.push_back({.number = row[0],
                    .state = state_of(row[1]),
                    .nodes = told(row[2]),
                    .elapsed = row[3],
                    .reason = "",
                    .name = row[4]});
  }
  return jobs;
}

std::string nodes_asked_for(const std::vector<std::string>& options) {
  constexpr std::string_view kLong = "--nodes=";
  constexpr std::string_view kShort = "-N";
  std::string nodes;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& word = options[i];
    if (word == "--nodes" || word == kShort) {
      if (i + 1 < options.size()) nodes = options[++i];
    } else if (word.starts_with(kLong)) {
      nodes = word.substr(kLong.size());
    } else if (word.starts_with(kShort)) {
      nodes = word.substr(kShort.size());
    }
  }
  return nodes;
}

Result<std::string> submit_script(const std::filesystem::path& script,
                                  const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"--parsable"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(script.string());
  const auto answer = ask("sbatch", arguments);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->code != 0) return tl::unexpected(refusal_of("sbatch", *answer));
  // "7", or "7;cluster".
  const std::string_view said = trimmed(answer->out);
  const std::string number(said.substr(0, said.find(';')));
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) {
    return fail(ErrorKind::io, "expected the number of a job, found '" + std::string(said) + "'",
                "sbatch");
  }
  return number;
}

Result<std::vector<SlurmJob>> slurm_jobs(const std::optional<std::string>& number) {
  std::vector<std::string> arguments = {"--noheader", "--array", "--states=all", kSqueueFormat};
  arguments.push_back(number ? "--jobs=" + *number : "--user=" + std::to_string(::getuid()));
  const auto answer = ask("squeue", arguments);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->code != 0 && !(number && is_unknown_job(*answer))) {
    return tl::unexpected(refusal_of("squeue", *answer));
  }
  if (!number) return jobs_of_squeue(answer->out, kSlurmComment);
  auto jobs = jobs_of_squeue(answer->out);
  if (!jobs.empty()) return jobs;
  // squeue forgets a job some minutes after its end. Not every cluster has accounting (sacct), which keeps it for
  // longer.
  const auto record = ask(
      "sacct", {"--noheader", "--parsable2", "--allocations", kSacctFormat, "--jobs=" + *number});
  if (record && record->code == 0) jobs = jobs_of_sacct(record->out);
  if (jobs.empty()) return tl::unexpected(unknown_job(*number));
  return jobs;
}

Result<void> cancel_slurm_job(const std::string& number) {
  const auto jobs = slurm_jobs(number);
  if (!jobs) return tl::unexpected(jobs.error());
  if (std::ranges::all_of(*jobs, &SlurmJob::has_ended)) {
    return fail(ErrorKind::invalid, "it has ended (" + jobs->front().state + ")",
                std::string(kSlurmPrefix) + number);
  }
  // Cancels waiting jobs first, so that none begins between the two calls.
  for (const auto& how :
       {std::vector<std::string>{"--state=PENDING"},
        std::vector<std::string>{"--state=RUNNING", "--batch", "--signal=TERM"}}) {
    std::vector<std::string> arguments = how;
    arguments.push_back(number);
    const auto answer = ask("scancel", arguments);
    if (!answer) return tl::unexpected(answer.error());
    // A job that only waited is gone after the first.
    if (answer->code != 0 && !is_unknown_job(*answer)) {
      return tl::unexpected(refusal_of("scancel", *answer));
    }
  }
  return {};
}

}  // namespace autotuned::daemon
