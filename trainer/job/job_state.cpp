// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job_state.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "profiler/spans.hpp"
#include "recipes/schedule.hpp"
#include "trainer/common/process_memory.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/input/datasets/unlabelled_pictures.hpp"
#include "trainer/job/settings/step_settings.hpp"
#include "trainer/job/training.hpp"
#include "trainer/models/model.hpp"
#include "trainer/step/cuda_graph.hpp"
#include "trainer/step/gather.hpp"

namespace autotuned::trainer {
namespace {

constexpr const char* kInitial = "initial";
constexpr const char* kRateFactor = "schedule/factor";
constexpr const char* kScheduleBegin = "schedule/begin";
// How long other damaged files are searched for when the job has ended: less than a person or a time limit would wait.
constexpr std::chrono::nanoseconds kMaxSearching = std::chrono::seconds(10);

// The process that starts a trainer sets env.NAME for it; this only checks that it did.
Result<void> check_environment(const Configuration& configuration) {
  for (const auto& [name, value] : configuration.values()) {
    if (!name.starts_with("env.")) continue;
    const char* const actual = std::getenv(name.c_str() + 4);
    if (to_text(value) != (actual != nullptr ? actual : "")) {
      return fail(ErrorKind::invalid, "the trainer was not started with this value", name,
                  "start another trainer");
    }
  }
  return {};
}

// The values that a running trainer cannot change, as text. An empty variable counts as not set.
std::string restart_part(const Configuration& configuration,
                         const std::vector<recipes::Knob>& knobs) {
  std::string part;
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs, name);
    const std::string text = to_text(value);
    if (!knob || knob->how != recipes::KnobSwitch::restart || text.empty()) continue;
    part += (part.empty() ? "" : " ") + name + "=" + text;
  }
  return part;
}

}  // namespace

Result<input::Pipeline> pipeline_of(const recipes::Recipe& recipe, const input::Dataset& data,
                                    const input::PipelineForm& form, std::int64_t rank) {
  std::vector<input::Transform> transforms;
  for (const recipes::Component& transform : recipe.input) {
    transforms.push_back({transform.type, transform.parameters});
  }
  return input::Pipeline::compile(data.type(), transforms, input::seed_of_rank(recipe.seed, rank),
                                  form, data.target().is_mask());
}

Job::State::State(recipes::Recipe recipe, const Machine& machine, const std::string& device,
                  std::vector<plugins::TrainerLibrary> libraries, RankGroup* ranks)
    : recipe_(std::move(recipe)),
      built_in_knobs_(recipes::knobs_of(machine)),
      workloads_(recipe_.file, libraries),
      extensions_(std::move(libraries)),
      knobs_(built_in_knobs_),
      cpus_allowed_(std::max(1, machine.cpus_allowed / recipe_.train.ranks)),
      memory_allowed_bytes_(machine.memory_allowed_bytes),
      has_gpu_(!machine.gpus.empty()),
      device_(device),
      kept_(recipe_, memory_allowed_bytes_),
      ranks_(ranks) {
  facts_.device = device;
  for (const recipes::Knob& knob : extensions_.knobs())
    knobs_.push_back(knob);
}

Result<void> Job::State::check(const Configuration& configuration) const {
  for (const recipes::Knob& knob : built_in_knobs_) {
    if (configuration.find(knob.name) == nullptr) {
      return fail(ErrorKind::invalid, "the configuration has no value for it", knob.name);
    }
  }
  for (const auto& [name, value] : configuration.values()) {
    const auto knob = recipes::find_knob(knobs_, name);
    if (!knob) return fail(ErrorKind::invalid, "this trainer has no such knob", name);
    if (auto checked = recipes::check_value(*knob, value); !checked) return checked;
  }
  return {};
}

