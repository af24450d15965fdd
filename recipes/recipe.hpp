// SPDX-License-Identifier: Apache-2.0
// A recipe: what to train, on what, how long, from which configuration, and what may be tuned.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/configuration.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/result.hpp"
#include "recipes/knobs.hpp"
#include "recipes/yaml.hpp"

namespace autotuned::recipes {

// A component of a named type with parameters: a model, a data set, a transform, an optimizer... The schema
// (recipes/schema.hpp) has checked the parameters and filled in their defaults.
struct Component {
  std::string type;
  Json parameters = Json::object();
};

// How many numbers an optimizer keeps for each parameter that it updates.
[[nodiscard]] std::int64_t optimizer_states(const Component& optimizer);

// The largest number of ranks, which are processes of one machine.
inline constexpr int kMaxRanks = 64;

// The length of a training, and the batches of its steps.
struct TrainLength {
  // Exactly one of the two is set. `steps` counts steps with the recipe's own batch size: the number of samples is
  // steps x batch_size, also if tuning changes the batch size.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t batch_size = 32;
  bool drop_last = true;
  int ranks = 1;  // processes that train together, each with batches of its own
};

// The parts of a step besides forward, backward and update.
struct StepRules {
  std::int64_t accumulate = 1;       // number of parts of a batch, whose gradients are added up
  std::optional<double> clip_norm;   // the largest 2-norm of all gradients together
  std::optional<double> clip_value;  // the largest magnitude of an element of a gradient
  std::optional<double> ema_decay;   // decay of a running average of the parameters
  // Parameters of the Beta distributions with which MixUp and CutMix mix the samples of a batch.
  std::optional<double> mixup_alpha;
  std::optional<double> cutmix_alpha;
};

// When and on what the model is evaluated, and what follows from the figures.
struct Evaluation {
  // The test data. Its type is empty if a share of the training data is used instead.
  Component data;
  // If above 0: the share of the training data that is used for evaluations and not for training.
  double split_ratio = 0.0;
  // Transforms of the test samples; if not set, those of the training without the random ones.
  std::optional<std::vector<Component>> input;
  // "epoch" or "end".
  std::string every = "epoch";
  // The figure that decides which evaluation is better: one of figures_of() for the target of the data.
  std::string best_by = "accuracy";
  bool saves_best = false;  // saves the weights of the best evaluation, beside those of the end
  // The training ends after so many evaluations without a better one.
  std::optional<std::int64_t> patience;
};

enum class LearningRateScaling { none, linear, sqrt };

// The limits of the tuning.
struct Tune {
  std::optional<std::vector<std::string>> plugins;  // not set: all
  std::chrono::nanoseconds budget = std::chrono::minutes(10);
  double min_gain_ratio = 0.02;
  double memory_limit_ratio = 0.9;                 // share of the device's memory
  std::optional<std::int64_t> memory_limit_bytes;  // instead of the ratio
  double cache_memory_ratio = 0.5;                 // share of the free memory, for input.cache
  std::optional<std::int64_t> cache_memory_bytes;  // instead of the ratio
  double cache_disk_ratio = 0.5;                   // share of the free disk space, for input.cache
  std::optional<std::int64_t> cache_disk_bytes;    // instead of the ratio
  std::vector<std::string> allow;                  // "numerics", "semantics" or knob names
  std::int64_t batch_size_max = 1024;
  LearningRateScaling lr_scaling = LearningRateScaling::none;
};

// A checked recipe with all defaults.
struct Recipe {
  std::string name;
  std::uint64_t seed = 1;
  std::string device = "auto";  // auto | cpu | cuda | cuda:N
  bool deterministic = false;
  Component model;
  Component data;
  std::vector<Component> input;  // transforms, in the order of the recipe
  std::string loss = "cross_entropy";
  Json loss_parameters = Json::object();  // only those that the recipe names
  Component optimizer;
  Component schedule{"constant"};  // see recipes/schedule.hpp
  TrainLength train;
  StepRules step_rules;
  std::optional<Evaluation> evaluation;
  Configuration start;  // only the knobs that the recipe names
  Tune tune;
  std::filesystem::path output_dir;  // absolute
  std::chrono::nanoseconds checkpoint_every = std::chrono::minutes(10);
  std::optional<std::int64_t> save_every_epochs;  // saves the weights to a new file each time
  std::optional<std::int64_t> save_every_steps;   // the same; steps with the recipe's batch size
  std::int64_t kept_saves = 3;                    // number of these files that are kept
  bool keeps_state = true;     // keeps the state at the end of the training, to extend it
  std::filesystem::path file;  // absolute; empty when read from JSON

  // Returns a value for every knob: its default (with several ranks each rank gets its part of the threads), the recipe's batch
  // size, then `start`.
  [[nodiscard]] Configuration starting_configuration(const std::vector<Knob>& knobs) const;
  // Whether tune.allow permits a change of this class, or of these knobs.
  [[nodiscard]] bool allows(RiskClass risk, const Configuration& change) const;
  // Returns the learning rate at a batch size, by the rule of tune.batch_size.lr_scaling and before the schedule.
  [[nodiscard]] double learning_rate_at(std::int64_t batch_size) const;

  // The recipe with absolute paths and all defaults: the form that trainers get and `check --json` prints.
  [[nodiscard]] Json to_json() const;
  [[nodiscard]] static Result<Recipe> from_json(const Json& value);

  // Identifies the job: 16 hexadecimal digits. Leaves out name, seed, output, training length, budget and the keys that only decide
  // about evaluations. Data counts by the names and sizes of its files.
  [[nodiscard]] std::string hash() const;
};

// A file that the model or the data of a recipe names, or a pattern of files (base/file_pattern.hpp).
struct InputFiles {
  std::string key;   // "model.weights", "data.files"
  std::string path;  // absolute
  bool is_pattern = false;
};
// Returns the files of a recipe, in the order of their keys in the reference (docs/recipe.md).
[[nodiscard]] std::vector<InputFiles> input_files_of(const Recipe& recipe);

// ErrorKind::unsupported if the recipe has several ranks and names a single GPU: each of them needs one.
[[nodiscard]] Result<void> refuse_ranks(const Recipe& recipe);

// Reads a recipe and checks it against the schema and the knobs of this machine. Reports all mistakes at once. Relative paths are
// relative to the recipe's folder, except `output.dir`, which is relative to the current folder.
[[nodiscard]] tl::expected<Recipe, std::vector<Diagnostic>> read_recipe(
    const std::filesystem::path& file, const std::vector<Knob>& knobs);
[[nodiscard]] tl::expected<Recipe, std::vector<Diagnostic>> parse_recipe(
    std::string_view text, const std::filesystem::path& file, const std::vector<Knob>& knobs,
    NamedFiles files = NamedFiles::must_exist);

}  // namespace autotuned::recipes
