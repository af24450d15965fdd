// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/training.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.hpp"
#include "tests/places.hpp"
#include "tests/trainer/job/photo_job.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

struct Trained {
  TrainingSummary summary;
  std::string digest;
  std::vector<Json> progress;
};

Trained train_all(Job& job, const TrainRequest& request, const CancelCheck& is_cancelled = never) {
  Trained trained;
  const ProgressSink sink = [&trained](const Json& frame) { trained.progress.push_back(frame); };
  trained.summary = value_of(train(job, request, sink, is_cancelled));
  trained.digest = value_of(job.digest());
  return trained;
}

TEST(Training, TrainsToTheEndAndEvaluates) {
  const Folder folder;
  const auto job = load(small_recipe());
  const Trained trained = train_all(*job, {.checkpoint_path = folder / "c"});
  EXPECT_EQ(trained.summary.steps, 20);
  EXPECT_EQ(trained.summary.samples, 400);
  EXPECT_EQ(trained.summary.epochs, 2);
  EXPECT_FALSE(trained.summary.was_cancelled);
  EXPECT_GT(trained.summary.duration_ns, 0);
  EXPECT_GT(trained.summary.evaluation_ns, 0);
  ASSERT_TRUE(trained.summary.test);
  EXPECT_GT(trained.summary.test->accuracy, 0.5);

  int evaluations = 0;
  for (const Json& frame : trained.progress) {
    if (const Json& one = member(frame, "evaluation"); !one.is_null()) {
      EXPECT_EQ(one["epoch"], ++evaluations);
      EXPECT_EQ(one["step"], 10 * evaluations) << "the end of the epoch";
      EXPECT_EQ(one["trained_samples"], 200 * evaluations);
    }
  }
  EXPECT_EQ(evaluations, 2);
  const auto last = std::find_if(trained.progress.rbegin(), trained.progress.rend(),
                                 [](const Json& frame) { return frame.contains("step"); });
  ASSERT_NE(last, trained.progress.rend());
  EXPECT_EQ((*last)["step"], 20);
  EXPECT_EQ((*last)["steps_total"], 20);
  EXPECT_EQ((*last)["epoch"], 2);
  EXPECT_EQ((*last)["samples_total"], 400);
}

TEST(Training, TellsTheLearningRateOfTheLastStep) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.schedule = {"step", {{"step_epochs", 1}, {"gamma", 0.5}}};
  const auto job = load(recipe);
  const Trained trained = train_all(*job, {.checkpoint_path = folder / "c"});
  const auto last = std::find_if(trained.progress.rbegin(), trained.progress.rend(),
                                 [](const Json& frame) { return frame.contains("step"); });
  ASSERT_NE(last, trained.progress.rend());
  EXPECT_EQ((*last)["step"], 20);
  EXPECT_NEAR((*last)["learning_rate"].get<double>(), 0.025, 1e-12) << "in the second epoch";
}

TEST(Training, EvaluatesOnceAtTheEndWhereTheRecipeSaysSo) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation->every = "end";
  const auto job = load(recipe);
  const Trained trained = train_all(*job, {.checkpoint_path = folder / "c"});
  EXPECT_TRUE(trained.summary.test);
  EXPECT_EQ(std::ranges::count_if(trained.progress,
                                  [](const Json& frame) { return frame.contains("evaluation"); }),
            1);
}

TEST(Training, WithoutTestDataThereIsNoAccuracy) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.evaluation.reset();
  const auto job = load(recipe);
  EXPECT_FALSE(train_all(*job, {.checkpoint_path = folder / "c"}).summary.test);
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