Result<void> Job::State::load(const Configuration& configuration) {
  if (auto checked = check(configuration); !checked) return checked;
  if (auto checked = check_environment(configuration); !checked) return checked;
  if (auto checked = check_allocator(configuration.text("memory.allocator"),
                                     configuration.text("memory.malloc"));
      !checked) {
    return checked;
  }
  if (auto set = set_malloc_policy(configuration.text("memory.malloc")); !set) return set;
  if (!device_.is_cpu()) {
    if (auto set = set_cudnn_benchmark(configuration.flag("cudnn.benchmark")); !set) return set;
  }
  at::set_num_threads(static_cast<int>(configuration.integer("threads.intra_op")));
  if (recipe_.deterministic) allow_deterministic(facts_.device);
  at::globalContext().setDeterministicAlgorithms(recipe_.deterministic, /*warn_only=*/false);

  if (auto opened = open_data(); !opened) return opened;
  warn_of_alike_names();
  if (auto checked = check_ranks(configuration); !checked) return checked;
  const auto compiled = pipeline_for(configuration);
  if (!compiled) return tl::unexpected(compiled.error());
  const input::Pipeline& pipeline = **compiled;
  if (auto tested = compile_test_pipeline(pipeline.shape()); !tested) return tested;
  const auto fitted = fitted_recipe();
  if (!fitted) return tl::unexpected(fitted.error());
  if (auto fits = check_memory_of_model(*fitted, pipeline.shape(), memory_room()); !fits) {
    return fits;
  }
  auto learner = Learner::create(*fitted, pipeline.shape(), device_, &workloads_);
  if (!learner) return tl::unexpected(learner.error());
  learner_ = std::move(*learner);
  if (recipe_.data.type != input::kUnlabelledPictures) {
    if (auto fits = check_targets(learner_->classes()); !fits) return fits;
  }
  const bool is_shuffled = get_bool(recipe_.data.parameters, "shuffle").value_or(true);
  const auto kept = kept_for(pipeline);
  if (!kept) return tl::unexpected(kept.error());
  auto feed = Feed::create(
      *train_data_, {.seed = recipe_.seed, .is_shuffled = is_shuffled, .share = share()}, pipeline,
      device_, feed_settings_of(recipe_, configuration, pipeline, *kept, memory_allowed_bytes_));
  if (!feed) return tl::unexpected(feed.error());
  feed_ = std::move(*feed);
  if (auto prepared = prepare_graph(configuration); !prepared) return prepared;
  const auto learner_settings = learner_settings_of(configuration, learner_->model());
  if (!learner_settings) return tl::unexpected(learner_settings.error());
  learner_->configure(*learner_settings);
  if (ranks_ != nullptr) learner_->join(*ranks_);
  configure_steps(configuration);
  configuration_ = configuration;
  checkpoints_[kInitial] = capture();
  describe(pipeline);
  return extensions_.configure(configuration, *learner_, may_round(configuration));
}

Result<void> Job::State::open_data() {
  auto data = open(recipe_.data);
  if (!data) return tl::unexpected(data.error());
  train_data_ = std::move(*data);
  auto fits = check_memory_of_samples(train_data_->size(), recipe_.train.ranks, memory_room());
  return fits ? open_test_data() : fits;
}

MemoryRoom Job::State::memory_room() const {
  const bool is_trained = recipe_.data.type != input::kUnlabelledPictures;
  const bool is_on_cpu = device_.is_cpu() && (recipe_.device == "cpu" || !has_gpu_);
  // One of several ranks is told its share; what is needed is that of all.
  const std::int64_t shares = ranks_ != nullptr ? recipe_.train.ranks : 1;
  return {.host_bytes = memory_allowed_bytes_ * shares,
          .device_bytes = is_trained && !device_.is_cpu() ? device_memory_bytes(facts_.device) : 0,
          .trains_on_cpu = is_trained && is_on_cpu};
}

Result<std::unique_ptr<input::Dataset>> Job::State::open(
    const recipes::Component& data, std::span<const std::string> known_classes) {
  if (data.type == Workloads::kType) return workloads_.open_data(data);
  if (data.type == input::kUnlabelledPictures) {
    return input::open_unlabelled_pictures(data.parameters);
  }
  return input::open_dataset(data.type, data.parameters, known_classes);
}

