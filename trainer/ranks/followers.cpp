// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/followers.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error_json.hpp"
#include "base/text.hpp"
#include "trainer/ranks/fault_limits.hpp"

namespace autotuned::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

nanoseconds left_until(Clock::time_point deadline) {
  return std::max(nanoseconds(0), nanoseconds(deadline - Clock::now()));
}

bool is_report(const Json& frame) {
  return !member(frame, "progress").is_null();
}

Result<Json> answer_in(const Json& frame) {
  const Json& error = member(frame, "error");
  if (error.is_null()) return member(frame, "ok");
  return tl::unexpected(error_from_json(error));
}

}  // namespace

Followers::Followers(Descriptor store, OwnRank place)
    : store_(std::move(store)), place_(std::move(place)) {}

// All at once, before one after the other is waited for: a process with a GPU takes seconds to end.
Followers::~Followers() {
  for (const Follower& follower : followers_)
    if (follower.process.pid() > 0) ::kill(follower.process.pid(), SIGKILL);
}

Result<std::unique_ptr<Followers>> Followers::start(const std::filesystem::path& program,
                                                    const std::vector<std::string>& environment,
                                                    int ranks, nanoseconds hello_limit) {
  Descriptor store(::memfd_create("autotuned-ranks", MFD_CLOEXEC));
  if (!store.is_open()) {
    return tl::unexpected(system_error(errno, "cannot make the file in which ranks meet"));
  }
  OwnRank place{.rank = 0, .ranks = ranks};
  place.store = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(store.get());
  std::unique_ptr<Followers> made(new Followers(std::move(store), std::move(place)));
  for (int rank = 1; rank < ranks; ++rank) {
    if (auto started = made->start_one(rank, program, environment); !started) {
      return tl::unexpected(started.error());
    }
  }
  // From now on: one may be stopped before it says hello.
  made->watch();
  const auto deadline = Clock::now() + hello_limit;
  for (Follower& follower : made->followers_) {
    const auto hello = follower.channel.receive(left_until(deadline));
    if (hello) continue;
    if (hello.error().kind != ErrorKind::timeout)
      return tl::unexpected(made->ended(follower, kEndLimit));
    return fail(
        ErrorKind::timeout,
        made->name_of(follower) + " did not say hello within " + format_duration(hello_limit),
        "train.ranks");
  }
  return made;
}

void Followers::watch() {
  std::vector<StoppedWatch::Watched> watched;
  for (const Follower& follower : followers_)
    watched.push_back({follower.process.pid(), name_of(follower)});
  watch_ = std::make_unique<StoppedWatch>(std::move(watched));
}

Result<void> Followers::start_one(int rank, const std::filesystem::path& program,
                                  std::vector<std::string> environment) {
  auto sockets = socket_pair();
  if (!sockets) return tl::unexpected(sockets.error());
  auto tie = socket_pair();
  if (!tie) return tl::unexpected(tie.error());
  OwnRank theirs = place_;
  theirs.rank = rank;
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("AUTOTUNED_PARENT_PID=");
  });
  for (std::string& variable : rank_variables(theirs))
    environment.push_back(std::move(variable));
  environment.push_back("AUTOTUNED_PARENT_PID=" + std::to_string(::getpid()));
  ProcessSpec spec;
  spec.program = program;
  spec.environment = std::move(environment);
  spec.descriptors = {{sockets->theirs.get(), kRequestsInFollower},
                      {tie->theirs.get(), kTieInFollower}};
  spec.new_group = false;  // the session stops and ends our group
  auto process = Process::start(spec);
  if (!process) return tl::unexpected(process.error());
  followers_.push_back({.rank = rank,
                        .process = std::move(*process),
                        .channel = FrameChannel(std::move(sockets->ours)),
                        .early = std::nullopt});
  ties_.push_back(std::move(tie->ours));
  return {};
}

std::string Followers::name_of(const Follower& follower) const {
  return "rank " + std::to_string(follower.rank) + " of " + std::to_string(place_.ranks);
}

Error Followers::ended(Follower& follower, nanoseconds patience) const {
  const auto exit = follower.process.wait(patience);
  Error error{ErrorKind::crashed, name_of(follower), "train.ranks", {}};
  if (watch_ != nullptr && watch_->has_ended(follower.process.pid())) {
    error.what +=
        " was stopped (SIGSTOP) for " + format_duration(kMaxStopped) + " and has been ended";
  } else if (exit) {
    error.what += " ended: " + exit->message();
    error.signal = exit->signal;
  } else {
    error.what += " does not answer any more, but runs on";
  }
  return error;
}

Result<void> Followers::send(const Json& request) {
  for (Follower& follower : followers_) {
    follower.early.reset();
    if (!follower.channel.send(request)) return tl::unexpected(ended(follower, kEndLimit));
  }
  return {};
}

void Followers::cancel() {
  // A rank that is gone is reported with the answers.
  for (Follower& follower : followers_)
    (void)follower.channel.send({{"request", "cancel"}});
}

std::vector<Followers::Answer> Followers::answers(nanoseconds patience, const Told& told) {
  std::vector<Answer> all;
  const auto deadline = Clock::now() + patience;
  nanoseconds end_patience = kEndLimit;
  for (Follower& follower : followers_) {
    Result<Json> frame = std::exchange(follower.early, std::nullopt).value_or(Json());
    while (frame && (frame->is_null() || is_report(*frame))) {
      if (!frame->is_null()) told(member(*frame, "progress"));
      frame = follower.channel.receive(left_until(deadline));
    }
    if (frame) {
      all.push_back({follower.rank, answer_in(*frame), false});
    } else if (frame.error().kind == ErrorKind::timeout) {
      all.push_back({follower.rank,
                     fail(ErrorKind::timeout,
                          name_of(follower) + " did not answer within " + format_duration(patience),
                          "train.ranks"),
                     true});
    } else {
      const auto start = Clock::now();
      all.push_back({follower.rank, tl::unexpected(ended(follower, end_patience)), true});
      end_patience = std::max(nanoseconds(0), end_patience - (Clock::now() - start));
    }
  }
  return all;
}

void Followers::take_reports(const Told& told) {
  for (Follower& follower : followers_) {
    while (!follower.early) {
      auto frame = follower.channel.receive(nanoseconds(0));
      if (!frame) break;  // nothing, or it has ended: the next call tells
      if (is_report(*frame)) {
        told(member(*frame, "progress"));
      } else {
        follower.early = std::move(*frame);
      }
    }
  }
}

}  // namespace autotuned::trainer
