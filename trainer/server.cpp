// SPDX-License-Identifier: Apache-2.0
#include "trainer/server.hpp"

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "base/configuration.hpp"
#include "base/error_json.hpp"
#include "base/file.hpp"
#include "recipes/recipe.hpp"
#include "trainer/answers.hpp"
#include "trainer/asked_job.hpp"
#include "trainer/hello.hpp"
#include "trainer/job/job_check.hpp"
#include "trainer/job/training.hpp"
#include "trainer/rank_rule.hpp"
#include "trainer/timing_rule.hpp"

namespace autotuned::trainer {
namespace {

bool is_cancel(const Json& frame) {
  return get_string(frame, "request").value_or("") == "cancel";
}

Json update_json(const ParameterComparison& update) {
  return {{"name", update.name},
          {"reference_norm", update.reference_norm},
          {"candidate_norm", update.candidate_norm},
          {"norm_ratio", update.norm_ratio},
          {"cosine", update.cosine}};
}

// JSON's numbers would round it.
std::string hexadecimal(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << value;
  return text.str();
}

Result<std::int64_t> count_of(const Json& request, const char* field) {
  const auto value = get_integer(request, field);
  if (value && *value < 0) return fail(ErrorKind::invalid, "must not be negative", field);
  return value;
}

// An absent field takes its default; others must be right.
Result<std::int64_t> count_or(const Json& request, const char* field, std::int64_t otherwise) {
  if (member(request, field).is_null()) return otherwise;
  return count_of(request, field);
}

// The file in which another rank than the first writes its trace; empty: it writes none.
std::string rank_path(const Json& request, int rank) {
  const Json& paths = member(request, "rank_paths");
  const auto place = static_cast<std::size_t>(rank) - 1;
  if (!paths.is_array() || place >= paths.size() || !paths[place].is_string()) return "";
  return paths[place].get<std::string>();
}

// The field `extend` of `train`.
Result<std::optional<ExtendRequest>> extend_from(const Json& request) {
  const Json& told = member(request, "extend");
  if (told.is_null()) return std::nullopt;
  const auto state = get_string(told, "path");
  if (!state) return tl::unexpected(state.error());
  const auto run = get_string(told, "run");
  if (!run) return tl::unexpected(run.error());
  const auto restarts = get_bool(told, "restarts_schedule");
  if (!restarts) return tl::unexpected(restarts.error());
  return ExtendRequest{.state = *state, .run = *run, .restarts_schedule = *restarts};
}

}  // namespace

Server::Server(FrameChannel channel, Machine machine, Devices devices, std::optional<OwnRank> place,
               Descriptor tie)
    : channel_(std::move(channel)),
      machine_(std::move(machine)),
      devices_(std::move(devices)),
      place_(std::move(place)) {
  ties_.push_back(std::move(tie));
}

Server::~Server() = default;

bool Server::serve() {
  send({{"hello", hello_of(devices_)}});
  while (!is_stopped_ && !is_gone_) {
    auto request = receive();
    if (!request) break;
    if (is_cancel(*request)) continue;  // came after the answer to what it meant
    answer(*request);
  }
  return is_stopped_;
}

void Server::send(const Json& frame) {
  if (!channel_.send(frame)) is_gone_ = true;
}

Result<Json> Server::receive() {
  if (pending_.empty()) return channel_.receive(std::chrono::nanoseconds(-1));
  Json first = std::move(pending_.front());
  pending_.pop_front();
  return first;
}

bool Server::is_cancelled() {
  if (followers_ != nullptr) followers_->take_reports(pass_on(request_id_));
  auto frame = channel_.receive(std::chrono::nanoseconds(0));
  if (!frame) {
    is_gone_ = frame.error().kind != ErrorKind::timeout;
    return is_gone_;
  }
  if (is_cancel(*frame)) {
    if (followers_ != nullptr) followers_->cancel();
    return true;
  }
  pending_.push_back(std::move(*frame));
  return false;
}

void Server::answer(const Json& request) {
  Json frame = {{"id", member(request, "id")}};
  request_id_ = frame["id"];
  const auto name = get_string(request, "request");
  auto result = name ? handle(*name, request) : Result<Json>(tl::unexpected(name.error()));
  // Any request that read samples may have found damaged files.
  if (job_ != nullptr) {
    for (const Error& error : job_->take_damaged_files())
      send({{"id", frame["id"]}, {"progress", damage_frame(error, job_->damaged_files())}});
    for (const Error& warning : job_->take_warnings())
      send({{"id", frame["id"]}, {"progress", warning_frame(warning)}});
  }
  if (result) {
    frame["ok"] = std::move(*result);
  } else {
    frame["error"] = to_json(result.error());
  }
  send(frame);
}

Result<Json> Server::handle(const std::string& name, const Json& request) {
  if (name == "stop") {
    is_stopped_ = true;
    return Json::object();
  }
  if (name == "load") return load(request);
  if (name == "check") return check(request);
  if (name == "predict") return predict(request);
  if (is_for_all_ranks(name) && job_ != nullptr) {
    if (followers_ != nullptr) return handle_on_all(name, request);
    if (place_) return handle_together(name, request);
  }
  return handle_here(name, request);
}

Result<Json> Server::handle_here(const std::string& name, const Json& request) {
  if (job_ == nullptr) return fail(ErrorKind::invalid, "nothing is loaded", name);
  if (auto may = check_may_be_timed(name, has_traced_gpu_); !may) {
    return tl::unexpected(may.error());
  }
  if (name == "prepare") return prepare(request);
  if (name == "run" || name == "steps") return run(request);
  if (name == "check_steps") return check_steps(request);
  if (name == "place") {
    const TrainingPosition place = job_->place();
    return Json{{"epoch", place.epoch}, {"sample", place.sample}, {"steps", place.steps}};
  }
  if (name == "release") return job_->release_memory().map([] { return Json::object(); });
  if (name == "profile") return profile(request);
  if (name == "trace") return trace(request);
  if (name == "compare") return compare(request);
  if (name == "train") return train(request);
  if (name == "digest") {
    return job_->digest().map([](const std::string& sha) { return Json{{"sha256", sha}}; });
  }
  return handle_checkpoint(name, request);
}

Result<Json> Server::load(const Json& request) {
  auto asked = asked_of(request);
  if (!asked) return tl::unexpected(asked.error());
  leave_ranks();  // two jobs would not fit
  if (place_) return handle_together("load", request);
  const int ranks = asked->recipe.train.ranks;
  if (ranks == 1) return load_here(request);
  const auto device = choose_device(asked->recipe.device, devices_, 0, ranks);
  if (!device) return tl::unexpected(device.error());
  if (auto started = start_ranks(ranks); !started) return tl::unexpected(started.error());
  return handle_on_all("load", request);
}

Result<Json> Server::load_here(const Json& request) {
  auto asked = asked_of(request);
  if (!asked) return tl::unexpected(asked.error());
  Machine machine = machine_;
  machine.memory_allowed_bytes /= asked->recipe.train.ranks;
  auto job = Job::load(asked->recipe, asked->configuration, machine, devices_,
                       std::move(asked->libraries), group_.get());
  if (!job) return tl::unexpected(job.error());
  job_ = std::move(*job);
  Json facts = to_json(job_->facts());
  facts["device_uuid"] = devices_.uuid_of(job_->facts().device);
  const recipes::Recipe& recipe = asked->recipe;
  if (recipe.train.ranks == 1 || job_->facts().device == "cpu") return facts;
  for (int rank = 0; rank < recipe.train.ranks; ++rank) {
    const auto device = choose_device(recipe.device, devices_, rank, recipe.train.ranks);
    facts["device_uuids"].push_back(device ? devices_.uuid_of(*device) : "");
  }
  return facts;
}

Result<Json> Server::check(const Json& request) {
  auto asked = asked_of(request);
  if (!asked) return tl::unexpected(asked.error());
  leave_ranks();  // two jobs would not fit
  const auto checked = check_recipe(asked->recipe, asked->configuration, machine_, devices_,
                                    std::move(asked->libraries));
  if (!checked) return tl::unexpected(checked.error());
  Json problems = Json::array();
  for (const RecipeProblem& problem : checked->problems) {
    Json json = to_json(problem.error);
    json["key"] = problem.key;
    problems.push_back(std::move(json));
  }
  return Json{{"problems", problems},
              {"notes", checked->notes},
              {"parameter_bytes", checked->parameter_bytes}};
}

Result<Json> Server::prepare(const Json& request) {
  const auto configuration = Configuration::from_json(member(request, "configuration"));
  if (!configuration) return tl::unexpected(configuration.error());
  const auto prepared = job_->prepare(*configuration);
  if (!prepared) return tl::unexpected(prepared.error());
  return Json{{"changed", prepared->changed}, {"switch_ns", prepared->switch_ns}};
}

Result<Json> Server::check_steps(const Json& request) {
  CheckRequest check;
  const auto count = count_of(request, "count");
  if (!count) return tl::unexpected(count.error());
  check.steps = *count;
  const auto crosses = get_bool(request, "crosses_epoch");
  if (!crosses) return tl::unexpected(crosses.error());
  check.crosses_epoch = *crosses;
  const auto before = get_bool(request, "outputs_before");
  if (!before) return tl::unexpected(before.error());
  check.keeps_outputs_before = *before;
  const auto test_samples = count_or(request, "test_samples", 0);
  if (!test_samples) return tl::unexpected(test_samples.error());
  check.test_samples = *test_samples;
  const auto checked = job_->check_steps(check, [this] { return is_cancelled(); });
  if (!checked) return tl::unexpected(checked.error());
  Json json = checked->block.to_json();
  if (auto told = tell_parameters(json); !told) return tl::unexpected(told.error());
  Json& inputs = json["inputs"] = Json::array();
  for (const StepInput& one : checked->inputs) {
    inputs.push_back({{"labels", hexadecimal(one.labels)},
                      {"images", hexadecimal(one.images)},
                      {"projections", one.projections}});
  }
  if (const auto& test = checked->test) {
    json["test"] = {{"samples", test->samples}, {"loss", test->loss}, {"accuracy", test->accuracy}};
  }
  return json;
}

Result<Json> Server::run(const Json& request) {
  const CancelCheck cancel = [this] { return is_cancelled(); };
  const auto as_json = [](const Block& block) { return block.to_json(); };
  if (get_string(request, "request").value_or("") == "steps") {
    const auto count = count_of(request, "count");
    if (!count) return tl::unexpected(count.error());
    return job_->run_steps(*count, cancel).map(as_json);
  }
  RunRequest run;
  for (const auto& [field, value] :
       {std::pair{"minimum_ns", &run.minimum_ns}, std::pair{"minimum_steps", &run.minimum_steps},
        std::pair{"warmup_steps", &run.warmup_steps}}) {
    const auto read = count_or(request, field, *value);
    if (!read) return tl::unexpected(read.error());
    *value = *read;
  }
  if (!member(request, "reuse").is_null()) {
    const auto name = get_string(request, "reuse");
    if (!name) return tl::unexpected(name.error());
    const auto reuse = reuse_from(*name);
    if (!reuse) {
      return fail(ErrorKind::unsupported, "this trainer cannot reuse '" + *name + "'", "reuse");
    }
    run.reuse = *reuse;
  }
  run.checkpoint_file = get_string(request, "checkpoint_path").value_or("");
  return job_->run(run, cancel).map(as_json);
}

Result<Json> Server::profile(const Json& request) {
  const auto count = count_of(request, "count");
  if (!count) return tl::unexpected(count.error());
  if (*count == 0) return fail(ErrorKind::invalid, "must be at least 1", "count");
  const auto warmup = count_or(request, "warmup_steps", 0);
  if (!warmup) return tl::unexpected(warmup.error());
  const auto maximum = count_or(request, "maximum_ns", INT64_MAX);
  if (!maximum) return tl::unexpected(maximum.error());
  const std::string checkpoint = get_string(request, "checkpoint_path").value_or("");
  // If the checkpoint cannot be written, it is not timed; the profile goes on.
  if (!checkpoint.empty() && !place_) (void)job_->time_checkpoint(checkpoint);
  const auto profile = job_->profile(
      *count, *warmup, [this] { return is_cancelled(); }, *maximum);
  if (!profile) return tl::unexpected(profile.error());
  Json json = to_json(*profile);
  const std::string path = get_string(request, "path").value_or("");
  if (!path.empty() && !place_) {
    if (auto written = write_file_atomically(path, to_line(json)); !written) {
      return tl::unexpected(written.error());
    }
  }
  return json;
}

Result<Json> Server::trace(const Json& request) {
  const auto path = get_string(request, "path");
  if (!path) return tl::unexpected(path.error());
  TraceRequest trace{.file = place_ ? rank_path(request, place_->rank) : *path};
  for (const auto& [field, value] :
       {std::pair{"skip_first", &trace.skip_first}, std::pair{"wait", &trace.wait},
        std::pair{"warmup", &trace.warmup}, std::pair{"active", &trace.active},
        std::pair{"repeat", &trace.repeat}, std::pair{"maximum_events", &trace.most_events},
        std::pair{"maximum_ns", &trace.maximum_ns}}) {
    const auto read = count_or(request, field, *value);
    if (!read) return tl::unexpected(read.error());
    *value = *read;
  }
  if (trace.active == 0) return fail(ErrorKind::invalid, "must be at least 1", "active");
  if (trace.repeat == 0) return fail(ErrorKind::invalid, "must be at least 1", "repeat");
  for (const auto& [field, value] :
       {std::pair{"shapes", &trace.shapes}, std::pair{"memory", &trace.memory}}) {
    if (member(request, field).is_null()) continue;
    const auto read = get_bool(request, field);
    if (!read) return tl::unexpected(read.error());
    *value = *read;
  }
  trace.checkpoint_file = get_string(request, "checkpoint_path").value_or("");
  has_traced_gpu_ = has_traced_gpu_ || job_->facts().device.starts_with("cuda");
  return job_->trace(trace, [this] { return is_cancelled(); }).map([](const JobTrace& written) {
    return Json{{"steps", written.steps},
                {"events", written.events},
                {"lost_events", written.lost_events},
                {"bytes", written.bytes},
                {"duration_ns", written.duration_ns},
                {"notes", written.notes}};
  });
}

Result<Json> Server::compare(const Json& request) {
  const auto base = get_string(request, "base");
  if (!base) return tl::unexpected(base.error());
  const auto reference = get_string(request, "reference");
  if (!reference) return tl::unexpected(reference.error());
  const auto candidate = get_string(request, "candidate");
  if (!candidate) return tl::unexpected(candidate.error());
  const auto candidate_base = request.contains("candidate_base")
                                  ? get_string(request, "candidate_base")
                                  : Result<std::string>("");
  if (!candidate_base) return tl::unexpected(candidate_base.error());
  const auto comparison = job_->compare(*base, *reference, *candidate, *candidate_base);
  if (!comparison) return tl::unexpected(comparison.error());
  Json parameters = Json::array();
  for (const ParameterComparison& one : comparison->parameters) {
    parameters.push_back(update_json(one));
  }
  Json buffers = Json::array();
  for (const BufferComparison& one : comparison->buffers) {
    Json buffer = update_json(one.update);
    buffer["floating"] = one.is_floating;
    buffer["equal"] = one.is_equal;
    buffers.push_back(std::move(buffer));
  }
  Json json = {{"equal", comparison->is_equal},
               {"finite", comparison->is_finite},
               {"parameters", parameters},
               {"buffers", buffers}};
  if (comparison->outputs) {
    json["outputs"] = {{"reference_change", comparison->outputs->reference_change},
                       {"difference", comparison->outputs->difference}};
  }
  for (const IdleComparison& one : comparison->idle) {
    json["idle"].push_back({{"name", one.name},
                            {"reference_norm", one.reference_norm},
                            {"difference", one.difference},
                            {"parameter_norm", one.parameter_norm}});
  }
  return json;
}

Result<Json> Server::restore(const std::string& name, const Json& request) {
  const auto empty_json = [] { return Json::object(); };
  const Json& place = member(request, "place");
  if (place.is_null()) return job_->restore(name).map(empty_json);
  TrainingPosition at;
  for (const auto& [field, value] : {std::pair{"epoch", &at.epoch}, std::pair{"sample", &at.sample},
                                     std::pair{"steps", &at.steps}}) {
    const auto read = count_of(place, field);
    if (!read) return tl::unexpected(read.error());
    *value = *read;
  }
  if (!member(place, "samples").is_null()) {
    const auto samples = count_of(place, "samples");
    if (!samples) return tl::unexpected(samples.error());
    at.samples = *samples;
  }
  return job_->restore(name, at).map(empty_json);
}

Result<Json> Server::train(const Json& request) {
  if (auto prepared = prepare(request); !prepared) return prepared;
  const auto path = get_string(request, "checkpoint_path");
  if (!path) return tl::unexpected(path.error());
  const auto resume = get_bool(request, "resume");
  if (!resume) return tl::unexpected(resume.error());
  TrainRequest train{.checkpoint_path = *path, .resume = *resume};
  train.takes_other_batch_size = get_bool(request, "takes_other_batch_size").value_or(false);
  for (const auto& [field, value] : {std::pair{"checkpoint_every_ns", &train.checkpoint_every_ns},
                                     std::pair{"progress_every_ns", &train.progress_every_ns}}) {
    const auto read = count_or(request, field, *value);
    if (!read) return tl::unexpected(read.error());
    *value = *read;
  }
  auto extend = extend_from(request);
  if (!extend) return tl::unexpected(extend.error());
  train.extend = *std::move(extend);
  const ProgressSink on_progress = [this, id = member(request, "id")](const Json& progress) {
    if (place_ && !is_of_any_rank(progress)) return;  // the leader tells how far all are
    send({{"id", id}, {"progress", progress}});
  };
  auto trained =
      trainer::train(*job_, train, on_progress, [this] {
        return is_cancelled();
      }).map([this](const TrainingSummary& summary) { return to_json(summary, job_->facts()); });
  if (!trained || job_->ranks() == nullptr) return trained;
  if (auto told = tell_parameters(*trained); !told) return tl::unexpected(told.error());
  (*trained)["ranks"] = job_->recipe().train.ranks;
  return trained;
}

Result<Json> Server::handle_checkpoint(const std::string& name, const Json& request) {
  const auto bytes_json = [](std::int64_t bytes) { return Json{{"bytes", bytes}}; };
  const auto empty_json = [] { return Json::object(); };
  const auto needs_path = name == "export" || name == "import" || name == "save";
  const auto path = needs_path ? get_string(request, "path") : Result<std::string>("");
  if (!path) return tl::unexpected(path.error());
  if (name == "save") return job_->save_model(*path).map(bytes_json);
  if (name != "checkpoint" && name != "restore" && name != "drop" && name != "round" &&
      name != "renew" && !needs_path) {
    return fail(ErrorKind::invalid, "there is no such request", name);
  }
  const auto checkpoint = get_string(request, "name");
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  if (name == "checkpoint") return job_->keep(*checkpoint).map(bytes_json);
  if (name == "restore") return restore(*checkpoint, request);
  if (name == "drop") return job_->drop(*checkpoint).map(empty_json);
  if (name == "round" || name == "renew") {
    const auto as = get_string(request, "as");
    if (!as) return tl::unexpected(as.error());
    if (name == "renew") return job_->renew(*checkpoint, *as).map(bytes_json);
    return job_->round(*checkpoint, *as).map(bytes_json);
  }
  if (name == "export") return job_->export_to(*path, *checkpoint, "").map(bytes_json);
  return job_->import_from(*path, *checkpoint).map([](const std::string&) {
    return Json::object();
  });
}

}  // namespace autotuned::trainer
