// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job.hpp"

#include <utility>

#include "trainer/common/guarded.hpp"
#include "trainer/job/job_state.hpp"

namespace autotuned::trainer {
namespace {

// A checkpoint that is being written when work fails: that of a block goes with it; a training waits for its own, and
// reports it.
enum class Export { ends, goes_on };

// Work that steps: after an error nothing of the step stays.
template <class Work>
std::invoke_result_t<Work> guarded_steps(Job::State& state, Work&& work,
                                         Export exported = Export::ends) {
  auto result = guarded("training step", std::forward<Work>(work));
  if (!result) {
    (void)guarded("training step", [&state, exported]() -> Result<void> {
      if (exported == Export::ends && state.writer().is_busy()) (void)state.writer().finish();
      state.abandon_step();
      return {};
    });
  }
  return result;
}

}  // namespace

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::~Job() = default;

Result<std::unique_ptr<Job>> Job::load(const recipes::Recipe& recipe,
                                       const Configuration& configuration, const Machine& machine,
                                       const Devices& devices,
                                       std::vector<plugins::TrainerLibrary> libraries,
                                       RankGroup* ranks) {
  const auto device = choose_device(recipe.device, devices, ranks != nullptr ? ranks->rank() : 0,
                                    recipe.train.ranks);
  if (!device) return tl::unexpected(device.error());
  return guarded("load", [&]() -> Result<std::unique_ptr<Job>> {
    auto state = std::make_unique<State>(recipe, machine, *device, std::move(libraries), ranks);
    if (auto loaded = state->load(configuration); !loaded) return tl::unexpected(loaded.error());
    return std::unique_ptr<Job>(new Job(std::move(state)));
  });
}

const JobFacts& Job::facts() const {
  return state_->facts();
}
const recipes::Recipe& Job::recipe() const {
  return state_->recipe();
}
const Configuration& Job::configuration() const {
  return state_->configuration();
}
RankGroup* Job::ranks() const {
  return state_->ranks();
}
std::int64_t Job::samples_per_epoch() const {
  return state_->samples_per_epoch();
}
std::int64_t Job::steps() const {
  return state_->steps();
}
std::int64_t Job::samples() const {
  return state_->samples();
}
bool Job::times_parts() const {
  return !state_->feed().statistics().part_ns.empty();
}

Result<void> Job::take_from_leader(std::span<double> numbers) {
  return guarded("ranks", [&]() -> Result<void> {
    if (state_->ranks() != nullptr) state_->ranks()->take_from_leader(numbers);
    return {};
  });
}

Result<void> Job::start_together() {
  return guarded("ranks", [&] { return state_->start_together(); });
}

Result<Prepared> Job::prepare(const Configuration& configuration) {
  return guarded("prepare", [&] { return state_->prepare(configuration); });
}

Result<Block> Job::run(const RunRequest& request, const CancelCheck& is_cancelled) {
  return guarded_steps(*state_, [&] { return state_->run(request, is_cancelled); });
}

Result<Block> Job::run_steps(std::int64_t count, const CancelCheck& is_cancelled) {
  return guarded_steps(*state_, [&] { return state_->run_steps(count, is_cancelled); });
}

Result<CheckedSteps> Job::check_steps(const CheckRequest& request,
                                      const CancelCheck& is_cancelled) {
  return guarded_steps(*state_, [&] { return state_->check_steps(request, is_cancelled); });
}

Result<JobProfile> Job::profile(std::int64_t steps, std::int64_t warmup_steps,
                                const CancelCheck& is_cancelled, std::int64_t maximum_ns) {
  return guarded_steps(
      *state_, [&] { return state_->profile(steps, warmup_steps, is_cancelled, maximum_ns); });
}

Result<void> Job::time_checkpoint(const std::filesystem::path& file) {
  return guarded("checkpoint", [&] { return state_->time_checkpoint(file); });
}

Result<JobTrace> Job::trace(const TraceRequest& request, const CancelCheck& is_cancelled) {
  return guarded_steps(*state_, [&] { return state_->trace(request, is_cancelled); });
}

Result<void> Job::release_memory() {
  return guarded("release", [&]() -> Result<void> {
    state_->feed().give_back_pinned();
    release_device_cache(state_->facts().device);
    return {};
  });
}

void Job::resume_loading() {
  state_->feed().resume();
}
void Job::pause_loading() {
  state_->feed().pause();
}

Result<Stretch> Job::advance(const StretchLimits& limits, const CancelCheck& is_cancelled) {
  return guarded_steps(
      *state_, [&] { return state_->advance(limits, is_cancelled); }, Export::goes_on);
}

Result<TestResult> Job::evaluate(const CancelCheck& is_cancelled) {
  return guarded_steps(
      *state_, [&] { return state_->evaluate(is_cancelled); }, Export::goes_on);
}

std::vector<Error> Job::take_damaged_files() {
  return state_->take_damaged_files();
}

std::int64_t Job::damaged_files() const {
  return state_->damaged_files();
}

std::vector<std::string> Job::damaged_names() const {
  return state_->damaged_names();
}

std::vector<Error> Job::take_warnings() {
  return state_->take_warnings();
}

Result<std::int64_t> Job::keep(const std::string& name) {
  return guarded("checkpoint", [&] { return state_->keep(name); });
}

Result<void> Job::restore(const std::string& name) {
  return guarded("restore", [&] { return state_->restore(name); });
}

Result<void> Job::restore(const std::string& name, const TrainingPosition& place) {
  return guarded("restore", [&] { return state_->restore(name, place); });
}

TrainingPosition Job::place() const {
  return state_->place();
}

Result<void> Job::drop(const std::string& name) {
  return guarded("drop", [&] { return state_->drop(name); });
}

Result<std::int64_t> Job::export_to(const std::filesystem::path& file, const std::string& name,
                                    const std::string& note) {
  return guarded("export", [&]() -> Result<std::int64_t> {
    const auto checkpoint = state_->find(name);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    return write_checkpoint(file, **checkpoint, note);
  });
}

Result<void> Job::begin_export(const std::filesystem::path& file, const std::string& note) {
  return guarded("checkpoint", [&]() -> Result<void> {
    state_->writer().begin(file, state_->capture(HostMemory::page_locked), note);
    return {};
  });
}

bool Job::is_exporting() const {
  return state_->writer().is_busy();
}

bool Job::is_exported() const {
  return state_->writer().is_done();
}

Result<std::int64_t> Job::finish_export() {
  return state_->writer().finish();
}

Result<std::string> Job::import_from(const std::filesystem::path& file, const std::string& name) {
  return guarded("import", [&]() -> Result<std::string> {
    auto read = read_checkpoint(file);
    if (!read) return tl::unexpected(read.error());
    state_->put(name, std::move(read->checkpoint));
    return std::move(read->note);
  });
}

Result<std::int64_t> Job::round(const std::string& name, const std::string& as) {
  return guarded("round", [&]() -> Result<std::int64_t> {
    const auto checkpoint = state_->find(name);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    Checkpoint result = rounded(**checkpoint);
    const std::int64_t bytes = result.bytes();
    state_->put(as, std::move(result));
    return bytes;
  });
}

Result<std::int64_t> Job::renew(const std::string& name, const std::string& as) {
  return guarded("renew", [&]() -> Result<std::int64_t> {
    const auto checkpoint = state_->find(name);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    const auto initial = state_->find("initial");
    if (!initial) return tl::unexpected(initial.error());
    Checkpoint result = renewed(**checkpoint, **initial);
    const std::int64_t bytes = result.bytes();
    state_->put(as, std::move(result));
    return bytes;
  });
}

Result<Comparison> Job::compare(const std::string& base, const std::string& reference,
                                const std::string& candidate,
                                const std::string& candidate_base) const {
  return guarded("compare", [&]() -> Result<Comparison> {
    std::vector<const Checkpoint*> found;
    for (const std::string* name :
         {&base, &reference, &candidate, candidate_base.empty() ? &base : &candidate_base}) {
      const auto checkpoint = state_->find(*name);
      if (!checkpoint) return tl::unexpected(checkpoint.error());
      found.push_back(*checkpoint);
    }
    return trainer::compare(*found[0], *found[1], *found[2], found[3]);
  });
}

double Job::rate_factor() const {
  return state_->rate_factor();
}

void Job::set_rate_factor(double factor) {
  state_->set_rate_factor(factor);
}

void Job::begin_schedule(bool is_anew) {
  state_->begin_schedule(is_anew);
}

double Job::last_learning_rate() const {
  return state_->last_learning_rate();
}

Result<Json> Job::data_identity() const {
  return guarded("data", [&]() -> Result<Json> { return state_->data_identity(); });
}

Result<std::string> Job::digest() {
  return guarded("digest", [&]() -> Result<std::string> { return digest_of(state_->capture()); });
}

Result<std::string> Job::parameter_digest() {
  return guarded("digest", [&]() -> Result<std::string> {
    Checkpoint checkpoint = state_->capture();
    checkpoint.buffers.clear();
    checkpoint.averages.clear();
    return digest_of(checkpoint);
  });
}

Result<std::int64_t> Job::save_model(const std::filesystem::path& file) {
  return guarded("save", [&]() -> Result<std::int64_t> {
    Checkpoint checkpoint = state_->capture();
    state_->add_tied_names(checkpoint);
    // The model comes last, so that all files exist when the request is answered.
    if (!checkpoint.averages.empty()) {
      std::filesystem::path beside = file;
      beside.replace_filename(file.stem().string() + "_ema" + file.extension().string());
      if (auto written = write_averaged_model(beside, checkpoint); !written) return written;
    }
    if (file.filename() == "model.pt") {
      if (auto listed = state_->list_held_out(file.parent_path()); !listed) {
        return forward_error(listed);
      }
    }
    return write_model(file, checkpoint);
  });
}

}  // namespace autotuned::trainer
