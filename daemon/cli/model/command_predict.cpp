// SPDX-License-Identifier: Apache-2.0
// predict: what a trained model answers for picture files.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/machine/machine.hpp"
#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/cli/model/prediction_text.hpp"
#include "daemon/cli/model/trained_model.hpp"
#include "daemon/cli/recipe_reading.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/common/trainer_plugins.hpp"
#include "daemon/common/used_device.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/report/characters.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/training_fallback.hpp"
#include "daemon/session/command_device.hpp"
#include "daemon/trainers/measurement_lock.hpp"
#include "daemon/trainers/trainer_client.hpp"
#include "daemon/trainers/trainer_environment.hpp"
#include "recipes/recipe_yaml.hpp"
#include "recipes/targets.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

// The time limit for the model and the first batch; each further picture begins it anew.
constexpr std::chrono::minutes kLimit{10};
// The predictions of a few pictures are not worth a longer wait.
constexpr std::chrono::minutes kMaxWaiting{1};

// The request to the trainer; all paths are absolute.
struct Question {
  fs::path weights;
  std::vector<std::string> pictures;
  std::vector<std::string> masks;  // as PredictOptions::masks; empty: none are written
};

// The error for a name that is not one of a file: what it is instead.
Error no_file_error(const fs::path& name, const std::string& expected) {
  std::error_code ignored;
  const char* is = nullptr;
  switch (fs::status(name, ignored).type()) {
    case fs::file_type::directory:
      is = "is a folder";
      break;
    case fs::file_type::fifo:
      is = "is a pipe";
      break;
    case fs::file_type::socket:
      is = "is a socket";
      break;
    case fs::file_type::character:
    case fs::file_type::block:
      is = "is a device";
      break;
    default:
      return {ErrorKind::not_found, "there is no such file", name.string(), {}};
  }
  return {ErrorKind::invalid, std::string(is) + ", and " + expected, name.string(), {}};
}

Result<std::vector<std::string>> pictures_of(const PredictOptions& options) {
  std::vector<std::string> pictures;
  for (const fs::path& picture : options.pictures) {
    std::error_code ignored;
    if (!fs::is_regular_file(picture, ignored)) {
      Error error = no_file_error(picture, "picture files are expected");
      if (fs::is_directory(picture, ignored))
        error.remedy = "name its files, such as " + (picture / "*.jpg").string();
      return tl::unexpected(std::move(error));
    }
    pictures.push_back(fs::absolute(picture, ignored).string());
  }
  return pictures;
}

fs::path mask_of(const PredictOptions& options, const fs::path& picture) {
  return options.masks / (picture.stem().string() + ".png");
}

// The file of each picture's mask, in a folder that is there afterwards.
Result<std::vector<std::string>> masks_of(const PredictOptions& options,
                                          const recipes::Recipe& recipe) {
  std::vector<std::string> masks;
  if (options.masks.empty()) return masks;
  const recipes::Target target = recipes::target_of(recipe.data.type);
  if (target != recipes::Target::masks) {
    return fail(ErrorKind::invalid,
                "the model gives " + std::string(recipes::name_of(target)) + ", and no masks",
                "--masks", "leave it out");
  }
  std::error_code failed;
  const bool is_ours = !fs::exists(options.masks, failed);
  fs::create_directories(options.masks, failed);
  if (failed) {
    return tl::unexpected(
        system_error(failed.value(), "cannot make the folder for masks", options.masks.string()));
  }
  // In a folder of the user there may be data. Without the mark the masks are only taken for data.
  if (is_ours) {
    (void)write_file_atomically(
        options.masks / kPredictedMark,
        "The masks in this folder are what `autotuned predict` wrote. Delete "
        "this file to train on them.\n");
  }
  std::map<std::string, std::string> picture_of;
  for (const fs::path& picture : options.pictures) {
    const fs::path mask = mask_of(options, picture);
    const auto [other, is_new] = picture_of.emplace(mask.string(), picture.string());
    if (!is_new) {
      return fail(ErrorKind::invalid, "its mask would have the name of that of " + other->second,
                  picture.string(), "give every picture a name of its own, or call twice");
    }
    // Masks replace no files, so the usual remedy of this check, --overwrite, does not apply here.
    if (auto may = check_output_file(mask, /*may_replace=*/true); !may)
      return tl::unexpected(may.error());
    if (fs::exists(mask, failed)) {
      return fail(ErrorKind::invalid, "the file exists already", mask.string(),
                  "name another folder, or remove the file");
    }
    masks.push_back(fs::absolute(mask, failed).string());
  }
  return masks;
}