// The block of a trial knows all files before its clock starts, and what it knows is there for the next job.
TEST(Training, KeepsAnIndexOfItsFiles) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  const recipes::Recipe recipe = cropped_photos(folder);
  const Configuration crops = with(starting(recipe), "input.decode", std::string("crop"));
  const Configuration indexed = with(crops, "input.jpeg_index", true);
  const auto plain = load(recipe, crops);
  ASSERT_NE(plain, nullptr);
  EXPECT_GT(plain->facts().jpeg_index_bytes, 4 * 10);
  const std::string expected = train_all(*plain, {.checkpoint_path = folder / "c"}).digest;
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));

  const auto first = load(recipe, crops);
  value_of(first->prepare(indexed));
  value_of(first->run({}, never));
  const auto written = files_below(folder / "cache");
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].parent_path(), folder / "cache/autotuned/jpeg-index");
  const auto time = std::filesystem::last_write_time(written[0]);
  // An index that nobody used for long goes when another is written.
  const auto unused = written[0].parent_path() / std::string(64, 'a');
  std::ofstream(unused) << "of photos that are gone";
  ASSERT_EQ(::utimensat(AT_FDCWD, unused.c_str(), std::array<timespec, 2>{}.data(), 0), 0);

  for (const bool is_damaged : {false, true}) {
    if (is_damaged) std::filesystem::resize_file(written[0], 100);
    const auto next = load(recipe, indexed);
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(train_all(*next, {.checkpoint_path = folder / "c"}).digest, expected);
    if (!is_damaged) {
      EXPECT_EQ(std::filesystem::last_write_time(written[0]), time);
    }
    EXPECT_EQ(std::filesystem::exists(unused), !is_damaged);
  }
  EXPECT_GT(std::filesystem::file_size(written[0]), 100U);  // made anew in its first epoch
}

TEST(Training, WarnsOnceOfAnIndexThatCannotBeKept) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  std::ofstream(folder / "cache") << "no folder";
  recipes::Recipe recipe = cropped_photos(folder);
  recipe.train.epochs = 3;
  const auto job = load(recipe, with(with(starting(recipe), "input.decode", std::string("crop")),
                                     "input.jpeg_index", true));
  ASSERT_NE(job, nullptr);
  value_of(job->run({}, never));
  const auto warnings = job->take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0].message(), testing::HasSubstr("the index of JPEG files is not kept"));
  EXPECT_THAT(warnings[0].message(), testing::HasSubstr((folder / "cache").string()));
  const Trained trained = train_all(*job, {.checkpoint_path = folder / "c"});
  for (const Json& frame : trained.progress)
    EXPECT_FALSE(frame.contains("warning")) << frame;
}

// Other pixels, which is why it needs consent, but the same ones whatever else is tuned.
TEST(Training, DecodesPicturesSmallerWhereTold) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  recipes::Recipe recipe = cropped_photos(folder);
  recipe.input[1] = {"random_resized_crop", {{"size", 8}}};
  const Configuration full = starting(recipe);
  const Configuration half = with(full, "input.decode_scale", std::string("half"));
  const auto digest_of = [&](const Configuration& configuration) {
    const auto job = load(recipe, configuration);
    EXPECT_EQ(job->facts().decode_scale, "quarter");  // of 37 x 51 pixels
    return train_all(*job, {.checkpoint_path = folder / "c"}).digest;
  };
  const std::string expected = digest_of(half);
  EXPECT_NE(expected, digest_of(full));
  for (const Configuration& other :
       {with(half, "input.decode", std::string("crop")),
        with(half, "input.cache", std::string("decoded")),
        with(with(half, "input.decode", std::string("crop")), "input.jpeg_index", true)})
    EXPECT_EQ(digest_of(other), expected);
}

