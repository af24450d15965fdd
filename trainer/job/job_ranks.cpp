// SPDX-License-Identifier: Apache-2.0
// A job as one of several ranks.
#include <ATen/Context.h>

#include <array>
#include <mutex>
#include <string>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/input/common/random.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"

namespace autotuned::trainer {

Result<void> Job::State::check_ranks(const Configuration& configuration) const {
  if (recipe_.train.ranks == 1) return check_alone(configuration);
  const auto refuse = [](std::string what, std::string remedy) {
    return fail(ErrorKind::unsupported, std::move(what), "train.ranks", std::move(remedy));
  };
  for (const recipes::Knob& knob : extensions_.knobs()) {
    const KnobValue* const value = configuration.find(knob.name);
    if (value == nullptr || *value == knob.default_value) continue;
    return refuse("several ranks do not work with trainer extensions so far, and " + knob.name +
                      " is one of them",
                  "leave it out of start, or train with one rank");
  }
  if (train_data_ == nullptr) return {};
  const std::int64_t samples = train_data_->size();
  const std::int64_t batch = configuration.integer("batch_size");
  if (share().samples_of(samples) >= (recipe_.train.drop_last ? batch : 1)) return {};
  return fail(ErrorKind::invalid,
              "each of " + std::to_string(recipe_.train.ranks) + " ranks has " +
                  std::to_string(share().samples_of(samples)) + " of the " +
                  std::to_string(samples) + " samples, and a batch of " + std::to_string(batch) +
                  " never fills",
              "train.ranks", "use fewer ranks or smaller batches");
}

Result<void> Job::State::check_alone(const Configuration& configuration) const {
  for (const recipes::Knob& knob : built_in_knobs_) {
    const KnobValue* const value = configuration.find(knob.name);
    if (!recipes::is_of_ranks(knob.name) || value == nullptr || *value == knob.default_value) {
      continue;
    }
    return fail(ErrorKind::unsupported,
                "needs several ranks, which exchange gradients; this job has one", knob.name,
                "leave it out, or set train.ranks");
  }
  return {};
}

input::Share Job::State::share() const {
  return {.rank = ranks_ != nullptr ? ranks_->rank() : 0,
          .ranks = recipe_.train.ranks,
          .drops = recipe_.train.drop_last};
}

std::int64_t Job::State::samples_per_epoch() const {
  return share().samples_of(train_data_->size());
}

Result<void> Job::State::start_together() {
  if (ranks_ == nullptr) return {};
  double steps = static_cast<double>(steps_);
  ranks_->take_from_leader({&steps, 1});
  if (steps != static_cast<double>(steps_)) {
    return fail(ErrorKind::invalid,
                "this rank goes on from step " + std::to_string(steps_) + ", the first rank from " +
                    std::to_string(static_cast<std::int64_t>(steps)),
                "training", "delete the checkpoint to train from the start");
  }
  learner_->take_state_from_leader();
  question_ = {};
  return {};
}

bool Job::State::is_cancelled_for_all(CancelPoll& cancel) {
  if (ranks_ == nullptr) return cancel(profiler::now_ns());
  if (++question_.steps < question_.after) return false;
  // All count their steps alike, and take from the leader when to ask again.
  const std::int64_t now = profiler::now_ns();
  const bool is_first = question_.asked_ns == 0;
  const std::int64_t elapsed = is_first ? 0 : now - question_.asked_ns;
  std::array<double, 2> told = {
      cancel(now) ? 1.0 : 0.0,
      is_first ? 1.0 : static_cast<double>(steps_until_question(question_.steps, elapsed))};
  ranks_->take_from_leader(told);
  question_ = {
      .steps = 0, .after = static_cast<std::int64_t>(told[1]), .asked_ns = profiler::now_ns()};
  return told[0] != 0.0;
}

void Job::State::seed_step() const {
  if (ranks_ == nullptr || ranks_->is_leader()) return;
  const std::uint64_t seed =
      input::RandomStream(input::seed_of_rank(recipe_.seed, ranks_->rank()), 0)
          .at(static_cast<std::uint64_t>(steps_));
  const auto begin_with = [seed](at::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  };
  begin_with(at::kCPU);
  if (!device_.is_cpu()) begin_with(device_);
}

Error Job::State::of_this_rank(Error error) const {
  if (ranks_ != nullptr && is_agreed(error.kind)) error.kind = ErrorKind::corrupt;
  return error;
}

Error Job::State::error_of_batch(Error error, const input::Dataset& data,
                                 const CancelCheck& is_cancelled) {
  // The search takes long, and the others would wait for this rank meanwhile.
  if (ranks_ != nullptr) return of_this_rank(std::move(error));
  return told_with_others(std::move(error), data, is_cancelled);
}

std::int64_t Job::State::of_leader(std::int64_t mine) const {
  if (ranks_ == nullptr) return mine;
  auto number = static_cast<double>(mine);
  ranks_->take_from_leader({&number, 1});
  return static_cast<std::int64_t>(number);
}

bool Job::State::as_leader_says(bool mine) const {
  return ranks_ == nullptr ? mine : ranks_->as_leader_says(mine);
}

}  // namespace autotuned::trainer
