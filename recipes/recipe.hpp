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
struct Typed {
  std::string type;
  Json parameters = Json::object();
};

// Processes of one machine.
inline constexpr int kMostRanks = 64;

struct TrainLength {
  // Exactly one of the two is set. `steps` counts steps of the recipe's own batch size, so
  // samples = steps x batch_size whatever batch is chosen.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t batch_size = 32;
  bool drop_last = true;
  int ranks = 1;  // processes that train together, each with batches of its own
};

// What a step does besides forward, backward and update.
struct StepRules {
  std::int64_t accumulate = 1;       // parts of a batch, whose gradients are added up
  std::optional<double> clip_norm;   // the largest 2-norm of all gradients together
  std::optional<double> clip_value;  // the largest magnitude of an element of a gradient
  std::optional<double> ema_decay;   // of a running average of the parameters
  // Of the Beta distributions by which MixUp and CutMix mix the samples of a batch.
  std::optional<double> mixup_alpha;
  std::optional<double> cutmix_alpha;
};

struct Evaluation {
  // What to evaluate on; of no type where a share of the training data is taken instead.
  Typed data;
  // Above 0: that share of the training data, which is not trained on then.
  double split_ratio = 0.0;
  // Transforms; nothing: those of the training without what is random about them.
  std::optional<std::vector<Typed>> input;
  // "epoch" or "end".
  std::string every = "epoch";
  // By which figure one evaluation is better than another: one of figures_of() of the data's target.
  std::string best_by = "accuracy";
  bool saves_best = false;               // the weights of the best one, beside those of the end
  std::optional<std::int64_t> patience;  // evaluations after the best one that end the training
};

enum class LearningRateScaling { none, linear, sqrt };

struct Tune {
  std::optional<std::vector<std::string>> plugins;  // nothing: all
  std::chrono::nanoseconds budget = std::chrono::minutes(10);
  double min_gain_ratio = 0.02;
  double memory_limit_ratio = 0.9;                 // of the device's memory
  std::optional<std::int64_t> memory_limit_bytes;  // instead of the ratio
  double cache_memory_ratio = 0.5;                 // of the memory that is free, for input.cache
  std::optional<std::int64_t> cache_memory_bytes;  // instead of the ratio
  double cache_disk_ratio = 0.5;                   // of the disk space that is free, for the same
  std::optional<std::int64_t> cache_disk_bytes;    // instead of the ratio
  std::vector<std::string> allow;                  // "numerics", "semantics" or knob names
  std::int64_t batch_size_max = 1024;
  LearningRateScaling lr_scaling = LearningRateScaling::none;
};

struct Recipe {
  std::string name;
  std::uint64_t seed = 1;
  std::string device = "auto";  // auto | cpu | cuda | cuda:N
  bool deterministic = false;
  Typed model;
  Typed data;
  std::vector<Typed> input;  // transforms in written order
  std::string loss = "cross_entropy";
  Json loss_parameters = Json::object();  // only what the recipe names
  Typed optimizer;
  Typed schedule{"constant"};  // see recipes/schedule.hpp
  TrainLength train;
  StepRules step_rules;
  std::optional<Evaluation> evaluation;
  Configuration start;  // only what the recipe names
  Tune tune;
  std::filesystem::path output_dir;  // absolute
  std::chrono::nanoseconds checkpoint_every = std::chrono::minutes(10);
  std::optional<std::int64_t> save_every_epochs;  // the weights, each time as a file of its own
  std::optional<std::int64_t> save_every_steps;   // the same; of the recipe's own batch size
  std::int64_t kept_saves = 3;                    // of the files of both
  bool keeps_state = true;                        // of the training's end, to go on from it
  std::filesystem::path file;                     // absolute; empty when read from JSON

  // Every knob: the defaults (with several ranks each gets its part of the threads), the recipe's batch size, then
  // `start`.
  [[nodiscard]] Configuration starting_configuration(const std::vector<Knob>& knobs) const;
  // Whether a change of this class, or of exactly these knobs, is permitted.
  [[nodiscard]] bool allows(RiskClass risk, const Configuration& change) const;
  // The learning rate at a batch size, by the rule of tune.batch_size.lr_scaling; the schedule comes on
  // top.
  [[nodiscard]] double learning_rate_at(std::int64_t batch_size) const;

  // With paths resolved and defaults filled in; what a trainer is sent, and what `check --json` prints.
  [[nodiscard]] Json to_json() const;
  [[nodiscard]] static Result<Recipe> from_json(const Json& value);

  // Identity of the job: 16 hexadecimal digits. Leaves out name, seed, output, training length, what
  // evaluations decide and budget; counts data by its files' names and bytes.
  [[nodiscard]] std::string hash() const;
};

// A file that model or data of a recipe name, or files by a pattern (base/file_pattern.hpp).
struct InputFiles {
  std::string key;   // "model.weights", "data.files"
  std::string path;  // absolute
  bool is_pattern = false;
};
// All of them, in the order of their keys in the reference.
[[nodiscard]] std::vector<InputFiles> input_files_of(const Recipe& recipe);

// What several ranks cannot do yet, as ErrorKind::unsupported: train on a GPU that the recipe names.
[[nodiscard]] Result<void> refuse_ranks(const Recipe& recipe);

// Reads and checks a recipe against the schema and against the knobs of this machine; all mistakes at
// once. Relative paths in it are relative to the recipe's folder... except `output.dir`, which is
// relative to the current folder, where its user expects results.
[[nodiscard]] tl::expected<Recipe, std::vector<Diagnostic>> read_recipe(
    const std::filesystem::path& file, const std::vector<Knob>& knobs);
[[nodiscard]] tl::expected<Recipe, std::vector<Diagnostic>> parse_recipe(
    std::string_view text, const std::filesystem::path& file, const std::vector<Knob>& knobs,
    NamedFiles files = NamedFiles::must_exist);

}  // namespace autotuned::recipes