// In every form that the tuner may choose the same files are skipped and the same ones stand in for them.
TEST(Training, SkipsDamagedFilesAlikeWhateverTheConfiguration) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  recipes::Recipe recipe = cropped_photos(folder);
  std::filesystem::copy_file(tests::source_folder() / "tests/trainer/input/data/restarts_37x51.jpg",
                             folder / "photos/restarts.jpg");
  const std::filesystem::path damaged = folder / "photos/422_37x51.jpg";
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) * 9 / 10);
  recipe.data.type = "image_files";
  recipe.data.parameters["on_error"] = "skip";
  recipe.input[0].type = "decode";

  const Configuration first = starting(recipe);
  const Configuration crops =
      with(with(first, "input.decode", std::string("crop")), "loader.workers", std::int64_t{2});
  std::vector<std::string> digests;
  for (const Configuration& configuration :
       {first, crops, with(first, "input.cache", std::string("decoded")),
        with(crops, "input.cache", std::string("raw")), with(crops, "input.jpeg_index", true)}) {
    const auto job = load(recipe, configuration);
    ASSERT_NE(job, nullptr);
    value_of(job->run_steps(3, never));
    const Trained trained = train_all(*job, {.checkpoint_path = folder / "c"});
    EXPECT_EQ(trained.summary.damaged_files, 1);
    digests.push_back(trained.digest);
    std::vector<Json> named;
    for (const Json& frame : trained.progress)
      if (frame.contains("damaged")) named.push_back(frame["damaged"]);
    ASSERT_EQ(named.size(), 1U);
    EXPECT_EQ(named[0]["file"], damaged.string());
    EXPECT_EQ(named[0]["files"], 1);
  }
  EXPECT_EQ(digests, std::vector<std::string>(5, digests.front()));

  recipe.data.parameters["on_error"] = "stop";
  const auto job = load(recipe);
  const auto stopped = job->run_steps(10, never);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().where, damaged.string());
  // Where there are more of them, all are named, whichever comes first.
  const std::filesystem::path other = folder / "photos/444_37x51.jpg";
  std::filesystem::resize_file(other, std::filesystem::file_size(other) * 9 / 10);
  const auto both = load(recipe)->run_steps(10, never);
  ASSERT_FALSE(both);
  EXPECT_THAT(
      both.error().message(),
      testing::AllOf(testing::HasSubstr(damaged.string()), testing::HasSubstr(other.string()),
                     testing::HasSubstr("; 1 more of 5 files cannot be read")));
  // Who wants an end does not wait for the others, is told what is known, and may ask again.
  const auto again = load(recipe);
  const auto cancelled = again->run_steps(10, [] { return true; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
  const auto known = again->take_warnings();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].kind, ErrorKind::corrupt);
  EXPECT_THAT(known[0].where, testing::AnyOf(damaged.string(), other.string()));
  EXPECT_THAT(again->take_warnings(), testing::IsEmpty());
  const auto asked_again = again->run_steps(10, never);
  ASSERT_FALSE(asked_again);
  EXPECT_THAT(asked_again.error().message(), testing::HasSubstr("; 1 more of 5 files"));
}

// The process that goes on need not meet them again.
TEST(Training, CountsDamagedFilesOfEarlierProcesses) {
  const Folder folder;
  const CacheHome home(folder / "cache");
  recipes::Recipe recipe = cropped_photos(folder);
  std::filesystem::copy_file(tests::source_folder() / "tests/trainer/input/data/restarts_37x51.jpg",
                             folder / "photos/restarts.jpg");
  const std::filesystem::path damaged = folder / "photos/422_37x51.jpg";
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) * 9 / 10);
  recipe.data.type = "image_files";
  recipe.data.parameters["on_error"] = "skip";
  recipe.input[0].type = "decode";
  const TrainRequest request{.checkpoint_path = folder / "c", .resume = true};
  const auto stopped_job = load(recipe);
  ASSERT_NE(stopped_job, nullptr);
  value_of(stopped_job->run_steps(3, never));  // meets it
  ASSERT_EQ(stopped_job->damaged_files(), 1);
  const Trained stopped = train_all(*stopped_job, request, [] { return true; });
  ASSERT_TRUE(stopped.summary.was_cancelled);
  EXPECT_EQ(stopped.summary.damaged_files, 1);

  // Met once more, it counts once.
  const auto again = load(recipe);
  ASSERT_NE(again, nullptr);
  value_of(again->run_steps(3, never));
  ASSERT_EQ(again->damaged_files(), 1);
  EXPECT_EQ(train_all(*again, request).summary.damaged_files, 1);

  // Nothing is left to read.
  const auto ended = load(recipe);
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(train_all(*ended, request).summary.damaged_files, 1);
  EXPECT_EQ(ended->damaged_files(), 0);
}

TEST(Training, NothingOfTheTrialsStaysInTheModel) {
  const Folder folder;
  const auto fresh = load(small_recipe());
  const std::string expected = train_all(*fresh, {.checkpoint_path = folder / "a"}).digest;
  const auto used = load(small_recipe());
  value_of(used->run_steps(17, never));
  value_of(used->run({.minimum_steps = 3, .reuse = Reuse::device_batch}, never));
  EXPECT_EQ(train_all(*used, {.checkpoint_path = folder / "b"}).digest, expected);
}