Result<const input::Pipeline*> Job::State::pipeline_for(const Configuration& configuration) {
  const input::PipelineForm form = input::pipeline_form_of(configuration);
  const auto found = pipelines_.find(form);
  if (found != pipelines_.end()) return &found->second;
  auto pipeline = pipeline_of(recipe_, *train_data_, form, share().rank);
  if (!pipeline) return tl::unexpected(pipeline.error());
  return &pipelines_.emplace(form, std::move(*pipeline)).first->second;
}

Result<Prepared> Job::State::prepare(const Configuration& configuration) {
  const std::int64_t start = profiler::now_ns();
  if (auto checked = check(configuration); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto checked = check_ranks(configuration); !checked) return tl::unexpected(checked.error());
  const std::string started_with = restart_part(configuration_, knobs_);
  if (restart_part(configuration, knobs_) != started_with) {
    return fail(ErrorKind::invalid,
                "cannot change while the trainer runs: it was started with " + started_with,
                "prepare", "start another trainer");
  }
  Prepared prepared;
  const Configuration change = configuration_.change_to(configuration);
  for (const auto& [name, value] : change.values()) {
    prepared.changed.push_back(name);
  }
  // First what can fail.
  const auto pipeline = pipeline_for(configuration);
  if (!pipeline) return tl::unexpected(pipeline.error());
  const auto kept = kept_for(**pipeline);
  if (!kept) return tl::unexpected(kept.error());
  if (auto done = prepare_graph(configuration); !done) return tl::unexpected(done.error());
  const auto learner_settings = learner_settings_of(configuration, learner_->model());
  if (!learner_settings) return tl::unexpected(learner_settings.error());
  const FeedSettings feed_settings =
      feed_settings_of(recipe_, configuration, **pipeline, *kept, memory_allowed_bytes_);
  // The allocator keeps the memory of batches of one size in blocks that other sizes cannot use. They are released
  // after the old batches are freed, and before the new ones are allocated, so that no new batch is in such a block.
  const bool is_other_batch = !device_.is_cpu() && change.find("batch_size") != nullptr;
  if (is_other_batch) {
    learner_->drop_step();
    release_device_cache(facts_.device);
  }
  if (feed_settings != feed_->settings()) {
    if (auto done = feed_->configure(feed_settings); !done) return tl::unexpected(done.error());
  } else {
    feed_->give_back_pinned();  // the trial whose two configurations needed it is over
  }
  if (is_other_batch) release_device_cache(facts_.device);
  configure_steps(configuration);
  learner_->configure(*learner_settings);
  if (auto done = extensions_.configure(configuration, *learner_, may_round(configuration)); !done)
    return tl::unexpected(done.error());
  at::set_num_threads(static_cast<int>(configuration.integer("threads.intra_op")));
  configuration_ = configuration;
  rank_step_ns_ = 0;
  prepared.switch_ns = profiler::now_ns() - start;
  return prepared;
}

Result<void> Job::State::prepare_graph(const Configuration& configuration) {
  if (!configuration.flag("cuda.graph")) return {};
  const auto refused = [](std::string what, std::string remedy) {
    return fail(ErrorKind::unsupported, std::move(what), "cuda.graph", std::move(remedy));
  };
  if (ranks_ != nullptr) {
    return refused("a recorded step would not exchange gradients with the other ranks",
                   "leave it off, or train with one rank");
  }
  if (recipe_.model.type == "paced") {
    return refused("a step of the model paced waits on the host, which no graph records",
                   "leave it off");
  }
  for (const recipes::Knob& knob : extensions_.knobs()) {
    const KnobValue* const value = configuration.find(knob.name);
    if (value == nullptr || *value == knob.default_value) continue;
    return refused("code of an extension runs in the step (" + knob.name +
                       "), and a graph would "
                       "leave it out",
                   "turn one of the two off");
  }
  if (learner_->has_recorder()) return {};
  auto recorder = open_cuda_recorder(device_);
  if (!recorder) return tl::unexpected(recorder.error());
  learner_->set_recorder(std::move(*recorder));
  return {};
}

