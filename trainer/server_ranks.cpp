// SPDX-License-Identifier: Apache-2.0
// Requests to several ranks: the leader passes them on and answers for all.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "trainer/server.hpp"

namespace autotuned::trainer {
namespace {

// LibTorch's libraries are in memory already: the leader has read them.
constexpr std::chrono::minutes kHelloLimit(5);
constexpr std::chrono::minutes kJoinLimit(2);
// Once the leader has failed and let go, the others notice at once.
constexpr std::chrono::seconds kFailurePatience(10);

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

// Which of the errors is the cause: a rank that is lost makes the others fail, too.
Error cause_of(const Result<Json>& own, const std::vector<Followers::Answer>& answers, int ranks) {
  for (const Followers::Answer& one : answers)
    if (!one.answer && one.answer.error().kind == ErrorKind::crashed) return one.answer.error();
  if (!own && !is_of_connection(own.error())) return own.error();
  for (const Followers::Answer& one : answers) {
    if (one.answer || one.has_ended || is_of_connection(one.answer.error())) continue;
    Error error = one.answer.error();
    error.what =
        "rank " + std::to_string(one.rank) + " of " + std::to_string(ranks) + ": " + error.what;
    return error;
  }
  for (const Followers::Answer& one : answers)
    if (!one.answer && one.has_ended) return one.answer.error();
  if (!own) return own.error();
  for (const Followers::Answer& one : answers)
    if (!one.answer) return one.answer.error();
  return {ErrorKind::internal, "no rank has failed", "train.ranks", {}};
}

}  // namespace

Result<void> Server::start_ranks(int ranks) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return tl::unexpected(system_error(error.value(), "cannot find this program"));
  auto started = Followers::start(program, own_environment(), ranks, kHelloLimit);
  if (!started) return tl::unexpected(started.error());
  followers_ = std::move(*started);
  return {};
}

Result<Json> Server::handle_on_all(const std::string& name, const Json& request) {
  const int ranks = followers_->place().ranks;
  if (auto sent = followers_->send(request); !sent) {
    leave_ranks();
    return tl::unexpected(sent.error());
  }
  Result<Json> own = handle_together(name, request);
  const auto answers =
      followers_->answers(own ? kRankPatience : kFailurePatience, pass_on(request_id_));
  bool are_all_well = own.has_value();
  bool is_any_lost = false;
  for (const Followers::Answer& one : answers) {
    are_all_well = are_all_well && one.answer;
    is_any_lost = is_any_lost || one.has_ended;
  }
  if (!are_all_well) {
    const Error cause = cause_of(own, answers, ranks);
    // All have refused the same change, and nothing has changed.
    const bool is_refused = name == "prepare" && !own && !is_any_lost;
    if (!is_refused) leave_ranks();
    return tl::unexpected(cause);
  }
  for (const Followers::Answer& one : answers) {
    if (member(*one.answer, kParameterDigest) == member(*own, kParameterDigest)) continue;
    leave_ranks();
    return fail(ErrorKind::internal,
                "after the training the parameters of rank " + std::to_string(one.rank) +
                    " are not those of rank 0",
                "train.ranks", "train with one rank, and report this");
  }
  return own;
}

Result<Json> Server::handle_together(const std::string& name, const Json& request) {
  if (name == "prepare") return handle_here(name, request);
  auto done = name == "load" ? load_together(request) : handle_here(name, request);
  if (!done) {
    // Whoever waits for this rank fails now, instead of when its patience is over.
    job_.reset();
    group_.reset();
  }
  return done;
}

Result<Json> Server::load_together(const Json& request) {
  auto joined = RankGroup::join(place_ ? *place_ : followers_->place(), kJoinLimit);
  if (!joined) return tl::unexpected(joined.error());
  group_ = std::move(*joined);
  return load_here(request);
}

void Server::leave_ranks() {
  job_.reset();
  group_.reset();
  followers_.reset();
}

Followers::Told Server::pass_on(const Json& id) {
  return [this, id](const Json& progress) {
    if (is_of_any_rank(progress)) send({{"id", id}, {"progress", progress}});
  };
}

bool is_of_any_rank(const Json& progress) {
  return !member(progress, "damaged").is_null() || !member(progress, "warning").is_null();
}

}  // namespace autotuned::trainer
