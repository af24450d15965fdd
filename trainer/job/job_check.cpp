// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job_check.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "trainer/common/guarded.hpp"
#include "trainer/input/datasets/damage.hpp"
#include "trainer/input/datasets/split_dataset.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/models/model.hpp"

namespace autotuned::trainer {
namespace {

constexpr const char* kCpu = "cpu";

// Without the knobs that only a GPU obeys.
Configuration on_cpu(Configuration configuration) {
  for (const recipes::Knob& knob : recipes::knobs_of(Machine{})) {
    const bool is_here = configuration.find(knob.name) != nullptr;
    if (is_here && knob.is_of_gpu) configuration.set(knob.name, knob.default_value);
  }
  return configuration;
}

// Transforms, knobs and some keys name themselves; for the rest it is the part that was looked at.
std::string key_of(const Error& error, const std::string& part) {
  const std::string& where = error.where;
  if (where.starts_with("evaluate")) return where.substr(0, where.find(','));
  if (where.starts_with("model.") || where == "loss") return where;
  if (where == "input" || where.starts_with("input[")) return where;
  if (where.starts_with("loader") || where == "transfer.dtype") return "train";
  return recipes::find_knob(recipes::knobs_of(Machine{}), where) ? "start." + where : part;
}

// Runs the model on black samples, or on blocks of the first token, to find out whether it accepts them and how many
// outputs it has.
Result<void> look_once(Learner& learner, const JobFacts& facts) {
  constexpr std::int64_t kSamples = 2;
  return guarded("model", [&]() -> Result<void> {
    const at::NoGradGuard no_grad;
    std::vector<std::int64_t> shape = {kSamples};
    shape.insert(shape.end(), facts.sample_shape.begin(), facts.sample_shape.end());
    const bool has_tokens = facts.tokens_per_sample > 0;
    // With a large vocabulary the answer to a whole block takes much memory.
    if (has_tokens) shape.back() = std::min<std::int64_t>(facts.tokens_per_sample, 16);
    learner.model().eval();
    const at::Tensor logits =
        learner.model().forward(at::zeros(shape, has_tokens ? at::kLong : at::kFloat));
    // The expected shape: one row of outputs for each sample, or for each token or pixel.
    std::vector<std::int64_t> wanted = {kSamples};
    if (has_tokens) wanted.push_back(shape.back());
    wanted.push_back(learner.classes());
    if (learner.model().gives_maps()) wanted.insert(wanted.end(), shape.end() - 2, shape.end());
    if (logits.sizes() == at::IntArrayRef(wanted)) return {};
    return fail(ErrorKind::invalid, "it does not give one number per class for each sample",
                "model", "let forward return logits of shape (samples, classes)");
  });
}

}  // namespace

void Job::State::find_problems(const Configuration& configuration, RecipeCheck& found) {
  const auto add = [&found](const std::string& part, Error error) {
    found.problems.push_back({key_of(error, part), std::move(error)});
  };
  std::vector<std::string> names;  // of the training's classes
  const auto look_at = [&](const std::string& part, const recipes::Component& spec) {
    auto data = open(spec, names);
    if (!data) {
      add(part, data.error());
      return;
    }
    if (const std::string doubt = (*data)->doubt(); !doubt.empty()) {
      found.notes.push_back(part + ": " + doubt);
    }
    // With on_error: skip they end no job, and a person should know of them all the same.
    if (const input::Damage* const damage = (*data)->damage();
        damage != nullptr && damage->count() > 0) {
      const std::vector<Error> damaged = damage->found(0);
      found.notes.push_back(part + ": " + format_counted(damage->count(), "picture") +
                            " cannot be read, by the headers, and will be replaced by others: " +
                            damaged.front().where + ": " + damaged.front().what +
                            (damaged.size() > 1 ? ", …" : ""));
    }
    if (part == "data") {
      const auto fits =
          check_memory_of_samples((*data)->size(), recipe_.train.ranks, memory_room());
      if (!fits) {
        add(part, fits.error());
        return;
      }
    }
    if (part == "data" && recipe_.evaluation && recipe_.evaluation->split_ratio > 0) {
      auto split =
          input::split_dataset(*std::move(data), recipe_.evaluation->split_ratio, recipe_.seed);
      if (!split) {
        add(part, split.error());
        return;
      }
      *data = std::move(split->train);
    }
    const recipes::TrainLength& length = recipe_.train;
    const std::int64_t samples = (*data)->size();
    if (part == "data" && length.drop_last && length.batch_size > samples) {
      add("train.batch_size",
          {ErrorKind::invalid,
           "a batch of " + format_count(length.batch_size) + " never fills: the data has " +
               format_count(samples) + " samples, and short batches are dropped",
           "train.batch_size", "use a smaller batch, or train: {drop_last: false}"});
    }
    if (!(*data)->type().is_complete) {
      found.notes.push_back(part + ": the headers of the first pictures were read, not of all " +
                            format_count((*data)->stored().items));
    }
    if (part != "data") return;
    names.assign((*data)->class_names().begin(), (*data)->class_names().end());
    if (const auto pipeline = pipeline_of(recipe_, **data, input::pipeline_form_of(configuration));
        !pipeline) {
      add(part, pipeline.error());
    }
  };
  look_at("data", recipe_.data);
  if (recipe_.evaluation && recipe_.evaluation->split_ratio == 0)
    look_at("evaluate.data", recipe_.evaluation->data);
  if (!found.problems.empty()) return;  // what follows would say the same again
  if (auto loaded = load(configuration); !loaded) {
    add("model", loaded.error());
  } else if (auto seen = look_once(*learner_, facts_); !seen) {
    add("model", seen.error());
  }
  found.parameter_bytes = facts_.parameter_bytes;
  for (const Error& warning : take_warnings())
    found.notes.push_back(warning.message());
}

Result<RecipeCheck> check_recipe(const recipes::Recipe& recipe, const Configuration& configuration,
                                 const Machine& machine, const Devices& devices,
                                 std::vector<plugins::TrainerLibrary> libraries) {
  RecipeCheck found;
  if (auto device = choose_device(recipe.device, devices, 0, recipe.train.ranks); !device) {
    const std::string key = device.error().where;
    found.problems.push_back({key, std::move(device.error())});
  }
  auto checked = guarded("check", [&]() -> Result<void> {
    Job::State state(recipe, machine, kCpu, std::move(libraries));
    state.find_problems(on_cpu(configuration), found);
    return {};
  });
  if (checked) return found;
  // An exception of LibTorch while a model is made is a fault of the model.
  if (checked.error().kind == ErrorKind::internal) {
    found.problems.push_back({"model", std::move(checked.error())});
    return found;
  }
  return tl::unexpected(checked.error());
}

}  // namespace autotuned::trainer