bool Job::State::may_round(const Configuration& configuration) const {
  Configuration turned;
  for (const recipes::Knob& knob : extensions_.knobs()) {
    const KnobValue* const value = configuration.find(knob.name);
    if (value != nullptr && *value != knob.default_value) turned.set(knob.name, *value);
  }
  return recipe_.allows(recipes::RiskClass::numerics, turned);
}

void Job::State::configure_steps(const Configuration& configuration) {
  if (!device_.is_cpu()) {
    // This is for matrix products; convolutions use TF32 by PyTorch's own default.
    at::globalContext().setAllowTF32CuBLAS(configuration.flag("precision.tf32"));
  }
  reads_every_loss_ = configuration.text("train.loss_reading") == "every_step";
  const bool is_indexing = configuration.text("rewrite.gather") == "indexing";
  if (!is_indexing) {
    gather_rewrite_.reset();
  } else if (gather_rewrite_ == nullptr) {
    gather_rewrite_ = rewrite_gather();
  }
}

Checkpoint Job::State::capture(HostMemory memory) {
  extensions_.check_weights();
  Checkpoint checkpoint = learner_->capture(memory);
  checkpoint.position = feed_->position();
  checkpoint.steps = steps_;
  checkpoint.samples = samples_;
  // Left out where it says nothing.
  if (rate_factor_ != 1.0) {
    checkpoint.others.emplace_back(kRateFactor, at::full({}, rate_factor_, at::kDouble));
  }
  if (schedule_begin_ != 0) {
    checkpoint.others.emplace_back(kScheduleBegin, at::full({}, schedule_begin_, at::kLong));
  }
  return checkpoint;
}

double Job::State::learning_rate() const {
  const std::int64_t batch_size = configuration_.integer("batch_size");
  const TrainingLength plan = training_length(recipe_.train, batch_size, this->samples_per_epoch());
  const std::int64_t samples_per_epoch =
      recipe_.train.drop_last ? plan.steps_per_epoch * batch_size : this->samples_per_epoch();
  return recipe_.learning_rate_at(batch_size) * rate_factor_ *
         recipes::schedule_factor(
             recipe_.schedule, std::max<std::int64_t>(samples_ - schedule_begin_, 0),
             {.samples_per_epoch = samples_per_epoch,
              .samples = std::max<std::int64_t>(plan.samples - schedule_begin_, 1),
              .samples_per_step = recipe_.train.batch_size});
}

Result<void> Job::State::restore(const std::string& name,
                                 const std::optional<TrainingPosition>& place) {
  const auto checkpoint = find(name);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  if ((*checkpoint)->position.sample > samples_per_epoch()) {
    return fail(ErrorKind::invalid,
                "the checkpoint is of other training data, which have more samples", name);
  }
  if (place && (place->epoch < 0 || place->sample < 0 || place->steps < 0 ||
                place->samples.value_or(0) < 0 || place->sample > samples_per_epoch())) {
    return fail(ErrorKind::invalid, "the place to go on from is not within the training data",
                name);
  }
  if (auto done = learner_->restore(**checkpoint); !done) return done;
  feed_->seek(place ? input::Position{.epoch = place->epoch, .sample = place->sample}
                    : (*checkpoint)->position);
  steps_ = place ? place->steps : (*checkpoint)->steps;
  samples_ = place ? place->samples.value_or((*checkpoint)->samples) : (*checkpoint)->samples;
  rate_factor_ = 1.0;
  schedule_begin_ = 0;
  for (const auto& [saved, tensor] : (*checkpoint)->others) {
    if (saved == kRateFactor) rate_factor_ = tensor.item<double>();
    if (saved == kScheduleBegin) schedule_begin_ = tensor.item<std::int64_t>();
  }
  if (samples_ != (*checkpoint)->samples && (*checkpoint)->samples > 0) {
    // `place` may count samples differently than the checkpoint (another batch size): the schedule then begins at the
    // same share of them.
    schedule_begin_ =
        std::llround(static_cast<double>(schedule_begin_) * static_cast<double>(samples_) /
                     static_cast<double>((*checkpoint)->samples));
  }
  return {};
}

