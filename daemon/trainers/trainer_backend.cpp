// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "daemon/trainers/training_advance.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kLoadLimit = std::chrono::minutes(5);  // reads the data
constexpr std::size_t kTrainersAtOnce = 2;
// How many logs are kept, those of the last trainers: a run of days may start thousands.
constexpr int kLogs = 8;
// A trainer and whatever it starts carries it, so that what it started is found wherever it went.
constexpr const char* kTrainerVariable = "AUTOTUNED_TRAINER_MARK";

// No other trainer may have it, neither one of another job of this process nor one of a process with the same number in
// another namespace: what carries it is ended with its trainer.
std::string new_mark() {
  std::random_device random;
  return std::string(kTrainerVariable) + "=" + std::to_string(getpid()) + "-" +
         std::to_string(random()) + "-" + std::to_string(random());
}

}  // namespace

bool is_resource_shortage(const Error& error) {
  return error.kind == ErrorKind::out_of_memory || error.kind == ErrorKind::busy;
}

std::int64_t host_memory_limit_bytes(const recipes::Recipe& recipe, const Machine& machine) {
  const recipes::Tune& tune = recipe.tune;
  if (tune.memory_limit_bytes && device_of(recipe, machine) == "cpu") {
    return *tune.memory_limit_bytes;
  }
  return static_cast<std::int64_t>(static_cast<double>(machine.memory_allowed_bytes) *
                                   tune.memory_limit_ratio);
}

TrainerBackend::TrainerBackend(TrainerBackendSpec spec, CancelSource& cancel)
    : spec_(std::move(spec)),
      cancel_(&cancel),
      process_knobs_(spec_.knobs, spec_.extension_knobs),
      reports_(spec_.on_damage, spec_.on_warning),
      measurement_lock_(spec_.measurement_lock, spec_.measurement_lock_limit,
                        [this](const std::string& text) {
                          if (spec_.on_warning) spec_.on_warning(text);
                        }),
      outside_time_(spec_.extension_knobs) {}

TrainerBackend::~TrainerBackend() {
  spec_.on_warning = nullptr;  // who would hear it may be going, too
  stop();
  drop_reached_file();
  drop_carried_file();
}

void TrainerBackend::stop() {
  for (Trainer& trainer : trainers_)
    end_and_tell(trainer);
  trainers_.clear();
}

void TrainerBackend::drop_dead() {
  trainers_.remove_if([this](Trainer& trainer) {
    if (trainer.client.is_alive()) return false;
    end_and_tell(trainer);
    return true;
  });
}

Result<void> TrainerBackend::start(const Configuration& configuration) {
  remove_unfinished_traces();
  drop_copy_files();
  drop_reached_file();
  drop_carried_file();
  auto trainer = trainer_for(configuration);
  if (!trainer) return tl::unexpected(trainer.error());
  return {};
}

Result<TrainerBackend::Loaded> TrainerBackend::load_trainer(
    const Configuration& configuration, nanoseconds limit, std::function<void(TrainerEnd)> on_end) {
  suspend_others(nullptr);
  std::string mark = new_mark();
  TrainerSpec spec;
  spec.program = spec_.trainer;
  spec.log = spec_.folder / ("trainer-" + std::to_string(started_++ % kLogs + 1) + ".log");
  spec.inherited_locks = spec_.device_locks;
  spec.on_end = std::move(on_end);
  if (spec_.recipe.train.ranks > 1) spec.stopped_limit = spec_.stopped_limit;
  auto environment = trainer_environment(configuration);
  if (!environment) return tl::unexpected(environment.error());
  spec.environment = std::move(*environment);
  spec.environment.push_back(mark);

  auto client = TrainerClient::start(spec, *cancel_);
  if (!client) return tl::unexpected(client.error());
  client->limit_memory(memory_left_for(*client));
  auto loaded = client->request("load",
                                {{"recipe", spec_.recipe.to_json()},
                                 {"configuration", configuration.to_json()},
                                 {"plugins", spec_.plugins}},
                                limit, [this](const Json& told) { reports_.take(told); });
  if (!loaded) return tl::unexpected(with_rank(*client, loaded.error()));
  return Loaded{std::move(*client), std::move(mark), *std::move(loaded)};
}

Result<TrainerBackend::Trainer*> TrainerBackend::start_trainer(const Configuration& configuration) {
  const Configuration plain = process_knobs_.without_live_extensions(configuration);
  auto loaded =
      load_trainer(plain, kLoadLimit, [this](TrainerEnd end) { take_end(std::move(end)); });
  if (!loaded) return tl::unexpected(loaded.error());
  hello_ = loaded->client.hello();
  facts_ = std::move(loaded->facts);
  ProcessFamily processes(loaded->client.pid(), std::move(loaded->mark));
  trainers_.push_front(Trainer{.client = std::move(loaded->client),
                               .processes = std::move(processes),
                               .key = process_knobs_.key_of(configuration),
                               .configuration = plain,
                               .has_extension = process_knobs_.uses_extension(configuration),
                               .switches = {{plain.canonical_text(), {}}}});
  return &trainers_.front();
}

void TrainerBackend::make_room() {
  if (trainers_.size() < kTrainersAtOnce) return;
  end_and_tell(trainers_.back());
  trainers_.pop_back();
}

