// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "profiler/spans.hpp"
#include "trainer/evaluation/best_evaluation.hpp"
#include "trainer/evaluation/plateau.hpp"
#include "trainer/evaluation/test_figures.hpp"
#include "trainer/job/saved_weights.hpp"
#include "trainer/job/training_checkpoints.hpp"
#include "trainer/state/data_identity.hpp"

namespace autotuned::trainer {
namespace {

using profiler::now_ns;

constexpr const char* kRecipe = "recipe";
constexpr const char* kBatchSize = "batch size";
constexpr const char* kData = "data";

class Training {
 public:
  Training(Job& job, const TrainRequest& request, const ProgressSink& on_progress,
           const CancelCheck& is_cancelled)
      : job_(job),
        request_(request),
        on_progress_(on_progress),
        is_cancelled_(is_cancelled),
        plan_(training_length(job.recipe().train, job.configuration().integer("batch_size"),
                              job.samples_per_epoch())),
        ranks_(job.recipe().train.ranks),
        is_leader_(job.ranks() == nullptr || job.ranks()->is_leader()),
        evaluates_epochs_(job.recipe().evaluation && job.recipe().evaluation->every == "epoch"),
        checkpoints_(job, request, on_progress),
        saves_(job.recipe(), job.configuration().integer("batch_size"), plan_.steps_per_epoch),
        best_(job.recipe().evaluation),
        plateau_(job.recipe().schedule) {}

  Result<TrainingSummary> run() {
    if (auto started = start(); !started) return tl::unexpected(started.error());
    if (auto together = job_.start_together(); !together) return tl::unexpected(together.error());
    checkpoints_.wait_for_next();
    progress_.ns = now_ns();
    progress_.samples = job_.samples();
    job_.resume_loading();
    auto done = go();
    job_.pause_loading();
    report_troubles();
    if (!done) {
      (void)checkpoints_.finish();
      return tl::unexpected(done.error());
    }
    summary_.steps = job_.steps();
    summary_.samples = ranks_ * job_.samples();
    summary_.epochs = job_.steps() / plan_.steps_per_epoch;
    summary_.damaged_files = job_.damaged_files() + damaged_elsewhere();
    summary_.evaluations_since_best = best_.since_best();
    const auto& rules = job_.recipe().evaluation;
    if (!rules || !rules->saves_best) summary_.best_evaluation = Json();
    return summary_;
  }

 private:
  Result<void> start() {
    // Now rather than at the first checkpoint.
    std::error_code ignored;
    const std::filesystem::path folder = request_.checkpoint_path.parent_path();
    if (!std::filesystem::is_directory(folder, ignored)) {
      return fail(ErrorKind::not_found, "there is no such folder for checkpoints", folder.string());
    }
    auto data = job_.data_identity();
    if (!data) return tl::unexpected(data.error());
    data_ = *std::move(data);
    on_progress_({{kData, data_}});
    if (request_.resume && std::filesystem::exists(request_.checkpoint_path, ignored)) {
      return start_from(request_.checkpoint_path, identity(),
                        {.of_job = "delete it to train from the start",
                         .of_data = "name another folder with --output, or train anew with "
                                    "--retune"});
    }
    if (!request_.extend) return job_.restore("initial");
    Json expected = identity();
    expected["run"] = request_.extend->run;
    auto started = start_from(
        request_.extend->state, expected,
        {.of_job = "train anew, without --extend",
         .of_data = "train anew, without --extend, and name another folder with --output"});
    return started ? begin_sequel() : started;
  }

  // Where a checkpoint is of another training.
  struct Remedies {
    const char* of_job;
    const char* of_data;
  };