TrainingPosition Job::State::place() const {
  const input::Position position = feed_->position();
  return {.epoch = position.epoch, .sample = position.sample, .steps = steps_};
}

Result<void> Job::State::drop(const std::string& name) {
  if (name == kInitial) return fail(ErrorKind::invalid, "this checkpoint cannot be dropped", name);
  if (auto found = find(name); !found) return tl::unexpected(found.error());
  checkpoints_.erase(name);
  return {};
}

Error Job::State::told_with_others(Error error, const input::Dataset& data,
                                   const CancelCheck& is_cancelled) {
  if (data.damage() != nullptr || !input::is_damage(error) ||
      data.type().element != input::Element::encoded) {
    return error;
  }
  auto found = damaged_found_.find(&data);
  if (found == damaged_found_.end()) {
    const recipes::Component& of_training = recipe_.input.front();
    const input::Transform first = &data == test_data_.get()
                                       ? test_transforms_.front()
                                       : input::Transform{of_training.type, of_training.parameters};
    bool was_cancelled = false;
    input::DamageFound searched =
        input::search_damage(data, first, cpus_allowed_, kMaxSearching,
                             [&] { return was_cancelled = is_cancelled && is_cancelled(); });
    if (was_cancelled) {
      warnings_.push_back(input::with_others(std::move(error), searched));
      return cancelled_error();
    }
    found = damaged_found_.emplace(&data, std::move(searched)).first;
  }
  return input::with_others(std::move(error), found->second);
}

std::vector<Error> Job::State::take_damaged_files() {
  std::vector<Error> all;
  for (const input::Dataset* data : {train_data_.get(), test_data_.get()}) {
    if (data == nullptr || data->damage() == nullptr) continue;
    std::size_t& taken = damaged_taken_[data];
    for (Error& error : data->damage()->found(taken)) {
      all.push_back(std::move(error));
      ++taken;
    }
  }
  return all;
}

std::int64_t Job::State::damaged_files() const {
  std::int64_t count = 0;
  for (const input::Dataset* data : {train_data_.get(), test_data_.get()})
    if (data != nullptr && data->damage() != nullptr) count += data->damage()->count();
  return count;
}

void Job::State::abandon_step() {
  extensions_.abandon_step();
  steps_left_ = 0;
  ends_with_epoch_ = false;
  learner_->drop_step();
  outputs_.clear();  // of a check that has failed
  feed_->seek(feed_->position());
  feed_->give_back_pinned();
  release_device_cache(facts_.device);
}

void Job::State::describe(const input::Pipeline& pipeline) {
  const input::SampleShape shape = pipeline.shape();
  facts_.parameters = learner_->parameter_count();
  facts_.parameter_bytes = learner_->parameter_bytes();
  facts_.has_filters = learner_->has_filters();
  facts_.train_samples = train_data_->size();
  facts_.test_samples = test_data_ != nullptr ? test_data_->size() : 0;
  facts_.sample_shape = {shape.channels, shape.height, shape.width};
  facts_.stored_as = name_of(train_data_->type().element);
  facts_.class_names.assign(train_data_->class_names().begin(), train_data_->class_names().end());
  const input::TargetType target = train_data_->target();
  facts_.tokens_per_sample = target.has_tokens() ? target.width : 0;
  if (target.has_tokens()) facts_.sample_shape = {target.width};
  facts_.classes = learner_->classes();
  facts_.keep_float32_obstacle = learner_->model().why_opaque();
  facts_.can_move_crop = pipeline.chances().can_move_crop;
  facts_.can_decode_crop = pipeline.chances().can_decode_crop;
  facts_.pixel_stages = pipeline.chances().pixel_stages;
  facts_.decode_scale = input::decode_scale_name(pipeline.chances().decode_scale);
  facts_.dilates = pipeline.chances().dilates;
  facts_.can_finish_on_device = pipeline.chances().can_finish_on_device;
  describe_caches();
  describe_index();
  facts_.device_memory_bytes = device_memory_bytes(facts_.device);
}

}  // namespace autotuned::trainer
