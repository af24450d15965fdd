// SPDX-License-Identifier: Apache-2.0
// Owners of runs. A process owns a run while it locks the byte with the run's number in a file beside the history. The kernel drops the
// lock with the process, however the process ends. Process ids would not do, because they are reused.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "storage/connection.hpp"
#include "storage/run_owners.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;
using Database = SQLite::Database;

// A session that was killed may still be ending.
constexpr std::chrono::seconds kClaimLimit{5};
constexpr std::chrono::milliseconds kClaimAgain{20};

// The file is the same by whatever name the history is opened, as with SQLite's own files.
fs::path owners_file(const fs::path& history) {
  std::error_code error;
  const fs::path real = fs::canonical(history, error);
  return (error ? history : real).string() + "-owners";
}

// For F_OFD_SETLK and F_OFD_GETLK: such a lock belongs to the descriptor, so it stays when the process closes another descriptor of
// the file.
struct flock byte_of(std::int64_t run) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = run;
  lock.l_len = 1;
  return lock;
}

int interrupt(Database& database, const std::string& run) {
  return update(
      database, "trials",
      {{"verdict", text(to_string(Verdict::interrupted))}, {"reason", text(kEndedMeanwhile)}},
      "run_id = ? AND verdict = ?", {text(run), text(to_string(Verdict::running))});
}

}  // namespace

RunOwners::RunOwners(const fs::path& history)
    : file_(::open(owners_file(history).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)),
      is_unknown_(!file_.is_open() && errno != ENOENT) {}

bool RunOwners::has(std::int64_t run) const {
  if (!file_.is_open()) return is_unknown_;
  struct flock lock = byte_of(run);
  return ::fcntl(file_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::vector<UnfinishedRun> unfinished_runs(const Database& database) {
  SQLite::Statement statement = prepare(database, kUnfinishedSql, {});
  std::vector<UnfinishedRun> runs;
  while (statement.executeStep()) {
    const Row row(statement);
    runs.push_back({row.text("id"), row.integer("sequence")});
  }
  return runs;
}

std::set<std::string> interrupted_runs(const Database& database, const fs::path& history) {
  std::set<std::string> without_owner;
  const RunOwners owners(history);
  for (const UnfinishedRun& run : unfinished_runs(database)) {
    if (!owners.has(run.sequence)) without_owner.insert(run.id);
  }
  if (without_owner.empty()) return without_owner;
  // A run may have ended normally between the two queries.
  std::set<std::string> interrupted;
  for (const UnfinishedRun& run : unfinished_runs(database)) {
    if (without_owner.contains(run.id)) interrupted.insert(run.id);
  }
  return interrupted;
}

Result<Descriptor> History::claim(const RunId& run) const {
  const auto sequence =
      connection_->read("find the run", [&](const Database& database) -> Result<std::int64_t> {
        auto found = prepare(database, "SELECT sequence FROM runs WHERE id = ?", {text(run.text)});
        if (!found.executeStep()) {
          return fail(ErrorKind::not_found, "there is no run " + run.text, path());
        }
        return Row(found).integer("sequence");
      });
  if (!sequence) return tl::unexpected(sequence.error());
  const fs::path file = owners_file(path());
  Descriptor claim(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!claim.is_open()) {
    return tl::unexpected(system_error(errno, "cannot open the locks of the history", file));
  }
  const auto give_up = std::chrono::steady_clock::now() + kClaimLimit;
  for (;;) {
    struct flock lock = byte_of(*sequence);
    if (::fcntl(claim.get(), F_OFD_SETLK, &lock) == 0) return claim;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return Descriptor();
    if (std::chrono::steady_clock::now() >= give_up) {
      return fail(ErrorKind::busy, "another process is at work on run " + run.text, path(),
                  "give the command again when that one has ended");
    }
    std::this_thread::sleep_for(kClaimAgain);
  }
}

Result<int> History::interrupt_running_trials(const RunId& run) {
  return connection_->write("mark interrupted trials", [&](Database& database) -> Result<int> {
    return interrupt(database, run.text);
  });
}

Result<int> History::interrupt_abandoned_trials() {
  return connection_->write("mark interrupted trials", [&](Database& database) -> Result<int> {
    // A process that claims a run from now on stores its first trial after this transaction.
    const RunOwners owners(path());
    int count = 0;
    for (const UnfinishedRun& run : unfinished_runs(database)) {
      if (!owners.has(run.sequence)) count += interrupt(database, run.id);
    }
    return count;
  });
}

}  // namespace autotuned::storage