  Result<void> start_from(const std::filesystem::path& file, const Json& expected,
                          const Remedies& remedies) {
    auto note = job_.import_from(file, kTrainingCheckpoint);
    if (!note) {
      if (note.error().kind == ErrorKind::corrupt) note.error().remedy = remedies.of_job;
      return tl::unexpected(std::move(note.error()));
    }
    const auto read = parse_json(*note, file.string());
    if (!read) return tl::unexpected(read.error());
    for (const auto& [field, value] : expected.items()) {
      const Json& theirs = member(*read, field.c_str());
      if (theirs == value) continue;
      if (field == kBatchSize && request_.takes_other_batch_size) continue;
      // Older checkpoints hold the hash of the whole recipe.
      if (field == kRecipe && theirs == job_.recipe().hash()) continue;
      return fail(ErrorKind::invalid, "the checkpoint is of another " + field, file.string(),
                  remedies.of_job);
    }
    // Older checkpoints do not name their data.
    if (const std::string other = data_difference(member(*read, kData), data_); !other.empty()) {
      return fail(ErrorKind::invalid, "the checkpoint is of other data: " + other, file.string(),
                  remedies.of_data);
    }
    if (auto restored = job_.restore(kTrainingCheckpoint); !restored) return restored;
    summary_.resumed_from_step = job_.steps();
    summary_.duration_ns = get_integer(*read, "duration_ns").value_or(0);
    summary_.evaluation_ns = get_integer(*read, "evaluation_ns").value_or(0);
    summary_.final_loss = get_number(*read, "final_loss").value_or(0.0);
    best_.read(member(*read, "best"));
    is_over_ = best_.is_over();
    summary_.best_evaluation = member(*read, "best_model");
    plateau_.read(member(*read, "plateau"));
    evaluated_step_ = get_integer(*read, "evaluated_step").value_or(job_.steps());
    for (const Json& name : member(*read, "damaged"))
      if (name.is_string()) damaged_before_.insert(name.get<std::string>());
    if (auto moved = count_in_own_steps(*read); !moved) return moved;
    return job_.drop(kTrainingCheckpoint);
  }

  // Begins at the end of the other run, whose decisions have been read.
  Result<void> begin_sequel() {
    if (is_over_) {
      return fail(ErrorKind::invalid,
                  "it has ended the training after epoch " +
                      std::to_string(job_.steps() / plan_.steps_per_epoch) +
                      ", and would end a longer one there, too",
                  "evaluate.patience", "raise it, or leave it out");
    }
    if (job_.steps() >= plan_.steps) {
      return fail(ErrorKind::invalid,
                  "the training has " + std::to_string(job_.steps()) +
                      " steps already, and is to have " + std::to_string(plan_.steps),
                  "train", "raise epochs or steps");
    }
    job_.begin_schedule(request_.extend->restarts_schedule);
    return {};
  }

  // After a restore from a checkpoint of another batch size.
  Result<void> count_in_own_steps(const Json& note) {
    const std::int64_t own = job_.configuration().integer("batch_size");
    const std::int64_t other = get_integer(note, kBatchSize).value_or(own);
    if (other == own) return {};
    const bool is_evaluated = evaluated_step_ == job_.steps();
    const TrainingPosition place =
        place_with(own, other, job_.recipe().train, job_.samples_per_epoch(), job_.place());
    if (auto restored = job_.restore(kTrainingCheckpoint, place); !restored) return restored;
    summary_.resumed_from_step = job_.steps();
    // By chance the steps of this size may be whole epochs.
    is_within_epoch_ = place.sample > 0;
    evaluated_step_ = is_evaluated || is_within_epoch_ ? job_.steps() : -1;
    return {};
  }

  // The values in which a checkpoint and the training that goes on from it must agree. The starting values of knobs are
  // none of them: the configuration is what trains, and a run may go on without a plugin whose knob the recipe names.
  Json identity() const {
    recipes::Recipe job = job_.recipe();
    job.start = {};
    return {{kRecipe, job.hash()},
            {"seed", job.seed},
            {kBatchSize, job_.configuration().integer("batch_size")}};
  }