// With averages of the weights these, which were evaluated.
Result<fs::path> weights_of(const PredictOptions& options, const TrainedModel& model,
                            const recipes::Recipe& recipe) {
  std::error_code ignored;
  if (!options.weights.empty()) {
    if (fs::is_regular_file(options.weights, ignored)) {
      return fs::absolute(options.weights, ignored);
    }
    return tl::unexpected(no_file_error(options.weights, "a file of weights is expected"));
  }
  const fs::path averaged = model.folder / "model_ema.pt";
  if (recipe.step_rules.ema_decay && fs::is_regular_file(averaged, ignored)) return averaged;
  fs::path weights = model.folder / "model.pt";
  if (fs::is_regular_file(weights, ignored)) return weights;
  Error missing{ErrorKind::not_found, "there is no model.pt: the run has not trained to its end",
                model.folder.string(),
                "`autotuned run` with its recipe goes on, or --weights FILE names other weights"};
  return tl::unexpected(told_of_last(std::move(missing), options.model, model));
}

struct Here {
  Machine machine = detect_machine();
  std::vector<plugins::FoundPlugin> trainer_plugins;
  std::vector<recipes::Knob> knobs;
};

// Calls `on_prediction` for each picture, in their order. Returns the trainer's answer.
Result<Json> ask(const Question& question, const PredictOptions& options, const TrainedModel& model,
                 const recipes::Recipe& recipe, const Here& here,
                 const std::function<void(const Json&)>& on_prediction) {
  auto libraries = libraries_for(recipe, here.trainer_plugins);
  if (!libraries) return tl::unexpected(libraries.error());
  TrainerSpec spec;
  spec.program = find_installation_paths().trainer;
  spec.environment = trainer_environment();
  spec.log = "/dev/null";
  // On the CPU a training may go on at the same time; on a GPU the memory must be free. No session measures meanwhile.
  std::optional<DeviceLocks> device;
  if (device_of(recipe, here.machine) != "cpu") {
    auto lock = lock_device_for("predict", recipe, here.machine);
    if (!lock) return tl::unexpected(lock.error());
    spec.inherited_locks = lock->descriptors();
    device.emplace(*std::move(lock));
  }
  SignalCancel cancel;
  MeasurementLock measurement(measurement_lock_file(), kMaxWaiting, [](const std::string&) {
    report_warning("another session measures, and its figures are disturbed by this command");
  });
  const auto turn = measurement.acquire(cancel);
  if (!turn && turn.error().kind == ErrorKind::cancelled) return tl::unexpected(turn.error());
  auto trainer = TrainerClient::start(spec, cancel);
  if (!trainer) return tl::unexpected(trainer.error());
  Json fields = {{"recipe", recipe.to_json()},
                 {"configuration", recipe.starting_configuration(here.knobs).to_json()},
                 {"plugins", *std::move(libraries)},
                 {"weights", question.weights.string()},
                 {"pictures", question.pictures},
                 {"masks", question.masks},
                 {"most_outputs", options.top},
                 {"sample_shape", model.sample_shape},
                 {"stored_as", model.stored_as}};
  const auto is_prediction = [](const Json& progress) { return progress.contains("prediction"); };
  auto answer = trainer->request(
      "predict", std::move(fields), kLimit,
      [&](const Json& progress) {
        if (is_prediction(progress)) on_prediction(member(progress, "prediction"));
      },
      is_prediction);
  trainer->stop();
  return answer;
}

// How many columns of a terminal their names take, beside what is told of each.
int widest(const std::vector<fs::path>& pictures) {
  constexpr int kMax = 40;
  int columns = 0;
  for (const fs::path& picture : pictures)
    columns = std::max(columns, std::min(kMax, columns_of(printable(picture.string()))));
  return columns;
}

// What is printed of the predictions: a line for each as it comes or, for --json, a list at the end.
class PredictionOutput {
 public:
  // Both must outlive this.
  PredictionOutput(const PredictOptions& options, const TrainedModel& model)
      : options_(options), model_(model), columns_(widest(options.pictures)) {}

