// SPDX-License-Identifier: Apache-2.0
#include "daemon/cli/model/trained_model.hpp"

#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/run_files.hpp"
#include "daemon/report/script_report.hpp"
#include "recipes/targets.hpp"

namespace autotuned::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSummaryBytes = std::size_t{64} << 20U;
constexpr const char* kNames = "name a run (`autotuned history` lists them) or its output folder";

// A run in the history, whatever it did.
Result<storage::RunRow> run_named(const std::string& name, const fs::path& history_file) {
  auto history = open_history(history_file, storage::Access::read_only);
  if (!history) {
    Error error = history.error();
    error.kind = ErrorKind::io;  // no mistake in the command line
    return tl::unexpected(std::move(error));
  }
  auto run = history->run(name);
  if (!run) {
    if (run.error().kind == ErrorKind::not_found) run.error().remedy = kNames;
    return tl::unexpected(run.error());
  }
  return *std::move(run);
}

// owner_of_model(), where there is a history.
std::optional<storage::RunRow> owner_in(const fs::path& history_file, const std::string& folder) {
  const auto history = open_history(history_file, storage::Access::read_only);
  return history ? owner_of_model(*history, folder) : std::nullopt;
}

bool takes_tokens(const storage::RunRow& run) {
  const std::string data = get_string(member(run.recipe, "data"), "type").value_or("");
  return recipes::target_of(data) == recipes::Target::tokens;
}

// Whether the output folder of the run is there, with what the run left in it.
Result<void> check_folder_of(const storage::RunRow& run, const fs::path& history_file) {
  if (is_script(run.recipe)) {
    return fail(ErrorKind::invalid, "it is the run of a script, which saves its own model",
                "run " + run.id.text, "load that model as the script does");
  }
  if (takes_tokens(run)) return tl::unexpected(tokens_error("run " + run.id.text));
  if (run.output_dir.empty()) {
    return fail(ErrorKind::not_found, "it has no output folder", "run " + run.id.text, kNames);
  }
  const RunFiles files = files_of(run);
  if (files.other_run.empty()) return {};
  const auto owner = owner_in(history_file, run.output_dir);
  if (owner && owner->id.text == run.id.text) return {};
  const std::string other = owner ? owner->id.text : files.other_run;
  return fail(ErrorKind::not_found, "its model has been replaced by that of run " + other,
              run.output_dir,
              "name that run, or train this recipe again into a folder of its own (--output)");
}

Result<void> read_summary(const fs::path& history, TrainedModel& model) {
  const fs::path file = model.folder / "summary.json";
  const auto text = read_file(file, kMaxSummaryBytes);
  if (!text && text.error().kind == ErrorKind::not_found) return {};
  if (!text) return forward_error(text);
  const auto summary = parse_json(*text, file.string(), kMaxSummaryBytes);
  if (!summary || !summary->is_object()) {
    const std::string why = summary ? "it is no object" : summary.error().what;
    return fail(ErrorKind::corrupt, "it cannot be read: " + why, file.string(),
                "copy it from its origin again: it says what the outputs of the model are");
  }
  model.run = get_string(*summary, "run").value_or("");
  Json training = member(*summary, "training");
  if (!training.contains("steps")) {
    // Older versions replaced the summary and best.yaml of a model when a run only tuned into its folder.
    auto owner = owner_in(history, model.folder.string());
    if (owner && owner->id.text != model.run) {
      model.run = owner->id.text;
      training = owner->training;
      model.owner = std::move(owner);
    }
  }
  model.stored_as = get_string(training, "stored_as").value_or("");
  for (const Json& size : member(training, "sample_shape"))
    if (size.is_number_integer()) model.sample_shape.push_back(size.get<std::int64_t>());
  for (const Json& name : member(training, "class_names"))
    if (name.is_string()) model.names.push_back(name.get<std::string>());
  for (const auto& [name, digest] : member(training, kModelDigests).items())
    if (digest.is_string()) model.digests[name] = digest.get<std::string>();
  return {};
}

}  // namespace

Result<TrainedModel> find_trained_model(const std::string& name, const fs::path& history) {
  std::error_code ignored;
  fs::path folder = name;
  TrainedModel model;
  bool is_unfinished = false;  // the named run
  if (fs::is_regular_file(folder, ignored)) {
    return fail(ErrorKind::invalid, "it is a file, where a run or its output folder is expected",
                name, "name the folder; --weights FILE chooses other weights in it than model.pt");
  }
  if (!fs::is_directory(folder, ignored)) {
    if (name.find('/') != std::string::npos) {
      return fail(ErrorKind::not_found, "there is no such folder", name, kNames);
    }
    const auto found = run_named(name, history);
    if (!found) return forward_error(found);
    folder = found->output_dir;
    model.named_run = found->id.text;
    is_unfinished = found->state != storage::RunState::finished && !found->is_tune_only;
    if (auto checked = check_folder_of(*found, history); !checked) {
      return tl::unexpected(told_of_last(std::move(checked.error()), name, model));
    }
  }
  model.folder = fs::absolute(folder, ignored).lexically_normal();
  if (!model.folder.has_filename()) model.folder = model.folder.parent_path();  // "out/"
  if (!fs::is_regular_file(model.folder / "best.yaml", ignored)) {
    Error error{ErrorKind::not_found, "it holds no best.yaml, the recipe of a finished run",
                model.folder.string(), kNames};
    if (is_unfinished) {
      error.what = "it has no model, since it has not trained to its end";
      error.where = "run " + model.named_run;
      error.remedy = "`autotuned run` with its recipe trains one";
    }
    return tl::unexpected(told_of_last(std::move(error), name, model));
  }
  if (auto read = read_summary(history, model); !read) return forward_error(read);
  return model;
}

Error tokens_error(std::string where) {
  return {ErrorKind::invalid, "the model takes tokens, and predict is for pictures",
          std::move(where),
          "load the trained model in PyTorch: docs/recipe.md, Use the trained model"};
}

Error told_of_last(Error error, const std::string& name, const TrainedModel& model) {
  if (name != "last" || model.named_run.empty()) return error;
  error.what +=
      " (`last` is the newest run, whether or not it has a model: " + model.named_run + ")";
  return error;
}

std::string earlier_run_note(const TrainedModel& model) {
  if (model.named_run.empty() || model.run.empty() || model.named_run == model.run) return {};
  return "run " + model.named_run + " has not written a model; this is that of the earlier run " +
         model.run + " in the same folder, " + model.folder.string();
}

Result<void> check_weights(const TrainedModel& model, const fs::path& weights) {
  const auto expected = model.digests.find(weights.filename().string());
  if (expected == model.digests.end()) return {};
  const auto digest = sha256_hex_of_file(weights);
  if (!digest) return forward_error(digest);
  if (*digest == expected->second) return {};
  return fail(
      ErrorKind::corrupt,
      "it is not what run " + model.run + " wrote, which summary.json beside it describes",
      weights.string(),
      "let a run that trains into this folder end, copy all files of one run again, or name "
      "weights of this model with --weights FILE");
}

}  // namespace autotuned::daemon