  Result<void> go() {
    bool is_evaluated = false;
    if (job_.steps() > 0 && !is_within_epoch_) save_due();
    if (misses_evaluation()) {
      if (auto evaluated = evaluate(); !evaluated) return evaluated;
      if (summary_.was_cancelled) return stop();
      is_evaluated = true;
    }
    while (job_.steps() < plan_.steps && !is_over_) {
      auto stretch = advance();
      if (!stretch) return tl::unexpected(stretch.error());
      is_evaluated = false;
      if (stretch->was_cancelled) return stop();
      if (stretch->ended_epoch && evaluates_epochs_) {
        if (auto evaluated = evaluate(); !evaluated) return evaluated;
        if (summary_.was_cancelled) return stop();
        is_evaluated = true;
      }
      save_due();
      if (is_leader_) look_at_checkpoints();
    }
    // A checkpoint, so that nothing is trained twice if the model cannot be saved.
    if (auto written = write_checkpoint(); !written) return written;
    if (!job_.recipe().evaluation || is_evaluated) return {};
    const auto saved_before = best_.saved();
    if (auto evaluated = evaluate(/*decides=*/false); !evaluated) return evaluated;
    const bool is_saved = best_.saved() != saved_before && job_.recipe().evaluation->saves_best;
    return is_saved ? write_checkpoint() : Result<void>();
  }

  // An interruption came between the end of an epoch and its evaluation.
  bool misses_evaluation() const {
    return evaluates_epochs_ && job_.steps() < plan_.steps && evaluated_step_ != job_.steps() &&
           job_.steps() % plan_.steps_per_epoch == 0;
  }

  Result<void> stop() {
    summary_.was_cancelled = true;
    return write_checkpoint();
  }

  Result<Stretch> advance() {
    const std::int64_t steps_before = job_.steps();
    const std::int64_t start = now_ns();
    const StretchLimits limits{
        .steps = std::min(plan_.steps - steps_before, saves_.steps_to_next(steps_before)),
        .deadline_ns = std::min(checkpoints_.next_ns(), progress_.ns + request_.progress_every_ns),
        .stops_at_epoch_end = evaluates_epochs_ || saves_.counts_epochs()};
    auto stretch = job_.advance(limits, is_cancelled_);
    if (!stretch) return stretch;
    summary_.duration_ns += now_ns() - start;
    const auto bad =
        std::ranges::find_if_not(stretch->losses, [](double loss) { return std::isfinite(loss); });
    if (bad != stretch->losses.end()) {
      const auto step = steps_before + (bad - stretch->losses.begin()) + 1;
      return fail(ErrorKind::invalid, "the loss is not finite at step " + std::to_string(step),
                  "training", "lower the learning rate");
    }
    summary_.final_loss = stretch->losses.back();
    if (now_ns() >= progress_.ns + request_.progress_every_ns || job_.steps() == plan_.steps) {
      report();
    }
    report_troubles();
    return stretch;
  }

  void report() {
    const std::int64_t now = now_ns();
    const auto seconds = static_cast<double>(now - progress_.ns - progress_.left_out_ns) / 1e9;
    const std::int64_t epoch =
        std::min(plan_.epochs, (job_.steps() - 1) / plan_.steps_per_epoch + 1);
    const double rate =
        static_cast<double>(ranks_ * (job_.samples() - progress_.samples)) / seconds;
    Json told = {{"step", job_.steps()},
                 {"steps_total", plan_.steps},
                 {"epoch", epoch},
                 {"epochs_total", plan_.epochs},
                 {"samples", ranks_ * job_.samples()},
                 {"samples_total", ranks_ * plan_.samples},
                 {"samples_per_second", rate},
                 {"learning_rate", job_.last_learning_rate()},
                 {"loss", summary_.final_loss}};
    if (const std::int64_t tokens = job_.facts().tokens_per_sample; tokens > 0) {
      told["tokens_per_second"] = rate * static_cast<double>(tokens);
    }
    on_progress_(told);
    progress_ = {.ns = now, .samples = job_.samples()};
  }

  void report_troubles() {
    for (const Error& error : job_.take_damaged_files()) {
      on_progress_(damage_frame(error, job_.damaged_files()));
    }
    for (const Error& warning : job_.take_warnings())
      on_progress_(warning_frame(warning));
  }