Result<TrainerBackend::Trainer*> TrainerBackend::trainer_for(const Configuration& configuration) {
  drop_dead();
  const std::string key = process_knobs_.key_of(configuration);
  for (Trainer& other : trainers_) {
    if (misfits_.contains({key, other.key})) end_and_tell(other);
  }
  drop_dead();
  const auto found = std::find_if(trainers_.begin(), trainers_.end(),
                                  [&key](const Trainer& trainer) { return trainer.key == key; });
  if (found != trainers_.end()) {
    trainers_.splice(trainers_.begin(), trainers_, found);
    return prepared(trainers_.front(), configuration);
  }
  make_room();
  auto started = start_trainer(configuration);
  if (!started && is_resource_shortage(started.error()) && !trainers_.empty()) {
    // Two do not fit: from here on they alternate by restart.
    const std::vector<std::string> others = keys_beside(key);
    stop();
    started = start_trainer(configuration);
    if (started) remember_misfits(key, others);
  }
  if (!started) return started;
  return prepared(**started, configuration);
}

Result<TrainerBackend::Trainer*> TrainerBackend::prepared(Trainer& trainer,
                                                          const Configuration& configuration) {
  auto done = prepare(trainer, configuration);
  if (!done) return tl::unexpected(done.error());
  return &trainer;
}

Result<Json> TrainerBackend::ask(Trainer& trainer, const std::string& name, Json fields,
                                 nanoseconds limit) {
  suspend_others(&trainer);
  look_for_interference(trainer);
  // Nothing of trials runs any more beside what has trained.
  trainer.client.limit_memory(has_trained_ ? 0 : memory_left_for(trainer.client));
  auto answer = trainer.client.request(name, std::move(fields), limit,
                                       [this](const Json& told) { reports_.take(told); });
  if (answer) return answer;
  Error error = with_rank(trainer.client, std::move(answer.error()));
  // Ranks have left one another after most errors, and nothing is loaded then.
  if (spec_.recipe.train.ranks > 1 && error.kind != ErrorKind::cancelled &&
      error.kind != ErrorKind::unsupported) {
    trainer.client.stop();
  }
  return tl::unexpected(std::move(error));
}

Error TrainerBackend::with_rank(const TrainerClient& client, Error error) const {
  const int ranks = spec_.recipe.train.ranks;
  if (ranks == 1 || client.is_alive()) return error;
  // If all of them together hold more than they may, that is no fault of one rank.
  const bool is_killed = error.kind == ErrorKind::out_of_memory && error.signal == SIGKILL;
  if (error.kind == ErrorKind::crashed || is_killed) {
    error.what.insert(0, "rank 0 of " + std::to_string(ranks) + ": ");
  }
  return error;
}

void TrainerBackend::take_end(TrainerEnd end) const {
  if (!spec_.on_trainer_end) return;
  // If a trainer on a GPU reports that it has no memory, the memory of the GPU is assumed.
  const std::string device = get_string(facts_, "device").value_or(spec_.recipe.device);
  if (end.has_told && device.starts_with("cuda")) {
    end.outcome = TrainerOutcome::out_of_device_memory;
  }
  spec_.on_trainer_end(std::move(end));
}

std::int64_t TrainerBackend::memory_left_for(const TrainerClient& client) {
  if (spec_.memory_limit_bytes == 0) return 0;
  std::int64_t left = spec_.memory_limit_bytes;
  for (Trainer& other : trainers_) {
    if (&other.client != &client) left -= other.client.held_bytes(left);
  }
  return std::max<std::int64_t>(left, 1);
}

Result<Json> TrainerBackend::train(const Configuration& configuration,
                                   const std::filesystem::path& checkpoint,
                                   const std::function<void(const Json&)>& on_progress,
                                   const Json& extend) {
  // A fresh process: nothing of the trials is left in it, neither memory nor settings.
  stop();
  has_trained_ = false;
  drop_reached_file();
  auto trainer = start_trainer(configuration);
  if (!trainer) return tl::unexpected(trainer.error());
  constexpr nanoseconds kProgressEvery = std::chrono::milliseconds(500);
  // A report of an advance restarts the limit; an evaluation of the whole test set reports only its end.
  constexpr nanoseconds kSilenceLimit = std::chrono::minutes(10);
  TrainingAdvance advance;
  // The user's own job, which the kernel may judge.
  (*trainer)->client.limit_memory(0);
  Json fields = {{"configuration", configuration.to_json()},
                 {"checkpoint_path", checkpoint.string()},
                 {"resume", true},
                 {"takes_other_batch_size", true},
                 {"checkpoint_every_ns", spec_.recipe.checkpoint_every.count()},
                 {"progress_every_ns", kProgressEvery.count()}};
  if (!extend.is_null()) fields["extend"] = extend;
  auto trained = (*trainer)->client.request(
      "train", std::move(fields), kSilenceLimit,
      [&](const Json& told) {
        if (member(told, "damaged").is_null() && member(told, "warning").is_null()) {
          on_progress(told);
        } else {
          reports_.take(told);
        }
      },
      [&advance](const Json& told) { return advance.update(told); });
  if (!trained) return tl::unexpected(with_rank((*trainer)->client, trained.error()));
  (*trainer)->configuration = configuration;
  has_trained_ = true;
  return trained;
}

Result<Json> TrainerBackend::save(const std::filesystem::path& file) {
  if (trainers_.empty()) return fail(ErrorKind::internal, "there is no trained model to save");
  return ask(trainers_.front(), "save", {{"path", file.string()}}, kLoadLimit);
}

}  // namespace autotuned::daemon
