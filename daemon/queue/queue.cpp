// SPDX-License-Identifier: Apache-2.0
#include "daemon/queue/queue.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/enum_names.hpp"

namespace autotuned::daemon {

namespace {

// The most bytes of a path or message in an answer to a client.
constexpr std::size_t kToldTextBytes = 512;

constexpr EnumNames<JobState, 5> kStates = {{
    {JobState::queued, "queued"},
    {JobState::running, "running"},
    {JobState::finished, "finished"},
    {JobState::failed, "failed"},
    {JobState::cancelled, "cancelled"},
}};

// The members of a job that one line of `status` needs, fewer than are stored on disk.
Json told(const QueuedRun& job) {
  Json fields = job.to_json();
  fields.erase("token");
  for (auto& field : fields) {
    if (!field.is_string()) continue;
    auto& text = field.get_ref<std::string&>();
    if (text.size() > kToldTextBytes) text = text.substr(0, kToldTextBytes) + "...";
  }
  return fields;
}

}  // namespace

std::string_view to_string(JobState state) {
  return enum_name(kStates, state);
}

std::optional<JobState> job_state_from(std::string_view name) {
  return enum_value(kStates, name);
}

Json QueuedRun::to_json() const {
  return {{"id", id},
          {"token", token},
          {"state", to_string(state)},
          {"device", device},
          {"recipe", recipe_name},
          {"recipe_file", recipe_file},
          {"folder", folder},
          {"cancel_requested", cancel_requested},
          {"run", run_id},
          {"exit_code", exit_code},
          {"error", error},
          {"restarts", restarts},
          {"trials", trials},
          {"submitted_unix_ns", submitted_unix_ns},
          {"started_unix_ns", started_unix_ns},
          {"ended_unix_ns", ended_unix_ns}};
}

Result<QueuedRun> QueuedRun::from_json(const Json& value) {
  QueuedRun job;
  std::optional<Error> problem;
  const auto take = [&problem](auto& field, auto found) {
    if (found) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(*found);
    } else if (!problem) {
      problem = found.error();
    }
  };
  std::string state;
  take(job.id, get_integer(value, "id"));
  take(job.token, get_string(value, "token"));
  take(state, get_string(value, "state"));
  take(job.device, get_string(value, "device"));
  take(job.recipe_name, get_string(value, "recipe"));
  take(job.recipe_file, get_string(value, "recipe_file"));
  take(job.folder, get_string(value, "folder"));
  take(job.cancel_requested, get_bool(value, "cancel_requested"));
  take(job.run_id, get_string(value, "run"));
  take(job.exit_code, get_integer(value, "exit_code"));
  take(job.error, get_string(value, "error"));
  take(job.restarts, get_integer(value, "restarts"));
  take(job.submitted_unix_ns, get_integer(value, "submitted_unix_ns"));
  take(job.started_unix_ns, get_integer(value, "started_unix_ns"));
  take(job.ended_unix_ns, get_integer(value, "ended_unix_ns"));
  if (problem) return tl::unexpected(*problem);
  const auto known = job_state_from(state);
  if (!known || job.id < 1) {
    return fail(ErrorKind::invalid, "it is no job: " + (known ? std::string("its id") : state));
  }
  job.state = *known;
  const Json& trials = member(value, "trials");
  if (trials.is_object()) {
    for (const auto& [verdict, count] : trials.items()) {
      if (count.is_number_integer()) job.trials[verdict] = count.get<std::int64_t>();
    }
  }
  return job;
}

void Queue::restore(QueuedRun job) {
  const std::int64_t id = job.id;
  jobs_.insert_or_assign(id, std::move(job));
}

Result<QueuedRun> Queue::submit(QueuedRun job) {
  for (const auto& [id, known] : jobs_) {
    if (!job.token.empty() && known.token == job.token) return known;
  }
  if (count(JobState::queued) >= limits_.waiting) {
    return fail(ErrorKind::busy,
                "the queue is full: " + std::to_string(limits_.waiting) + " runs are waiting",
                "the daemon", "cancel some with 'autotuned cancel ID', or wait");
  }
  job.id = std::max(highest_before_, jobs_.empty() ? 0 : jobs_.rbegin()->first) + 1;
  job.state = JobState::queued;
  restore(job);
  return job;
}

void Queue::withdraw(std::int64_t id) {
  jobs_.erase(id);
}

const QueuedRun* Queue::find(std::int64_t id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

QueuedRun* Queue::find(std::int64_t id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

const QueuedRun* Queue::find(std::string_view text) const {
  if (text == "last") return jobs_.empty() ? nullptr : &jobs_.rbegin()->second;
  std::int64_t id = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), id);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return find(id);
  // A run that was continued has been several jobs: the newest is meant.
  const QueuedRun* newest = nullptr;
  for (const auto& [unused, job] : jobs_) {
    if (!text.empty() && job.run_id == text) newest = &job;
  }
  return newest;
}

std::vector<std::int64_t> Queue::startable() const {
  std::set<std::string_view> busy;
  for (const auto& [id, job] : jobs_) {
    if (job.state == JobState::running) busy.insert(job.device);
  }
  std::vector<std::int64_t> found;
  for (const bool is_last_choice : {false, true}) {
    for (const auto& [id, job] : jobs_) {
      if (job.state != JobState::queued || lets_others_past(job) != is_last_choice) continue;
      if (busy.insert(job.device).second) found.push_back(id);
    }
  }
  return found;
}

std::vector<std::int64_t> Queue::forget_old(const std::set<std::int64_t>& kept) {
  std::vector<std::int64_t> ended;
  for (const auto& [id, job] : jobs_) {
    if (job.has_ended()) ended.push_back(id);
  }
  if (ended.size() <= limits_.ended) return {};
  std::ranges::stable_sort(ended, {},
                           [this](std::int64_t id) { return jobs_.at(id).ended_unix_ns; });
  ended.resize(ended.size() - limits_.ended);
  std::erase_if(ended,
                [&](std::int64_t id) { return id == jobs_.rbegin()->first || kept.contains(id); });
  for (const std::int64_t id : ended)
    jobs_.erase(id);
  return ended;
}

ToldJobs Queue::tell(std::size_t max_bytes) const {
  std::vector<const QueuedRun*> order;
  for (const auto& [id, job] : jobs_)
    order.push_back(&job);
  // Within a group by number, the ended ones from the end.
  const auto rank = [](const QueuedRun* job) {
    const int group = job->state == JobState::running ? 0 : job->has_ended() ? 2 : 1;
    return std::pair(group, group == 2 ? -job->id : job->id);
  };
  std::ranges::sort(order, {}, rank);
  std::map<std::int64_t, Json> chosen;
  std::size_t bytes = 0;
  for (const QueuedRun* job : order) {
    Json fields = told(*job);
    bytes += to_line(fields).size() + 1;
    if (bytes > max_bytes) break;
    chosen.emplace(job->id, std::move(fields));
  }
  ToldJobs answer;
  answer.left_out = jobs_.size() - chosen.size();
  for (auto& [id, fields] : chosen)
    answer.jobs.push_back(std::move(fields));
  return answer;
}

std::size_t Queue::count(JobState state) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      jobs_, [state](const auto& entry) { return entry.second.state == state; }));
}

}  // namespace autotuned::daemon