TEST(Training, InterruptedAnywhereItEndsInTheSameBits) {
  const Folder folder;
  recipes::Recipe recipe = small_cnn_recipe();
  recipe.train.epochs = 1;
  const auto whole_job = load(recipe);
  const Trained whole = train_all(*whole_job, {.checkpoint_path = folder / "whole"});
  // A cancel that is asked for after each of the first steps; polls are milliseconds apart, so several
  // rounds may pass before the next one.
  const TrainRequest request{.checkpoint_path = folder / "c", .resume = true};
  Trained last;
  int rounds = 0;
  do {
    const auto job = load(recipe);
    int asked = 0;
    last = train_all(*job, request, [&] { return rounds < 5 && ++asked > 0; });
    EXPECT_EQ(last.summary.was_cancelled, last.summary.steps < whole.summary.steps);
    ++rounds;
  } while (last.summary.was_cancelled);
  EXPECT_EQ(rounds, 6);  // each of the first five was cut short after one step
  EXPECT_EQ(last.digest, whole.digest);
  EXPECT_EQ(last.summary.resumed_from_step, 5);
  EXPECT_EQ(last.summary.steps, whole.summary.steps);
  EXPECT_EQ(last.summary.final_loss, whole.summary.final_loss);
  EXPECT_EQ(last.summary.test->accuracy, whole.summary.test->accuracy);
}

TEST(Training, ResumesFromAPeriodicCheckpoint) {
  const Folder folder;
  const auto job = load(small_recipe());
  const Trained whole =
      train_all(*job, {.checkpoint_path = folder / "c", .checkpoint_every_ns = 0});
  const auto writes = std::ranges::count_if(
      whole.progress, [](const Json& frame) { return frame.contains("checkpoint"); });
  EXPECT_EQ(writes, 20);  // after every step, since every step is due
  // As if the power had gone after the last one: all is there.
  const auto again = load(small_recipe());
  const Trained resumed = train_all(*again, {.checkpoint_path = folder / "c", .resume = true});
  EXPECT_EQ(resumed.summary.resumed_from_step, 20);
  EXPECT_EQ(resumed.digest, whole.digest);
  EXPECT_EQ(resumed.summary.final_loss, whole.summary.final_loss);
  EXPECT_TRUE(resumed.summary.test);
}

// Every checkpoint that was there is the state of its step, although training went on while it was written.
TEST(Training, ResumesFromACheckpointWrittenBesideTheTraining) {
  const Folder folder;
  const recipes::Recipe recipe = small_cnn_recipe();
  const Configuration beside = with(starting(recipe), "checkpoint.async", true);
  const auto whole_job = load(recipe);
  const Trained whole = train_all(*whole_job, {.checkpoint_path = folder / "whole"});

  std::vector<std::int64_t> steps;
  const ProgressSink keep = [&](const Json& frame) {
    const Json& written = member(frame, "checkpoint");
    if (written.is_null()) return;
    steps.push_back(written["step"].get<std::int64_t>());
    std::filesystem::copy_file(folder / "c", folder / ("c" + std::to_string(steps.back())));
  };
  const auto job = load(recipe, beside);
  const TrainRequest request{.checkpoint_path = folder / "c", .checkpoint_every_ns = 0};
  const TrainingSummary summary = value_of(train(*job, request, keep, never));
  EXPECT_EQ(value_of(job->digest()), whole.digest);
  EXPECT_EQ(summary.steps, 20);
  ASSERT_EQ(steps.size(), 20);  // one after every step, since every step is due
  for (const std::int64_t step : {1, 7, 19}) {
    EXPECT_EQ(steps.at(static_cast<std::size_t>(step) - 1), step);
    const auto again = load(recipe, beside);
    const Trained resumed = train_all(
        *again, {.checkpoint_path = folder / ("c" + std::to_string(step)), .resume = true});
    EXPECT_EQ(resumed.summary.resumed_from_step, step);
    EXPECT_EQ(resumed.digest, whole.digest) << step;
    EXPECT_EQ(resumed.summary.final_loss, whole.summary.final_loss);
  }
}