  // `has_mask`: it was written, beside the prediction.
  void add(const Json& told, bool has_mask) {
    if (next_ == options_.pictures.size()) return;  // more than were asked for
    Json prediction = told.is_object() ? told : Json::object();
    const fs::path& named = options_.pictures[next_++];
    if (prediction.contains("error")) {
      add_unreadable(member(prediction, "error"), named.string());
      return;
    }
    if (has_mask) prediction["mask"] = mask_of(options_, named).string();
    const std::string picture = named.string();
    if (options_.as_json) {
      list_.push_back(prediction_json(prediction, picture, model_.names));
      return;
    }
    std::cout << padded_to(printable(picture), columns_) << "   "
              << printable(prediction_text(prediction, model_.names)) << "\n"
              << std::flush;
  }
  [[nodiscard]] const Json& list() const { return list_; }
  // The pictures that could not be read.
  [[nodiscard]] std::int64_t unreadable() const { return unreadable_; }

 private:
  void add_unreadable(const Json& error, const std::string& picture) {
    ++unreadable_;
    const Error told{ErrorKind::corrupt, get_string(error, "what").value_or("cannot be read"),
                     picture, get_string(error, "remedy").value_or("")};
    report_error(told, kWorkFailed);
    if (options_.as_json) list_.push_back({{"file", picture}, {"error", told.what}});
  }

  const PredictOptions& options_;
  const TrainedModel& model_;
  int columns_;
  std::size_t next_ = 0;
  std::int64_t unreadable_ = 0;
  Json list_ = Json::array();
};

}  // namespace

int predict(const PredictOptions& options) {
  // Relative paths in the options start at the current folder, so it must be there.
  if (auto folder = current_folder(); !folder) {
    return report_error(folder.error(), kEnvironmentUnusable);
  }
  if (auto checked = check_plugin_folders(options.plugin_folders); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  const auto model = find_trained_model(options.model, options.history);
  if (!model) return report_error(model.error(), exit_code_of(model.error()));
  if (const std::string note = earlier_run_note(*model); !note.empty()) {
    std::cerr << "note: " << printable(note) << "\n";
  }
  Here here;
  here.trainer_plugins = trainer_plugins_here(options.plugin_folders);
  here.knobs = knobs_with(recipes::knobs_of(here.machine), here.trainer_plugins);
  std::optional<recipes::Recipe> recipe;
  if (model->owner) {
    auto given = recipes::Recipe::from_json(model->owner->recipe);
    if (!given) return report_error(given.error());
    recipe = recipes::with_configuration(*given, trained_configuration(*model->owner), here.knobs);
  } else {
    recipe = read_recipe_or_report(model->folder / "best.yaml", here.knobs, options.as_json,
                                   std::nullopt, recipes::NamedFiles::may_be_missing);
  }
  if (!recipe) return kUsageError;
  if (report_problems(workload_problems(*recipe, here.trainer_plugins), options.as_json)) {
    return kUsageError;
  }
  // Before its weights are missed: to train on would not help.
  if (recipes::target_of(recipe->data.type) == recipes::Target::tokens) {
    return report_error(tokens_error(options.model), kUsageError);
  }
  Question question;
  if (auto weights = weights_of(options, *model, *recipe)) {
    question.weights = *std::move(weights);
  } else {
    return report_error(weights.error(), kUsageError);
  }
  // Weights that the user names may be from elsewhere, so only the run's own are checked.
  if (options.weights.empty()) {
    if (auto checked = check_weights(*model, question.weights); !checked) {
      return report_error(checked.error(), exit_code_of(checked.error()));
    }
  }
  if (auto pictures = pictures_of(options)) {
    question.pictures = *std::move(pictures);
  } else {
    return report_error(pictures.error(), kUsageError);
  }
  if (auto masks = masks_of(options, *recipe)) {
    question.masks = *std::move(masks);
  } else {
    return report_error(masks.error(), exit_code_of(masks.error()));
  }
  PredictionOutput output(options, *model);
  const auto answer = ask(question, options, *model, *recipe, here, [&](const Json& prediction) {
    output.add(prediction, !question.masks.empty());
  });
  if (!answer) return report_measuring_error(answer.error());
  if (options.as_json) {
    std::cout << to_line({{"run", model->run.empty() ? Json() : Json(model->run)},
                          {"weights", question.weights.string()},
                          {"target", member(*answer, "target")},
                          {"device", member(*answer, "device")},
                          {"pictures", output.list()}})
              << "\n";
  }
  return output.unreadable() == 0 ? kDone : kWorkFailed;
}

}  // namespace autotuned::daemon
