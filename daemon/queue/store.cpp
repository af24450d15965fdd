// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/folder_names.hpp"
#include "base/user_folders.hpp"

namespace autotuned::daemon {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJobBytes = std::size_t{1} << 20U;
// Names and numbers are shorter than in the request that brought them.
constexpr std::size_t kMaxSubmissionBytes = 2 * kMaxRequestBytes;
constexpr const char* kJob = "job.json";
constexpr const char* kSubmission = "submission.json";

// The number in front of a file's name; 0 when there is none.
std::int64_t id_of(const std::string& name) {
  std::int64_t id = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
  return parsed.ec == std::errc() && *parsed.ptr == '.' ? id : 0;
}

Result<QueuedRun> read_job(const fs::path& file) {
  auto text = read_file(file, kMaxJobBytes);
  if (!text) return tl::unexpected(text.error());
  auto json = parse_json(*text, file.string());
  if (!json) return tl::unexpected(json.error());
  auto job = QueuedRun::from_json(*json);
  if (job && job->id != id_of(file.filename().string())) {
    return fail(ErrorKind::corrupt, "it is another job's", file.string());
  }
  return job;
}

}  // namespace

fs::path default_store_folder() {
  return state_folder() / "daemon";
}

Result<JobStore> JobStore::open(const fs::path& folder) {
  if (auto made = make_folders(folder.parent_path()); !made) return tl::unexpected(made.error());
  if (auto made = make_private_folder(folder, "the folder of the queue",
                                      "give it to you with mode 0700, or set XDG_STATE_HOME");
      !made) {
    return tl::unexpected(made.error());
  }
  auto lock = lock_file(folder / "lock", "autotuned serve, process " + std::to_string(::getpid()),
                        /*wait=*/false);
  if (!lock) return tl::unexpected(lock.error());
  return JobStore(folder, *std::move(lock));
}

fs::path JobStore::file(std::int64_t id, const char* what) const {
  return folder_ / fmt::format("{:08}.{}", id, what);
}

Result<JobStore::Loaded> JobStore::load() const {
  Loaded loaded;
  std::error_code failed;
  std::set<std::int64_t> known;
  std::vector<fs::path> files;
  FolderNames names(folder_.c_str());
  while (const auto name = names.next())
    files.push_back(folder_ / *name);
  if (const std::error_code failure = names.failure()) {
    return tl::unexpected(system_error(failure.value(), "cannot list the queue", folder_.string()));
  }
  std::vector<fs::path> bad;
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    const bool is_job = name.ends_with(std::string(".") + kJob);
    // A file that was set aside keeps its number, and the other files of that job stay.
    if (is_job || name.ends_with(std::string(".") + kJob + ".bad")) {
      known.insert(id_of(name));
      loaded.highest_id = std::max(loaded.highest_id, id_of(name));
    }
    if (!is_job) continue;
    auto job = read_job(path);
    if (job) {
      loaded.jobs.push_back(*std::move(job));
    } else if (job.error().kind == ErrorKind::invalid || job.error().kind == ErrorKind::corrupt) {
      loaded.problems.push_back(job.error());
      bad.push_back(path);
    } else {
      return tl::unexpected(job.error());
    }
  }
  for (const fs::path& path : bad)
    fs::rename(path, path.string() + ".bad", failed);
  for (const fs::path& path : files) {
    const std::string name = path.filename().string();
    const std::int64_t id = id_of(name);
    const bool is_temporary = name.starts_with(".autotuned-") && name.ends_with(".tmp");
    const bool is_orphan = id > 0 && !known.contains(id) && !name.ends_with(".bad");
    if (is_temporary || is_orphan) fs::remove(path, failed);
  }
  std::ranges::sort(loaded.jobs, {}, &QueuedRun::id);
  return loaded;
}

Result<void> JobStore::put(const Submission& submission, std::int64_t id) const {
  return write_file_atomically(file(id, kSubmission), to_line(submission.to_json()) + "\n",
                               /*shared=*/false);
}

Result<void> JobStore::put(const QueuedRun& job) const {
  return write_file_atomically(file(job.id, kJob), to_line(job.to_json()) + "\n",
                               /*shared=*/false);
}

Result<Submission> JobStore::submission(std::int64_t id) const {
  const fs::path path = file(id, kSubmission);
  auto text = read_file(path, kMaxSubmissionBytes);
  if (!text) return tl::unexpected(text.error());
  auto json = parse_json(*text, path.string(), kMaxSubmissionBytes);
  if (!json) return tl::unexpected(json.error());
  return Submission::from_json(*json);
}

void JobStore::forget(std::int64_t id) const {
  std::error_code ignored;
  // The job first: without it the others are removed at the next start.
  for (const char* what : {kJob, kSubmission, "events", "log", "log.1"})
    fs::remove(file(id, what), ignored);
}

}  // namespace autotuned::daemon