// A disk that is full for a while costs a checkpoint, not the training.
TEST(Training, CheckpointThatCannotBeWrittenIsAWarningAndTriedAgain) {
  for (const bool is_async : {false, true}) {
    SCOPED_TRACE(is_async);
    const Folder folder;
    const recipes::Recipe recipe = small_recipe();
    const Configuration configuration = with(starting(recipe), "checkpoint.async", is_async);
    const std::string expected =
        train_all(*load(recipe, configuration), {.checkpoint_path = folder / "whole"}).digest;
    const auto job = load(recipe, configuration);
    const auto gone = folder / "gone";
    std::filesystem::create_directory(gone);
    int written = 0;
    int missed = 0;
    const ProgressSink sink = [&](const Json& frame) {
      if (frame.contains("checkpoint") && ++written == 1) std::filesystem::remove_all(gone);
      if (frame.contains("warning") && ++missed == 2) std::filesystem::create_directory(gone);
    };
    const TrainingSummary summary = value_of(
        train(*job, {.checkpoint_path = gone / "c", .checkpoint_every_ns = 0}, sink, never));
    EXPECT_EQ(summary.steps, job->steps());
    EXPECT_GE(written, 2);
    EXPECT_EQ(missed, 2);
    EXPECT_EQ(value_of(job->digest()), expected);
    EXPECT_TRUE(std::filesystem::exists(gone / "c"));
  }
}

TEST(Training, LastCheckpointMustBeWritten) {
  for (const bool is_async : {false, true}) {
    SCOPED_TRACE(is_async);
    const Folder folder;
    const recipes::Recipe recipe = small_recipe();
    const auto job = load(recipe, with(starting(recipe), "checkpoint.async", is_async));
    const auto gone = folder / "gone";
    std::filesystem::create_directory(gone);
    const ProgressSink remove = [&](const Json&) { std::filesystem::remove_all(gone); };
    const auto result =
        train(*job, {.checkpoint_path = gone / "c", .checkpoint_every_ns = 0}, remove, never);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::not_found);
    EXPECT_FALSE(job->is_exporting());
  }
}

TEST(Training, WithoutResumeACheckpointIsOverwritten) {
  const Folder folder;
  const auto job = load(small_recipe());
  train_all(*job, {.checkpoint_path = folder / "c"});
  const Trained again = train_all(*job, {.checkpoint_path = folder / "c"});
  EXPECT_EQ(again.summary.resumed_from_step, 0);
}

TEST(Training, RefusesTheCheckpointOfAnotherTraining) {
  const Folder folder;
  const TrainRequest request{.checkpoint_path = folder / "c", .resume = true};
  const recipes::Recipe recipe = small_recipe();
  const auto job = load(recipe);
  train_all(*job, request);
  const auto refusal = [&](const recipes::Recipe& other, const Configuration& configuration) {
    const auto theirs = load(other, configuration);
    const auto result = train(
        *theirs, request, [](const Json&) {}, never);
    return result ? "accepted" : result.error().what;
  };
  recipes::Recipe seed = recipe;
  seed.seed = 8;
  EXPECT_EQ(refusal(seed, starting(seed)), "the checkpoint is of another seed");
  recipes::Recipe rate = recipe;
  rate.optimizer.parameters["lr"] = 0.06;
  EXPECT_EQ(refusal(rate, starting(rate)), "the checkpoint is of another recipe");
  EXPECT_EQ(refusal(recipe, with(starting(recipe), "batch_size", std::int64_t{40})),
            "the checkpoint is of another batch size");
  ASSERT_TRUE(write_file_atomically(folder / "c", "rubbish"));
  const auto corrupt = train(
      *job, request, [](const Json&) {}, never);
  ASSERT_FALSE(corrupt);
  EXPECT_EQ(corrupt.error().kind, ErrorKind::corrupt);
}

TEST(Training, NamesTheStepWhoseLossIsNotFinite) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.optimizer.parameters["lr"] = 1e30;
  const auto job = load(recipe);
  const auto result = train(
      *job, {.checkpoint_path = folder / "c"}, [](const Json&) {}, never);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_THAT(result.error().what, testing::MatchesRegex("the loss is not finite at step [2-9]"));
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
}

TEST(Training, SaysWhereTheCheckpointCannotBeWritten) {
  const Folder folder;
  const auto job = load(small_recipe());
  const auto result = train(
      *job, {.checkpoint_path = folder / "missing" / "c"}, [](const Json&) {}, never);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::not_found);
  EXPECT_EQ(job->steps(), 0);
}

}  // namespace
}  // namespace autotuned::trainer