  // `decides`: false for an evaluation that only this length has; it must not influence the training or a sequel.
  Result<void> evaluate(bool decides = true) {
    const std::int64_t start = now_ns();
    job_.pause_loading();
    const auto test = job_.evaluate(is_cancelled_);
    job_.resume_loading();
    if (!test) return tl::unexpected(test.error());
    if (test->was_cancelled) {
      summary_.was_cancelled = true;
      return {};
    }
    const std::int64_t took = now_ns() - start;
    summary_.evaluation_ns += took;
    summary_.test = *test;
    if (decides) evaluated_step_ = job_.steps();
    const std::int64_t epoch = epochs_begun(job_.steps(), plan_);
    const bool is_best = decides ? best_.take(*test, epoch) : best_.take_last(*test);
    report_evaluation(*test, epoch, is_best);
    if (decides) job_.set_rate_factor(plateau_.take(test->loss, job_.rate_factor()));
    if (is_leader_ && !best_.has_figure(*test)) report_no_figure();
    if (is_best) save_best(*test, epoch);
    if (auto decided = take_decisions(); !decided) return decided;
    if (is_over_ && job_.steps() < plan_.steps) report_early_end();
    progress_.left_out_ns += now_ns() - start;
    return {};
  }

  // `is_best`: better than all before.
  void report_evaluation(const TestResult& test, std::int64_t epoch, bool is_best) {
    Json told = evaluation_frame(test, epoch);
    told["step"] = job_.steps();
    told["trained_samples"] = ranks_ * job_.samples();
    const recipes::Evaluation& rules = *job_.recipe().evaluation;
    if (is_best && (rules.saves_best || rules.patience)) told["is_best"] = true;
    on_progress_({{"evaluation", told}});
  }

  // Takes over the leader's decisions after an evaluation, on all ranks.
  Result<void> take_decisions() {
    std::array<double, 2> decisions = {job_.rate_factor(), best_.is_over() ? 1.0 : 0.0};
    if (auto taken = job_.take_from_leader(decisions); !taken) return taken;
    job_.set_rate_factor(decisions[0]);
    is_over_ = decisions[1] != 0.0;
    return {};
  }

  void save_best(const TestResult& test, std::int64_t epoch) {
    if (!is_leader_ || !job_.recipe().evaluation->saves_best) return;
    if (!save("model_best-" + id_of_run() + ".pt")) return;
    summary_.best_evaluation = best_.told(test, epoch);
  }

  // After a step whose weights the recipe wants, save them; older ones go.
  void save_due() {
    if (!is_leader_) return;
    const std::vector<std::string> names = saves_.due_after(job_.steps());
    if (names.empty()) return;
    const std::int64_t start = now_ns();
    // A name of this run alone: no file of an earlier training, or of others, is replaced or mistaken for its own.
    const std::string folder = "weights-" + id_of_run();
    std::error_code ignored;
    std::filesystem::create_directory(beside(folder), ignored);  // if it fails, so do the files
    for (const std::string& name : names)
      (void)save(folder + "/" + name + ".pt");
    saves_.remove_old(beside(folder));
    progress_.left_out_ns += now_ns() - start;
  }

  // The run's id, from the name of its checkpoint, checkpoint-RUN.pt.
  std::string id_of_run() const {
    const std::string name = request_.checkpoint_path.stem().string();
    return name.substr(name.starts_with("checkpoint-") ? std::string_view("checkpoint-").size()
                                                       : 0);
  }

  std::filesystem::path beside(const std::string& name) const {
    return request_.checkpoint_path.parent_path() / name;
  }

  // Whether it was saved: the training is worth more than one file of it.
  bool save(const std::string& name) {
    const auto saved = job_.save_model(beside(name));
    if (saved) return true;
    Error error = saved.error();
    error.what = name + " could not be saved; the training goes on: " + error.what;
    on_progress_(warning_frame(error));
    return false;
  }

  void report_no_figure() {
    if (std::exchange(is_figure_missed_, true)) return;
    const std::string& figure = job_.recipe().evaluation->best_by;
    on_progress_(warning_frame(
        {ErrorKind::invalid,
         "an evaluation has no " + figure + ", so it is neither better nor worse than another",
         "evaluate.best_by", "use other test data, or best_by: loss"}));
  }

