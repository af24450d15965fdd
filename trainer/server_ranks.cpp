// SPDX-License-Identifier: Apache-2.0
// Requests to several ranks: the leader passes them on and answers for all.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "trainer/asked_job.hpp"
#include "trainer/rank_rule.hpp"
#include "trainer/ranks/fault_limits.hpp"
#include "trainer/server.hpp"

namespace autotuned::trainer {
namespace {

// LibTorch's libraries are in memory already: the leader has read them.
constexpr std::chrono::minutes kHelloLimit(5);

// A member of a rank's answer to `prepare`, which the leader removes again.
constexpr const char* kTook = "took_ns";

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

Error of_rank(int rank, int ranks, Error error) {
  const std::string name = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
  if (!error.what.starts_with(name)) error.what.insert(0, name + ": ");
  return error;
}

// Whether all others have failed in the same way, so that it does not matter which rank tells it.
bool is_of_all(const Error& own, const std::vector<Followers::Answer>& answers) {
  return std::ranges::all_of(answers, [&own](const Followers::Answer& one) {
    return !one.has_ended && !one.answer && one.answer.error().kind == own.kind &&
           !is_of_connection(one.answer.error());
  });
}

// Which of the errors is the cause: a rank that is lost makes the others fail, too.
Error cause_of(const Result<Json>& own, const std::vector<Followers::Answer>& answers, int ranks) {
  for (const Followers::Answer& one : answers)
    if (!one.answer && one.answer.error().kind == ErrorKind::crashed) return one.answer.error();
  if (!own && !is_of_connection(own.error())) {
    return is_of_all(own.error(), answers) ? own.error() : of_rank(0, ranks, own.error());
  }
  for (const Followers::Answer& one : answers) {
    if (one.answer || one.has_ended || is_of_connection(one.answer.error())) continue;
    return of_rank(one.rank, ranks, one.answer.error());
  }
  for (const Followers::Answer& one : answers)
    if (!one.answer && one.has_ended) return one.answer.error();
  if (!own) return own.error();
  for (const Followers::Answer& one : answers)
    if (!one.answer) return one.answer.error();
  return {ErrorKind::internal, "no rank has failed", "train.ranks", {}};
}

std::int64_t amount(const Json& object, const char* field) {
  return get_integer(object, field).value_or(0);
}

// Makes the leader's block that of all ranks: the time of the slowest, and the samples, the CPU time and the memory of
// all. Losses stay the leader's.
void add_ranks(Json& block, const std::vector<Followers::Answer>& answers) {
  const auto figures = [](const Json& one) {
    Json shown;
    for (const char* field : {"duration_ns", "data_wait_ns", "cpu_ns", "peak_host_memory_bytes"})
      shown[field] = amount(one, field);
    return shown;
  };
  Json ranks = Json::array({figures(block)});
  for (const Followers::Answer& one : answers) {
    ranks.push_back(figures(*one.answer));
    for (const char* field : {"samples", "cpu_ns", "peak_host_memory_bytes", "one_time_samples"})
      block[field] = amount(block, field) + amount(*one.answer, field);
    for (const char* field :
         {"duration_ns", "data_wait_ns", "peak_device_memory_bytes", "one_time_ns"})
      block[field] = std::max(amount(block, field), amount(*one.answer, field));
  }
  block["end_ns"] = amount(block, "start_ns") + amount(block, "duration_ns");
  block["ranks"] = std::move(ranks);
}

// Makes the leader's answer to `prepare` that of all ranks: the switch time of the slowest, and the time that each rank
// took for the request.
void add_switches(Json& switched, const std::vector<Followers::Answer>& answers) {
  Json ranks = Json::array({amount(switched, kTook)});
  for (const Followers::Answer& one : answers) {
    ranks.push_back(amount(*one.answer, kTook));
    switched["switch_ns"] =
        std::max(amount(switched, "switch_ns"), amount(*one.answer, "switch_ns"));
  }
  switched.erase(kTook);
  switched["ranks_ns"] = std::move(ranks);
}

// Adds the files of all ranks, and notes about missing ones.
void add_traces(Json& trace, const std::vector<Followers::Answer>& answers) {
  for (const Followers::Answer& one : answers) {
    for (const char* field : {"events", "lost_events", "bytes"})
      trace[field] = amount(trace, field) + amount(*one.answer, field);
    for (const Json& note : member(*one.answer, "notes")) {
      if (note.is_string()) {
        trace["notes"].push_back("rank " + std::to_string(one.rank) + ": " +
                                 note.get<std::string>());
      }
    }
  }
}

// docs/metrics.md: of which metrics all ranks have a part.
void add_profiles(Json& profile, const std::vector<Followers::Answer>& answers) {
  constexpr const char* kMemory = "memory.peak_host_bytes";
  constexpr const char* kExposed = "ranks.exposed_ratio";
  Json& metrics = profile["metrics"];
  double memory = get_number(metrics, kMemory).value_or(0.0);
  double exposed = get_number(metrics, kExposed).value_or(0.0);
  double most_exposed = exposed;
  int slowest = 0;  // waits least, since all wait for it
  for (const Followers::Answer& one : answers) {
    const Json& theirs = member(*one.answer, "metrics");
    memory += get_number(theirs, kMemory).value_or(0.0);
    const double waited = get_number(theirs, kExposed).value_or(exposed);
    if (waited < exposed) slowest = one.rank;
    exposed = std::min(exposed, waited);
    most_exposed = std::max(most_exposed, waited);
  }
  metrics[kMemory] = memory;
  metrics[kExposed] = exposed;
  metrics["ranks.behind_ratio"] = most_exposed - exposed;
  metrics["ranks.slowest"] = slowest;
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
  bool is_refused_by_all = !own.has_value();
  for (const Followers::Answer& one : answers) {
    are_all_well = are_all_well && one.answer;
    is_refused_by_all = is_refused_by_all && !one.has_ended && !one.answer &&
                        one.answer.error().kind == own.error().kind;
  }
  if (!are_all_well) {
    Error cause = cause_of(own, answers, ranks);
    // All have refused the same, and nothing has changed.
    const bool is_whole =
        is_refused_by_all && (!steps_together(name) || is_agreed(own.error().kind));
    if (!is_whole) {
      leave_ranks();
      // `unsupported` would tell the session that the job is as it was.
      if (cause.kind == ErrorKind::unsupported) cause.kind = ErrorKind::internal;
    }
    return tl::unexpected(cause);
  }
  for (const Followers::Answer& one : answers) {
    if (member(*one.answer, kParameterDigest) == member(*own, kParameterDigest)) continue;
    leave_ranks();
    return fail(ErrorKind::internal,
                "after '" + name + "' the parameters of rank " + std::to_string(one.rank) + " of " +
                    std::to_string(ranks) + " are not those of rank 0",
                "train.ranks", "train with one rank, and report this");
  }
  if (name == "run" || name == "steps" || name == "check_steps") add_ranks(*own, answers);
  if (name == "prepare") add_switches(*own, answers);
  if (name == "profile") add_profiles(*own, answers);
  if (name == "trace") add_traces(*own, answers);
  return own;
}

Result<Json> Server::handle_together(const std::string& name, const Json& request) {
  const auto start = std::chrono::steady_clock::now();
  auto done = name == "load" ? load_together(request) : handle_here(name, request);
  if (done && name == "prepare") {
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    (*done)[kTook] = took.count();
  }
  if (group_ != nullptr && steps_together(name) &&
      (done || done.error().kind == ErrorKind::internal)) {
    if (auto whole = group_->check_exchange(); !whole) done = tl::unexpected(whole.error());
  }
  if (!done && steps_together(name) && (name == "load" || !is_agreed(done.error().kind))) {
    // Ranks that wait for this one fail now, instead of after their time limit.
    job_.reset();
    group_.reset();
  }
  return done;
}

Result<void> Server::tell_parameters(Json& answer) {
  if (job_->ranks() == nullptr) return {};
  const auto digest = job_->parameter_digest();
  if (!digest) return tl::unexpected(digest.error());
  answer[kParameterDigest] = *digest;
  return {};
}

Result<Json> Server::load_together(const Json& request) {
  auto gpu = gpu_exchange(request);
  if (!gpu) return tl::unexpected(gpu.error());
  auto joined = RankGroup::join(place_ ? *place_ : followers_->place(), kJoinLimit, kRankPatience,
                                *std::move(gpu));
  if (!joined) return tl::unexpected(joined.error());
  group_ = std::move(*joined);
  return load_here(request);
}

Result<std::optional<GpuExchange>> Server::gpu_exchange(const Json& request) {
  const auto asked = asked_of(request);
  if (!asked) return tl::unexpected(asked.error());
  const OwnRank& place = place_ ? *place_ : followers_->place();
  const auto device = choose_device(asked->recipe.device, devices_, place.rank, place.ranks);
  if (!device) return tl::unexpected(device.error());
  if (*device == "cpu") return std::nullopt;
  return GpuExchange{.device = index_of(*device),
                     .ties = place_ ? std::exchange(ties_, {}) : followers_->take_ties()};
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
