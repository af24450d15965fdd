// SPDX-License-Identifier: Apache-2.0
#include "storage/history.hpp"

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "base/enum_names.hpp"
#include "base/printable.hpp"
#include "base/user_folders.hpp"
#include "storage/connection.hpp"
#include "storage/location.hpp"
#include "storage/migrations.hpp"

namespace autotuned::storage {
namespace {

namespace fs = std::filesystem;

constexpr EnumNames<AnswerKind, 4> kAnswerKinds = {{
    {AnswerKind::asked, "asked"},
    {AnswerKind::refused, "refused"},
    {AnswerKind::unsupported, "unsupported"},
    {AnswerKind::machine, "machine"},
}};

constexpr EnumNames<RunState, 5> kRunStates = {{
    {RunState::tuning, "tuning"},
    {RunState::training, "training"},
    {RunState::finished, "finished"},
    {RunState::failed, "failed"},
    {RunState::cancelled, "cancelled"},
}};

// Called by SQLite while it waits for a lock. `tries`: the number of earlier calls for this lock. Must not throw.
int wait_for_lock(void* patience, int tries) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kAgain{20};
  static thread_local Clock::time_point since;
  if (tries == 0) since = Clock::now();
  try {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
    if (!(*static_cast<const LockPatience*>(patience))(waited)) return 0;
  } catch (...) {
    return 0;
  }
  std::this_thread::sleep_for(kAgain);
  return 1;
}

// The command that brings this history up to date; the default one needs no --history.
std::string updating_command(const fs::path& file) {
  std::error_code error;
  const bool is_default = fs::absolute(History::default_path(), error) == file;
  return "autotuned run" + (is_default ? "" : " --history " + shell_word(file.string()));
}

// Looks for damage, without writing, before open() brings a history of an earlier version up to date or makes one. Other errors are
// left to that open().
Result<void> look_before_writing(const fs::path& file, Missing missing,
                                 std::chrono::milliseconds lock_timeout) {
  const auto looked = History::open(file, Access::read_only, lock_timeout);
  const Result<void> sound = looked ? looked->check_pages() : forward_error(looked);
  if (sound) return {};
  const ErrorKind kind = sound.error().kind;
  const bool is_refused = kind == ErrorKind::corrupt || kind == ErrorKind::busy ||
                          (kind == ErrorKind::not_found && missing == Missing::refuse);
  return is_refused ? sound : Result<void>();
}

}  // namespace

std::string Integrity::text() const {
  if (!damage.empty()) return damage;
  std::string lines;
  for (const std::string& line : missing_references)
    lines += (lines.empty() ? "" : "\n") + line;
  return lines.empty() ? "ok" : lines;
}

std::string_view to_string(AnswerKind kind) {
  return enum_name(kAnswerKinds, kind);
}

std::optional<AnswerKind> answer_kind_from(std::string_view name) {
  return enum_value(kAnswerKinds, name);
}

std::string_view to_string(RunState state) {
  return enum_name(kRunStates, state);
}

std::optional<RunState> run_state_from(std::string_view name) {
  return enum_value(kRunStates, name);
}

History::History(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
History::~History() = default;
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;

Result<History> History::open(const fs::path& file, Access access,
                              std::chrono::milliseconds lock_timeout) {
  auto connection = Connection::open(file, access, lock_timeout);
  if (!connection) return tl::unexpected(connection.error());
  return History(*std::move(connection));
}

Result<History> History::open_to_write(const fs::path& file, Missing missing,
                                       std::chrono::milliseconds lock_timeout) {
  if (const auto looked = look_before_writing(file, missing, lock_timeout); !looked) {
    return forward_error(looked);
  }
  return open(file, Access::read_write, lock_timeout);
}

Result<void> History::set_patience(LockPatience patience) {
  connection_->patience = std::move(patience);
  return connection_->read("wait for locks", [&](SQLite::Database& database) -> Result<void> {
    sqlite3_busy_handler(database.getHandle(), &wait_for_lock, &connection_->patience);
    return {};
  });
}

void History::on_unreadable_row(std::function<void(const std::string&)> tell) {
  connection_->unreadable.tell_to(std::move(tell));
}

fs::path History::default_path() {
  if (const char* file = std::getenv("AUTOTUNED_HISTORY"); file != nullptr && *file != '\0') {
    return file;
  }
  return state_folder() / "history.db";
}

std::string History::outdated_text() const {
  const auto known = static_cast<std::int64_t>(migrations().size());
  if (connection_->schema_version >= known) return {};
  const bool is_writable = check_writable(path()).has_value();
  return path().string() + ": the history has schema version " +
         std::to_string(connection_->schema_version) +
         " of an earlier autotuned, and this one writes " + std::to_string(known) +
         ": what later versions store is not shown. " +
         (is_writable
              ? "The next '" + updating_command(path()) + "' brings it up to date"
              : "It cannot be written: 'autotuned history import " + shell_word(path().string()) +
                    " --history COPY' makes COPY, which is up to date");
}

bool History::is_gone() const {
  return connection_->is_gone();
}

const fs::path& History::path() const {
  return connection_->file;
}

}  // namespace autotuned::storage