  void report_early_end() {
    const std::int64_t epoch = epochs_begun(job_.steps(), plan_);
    on_progress_(warning_frame({ErrorKind::cancelled,
                                "the training ends after epoch " + std::to_string(epoch) + " of " +
                                    std::to_string(plan_.epochs) +
                                    ": no evaluation was better than that of epoch " +
                                    std::to_string(best_.best_epoch()),
                                "evaluate.patience",
                                {}}));
  }

  // Damaged files that only an earlier process of this training met.
  std::int64_t damaged_elsewhere() const {
    std::set<std::string> others = damaged_before_;
    for (const std::string& name : job_.damaged_names())
      others.erase(name);
    return std::ssize(others);
  }

  std::string note() const {
    Json note = identity();
    note["run"] = id_of_run();
    note[kData] = data_;
    note["duration_ns"] = summary_.duration_ns;
    note["evaluation_ns"] = summary_.evaluation_ns;
    note["final_loss"] = summary_.final_loss;
    note["best"] = best_.to_json();
    note["best_model"] = summary_.best_evaluation;
    note["plateau"] = plateau_.to_json();
    note["evaluated_step"] = evaluated_step_;
    std::set<std::string> damaged = damaged_before_;
    for (std::string& name : job_.damaged_names())
      damaged.insert(std::move(name));
    note["damaged"] = damaged;
    return to_line(note);
  }

  // A checkpoint that is complete when this returns. The leader's is for all ranks.
  Result<void> write_checkpoint() {
    return is_leader_ ? without_its_time(checkpoints_.write(note())) : Result<void>();
  }

  // Reports the last checkpoint, if it is written by now, and writes the next one, if it is due.
  void look_at_checkpoints() {
    if (auto taken = checkpoints_.take_written(); !taken) checkpoints_.miss(taken.error());
    if (now_ns() < checkpoints_.next_ns() || job_.steps() >= plan_.steps || is_over_) return;
    const bool is_async = job_.configuration().flag("checkpoint.async");
    const auto done =
        without_its_time(is_async ? checkpoints_.begin(note()) : checkpoints_.write(note()));
    if (!done) checkpoints_.miss(done.error());
  }

  // The reported rate leaves out the time of a checkpoint.
  Result<void> without_its_time(const Result<std::int64_t>& took_ns) {
    if (!took_ns) return tl::unexpected(took_ns.error());
    progress_.left_out_ns += *took_ns;
    return {};
  }

  Job& job_;
  const TrainRequest& request_;
  const ProgressSink& on_progress_;
  const CancelCheck& is_cancelled_;
  TrainingLength plan_;  // of this rank
  Json data_;            // Job::data_identity()
  std::int64_t ranks_;
  bool is_leader_;
  bool is_over_ = false;          // no evaluation has been better for too long
  bool is_within_epoch_ = false;  // where it goes on from a checkpoint of another batch size
  bool evaluates_epochs_;
  TrainingCheckpoints checkpoints_;
  SavedWeights saves_;
  BestEvaluation best_;
  bool is_figure_missed_ = false;  // by an evaluation, and said
  Plateau plateau_;
  std::set<std::string> damaged_before_;  // files, by the checkpoint that it goes on from
  TrainingSummary summary_;
  std::int64_t evaluated_step_ = 0;  // after which the last evaluation was
  struct {
    std::int64_t ns = 0;
    std::int64_t samples = 0;
    // Since then, without steps: of evaluations, checkpoints and saved weights. The reported rate leaves it out.
    std::int64_t left_out_ns = 0;
  } progress_;  // as of the last report
};

}  // namespace

Json damage_frame(const Error& error, std::int64_t files) {
  return {{"damaged", {{"file", error.where}, {"what", error.what}, {"files", files}}}};
}

Json warning_frame(const Error& warning) {
  return {{"warning", warning.message()}};
}

Result<TrainingSummary> train(Job& job, const TrainRequest& request,
                              const ProgressSink& on_progress, const CancelCheck& is_cancelled) {
  return Training(job, request, on_progress, is_cancelled).run();
}

}  // namespace autotuned::trainer
