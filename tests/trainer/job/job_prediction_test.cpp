// SPDX-License-Identifier: Apache-2.0
// That a trained model answers for files as its evaluation does.
#include "trainer/job/job_prediction.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/golden.hpp"
#include "tests/trainer/input/fixtures.hpp"
#include "tests/trainer/input/png_file.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/decode/png_decoder.hpp"
#include "trainer/job/training.hpp"

namespace autotuned::trainer {
namespace {

// A trained model, what its evaluation says, and the files on which it was evaluated.
struct Trained {
  recipes::Recipe recipe;
  PredictRequest request;
  TestResult test;
};

Trained trained(const recipes::Recipe& recipe, const TemporaryFolder& folder,
                std::vector<std::string> pictures) {
  Trained result{.recipe = recipe, .request = {}, .test = {}};
  const auto job = load(recipe);
  if (job == nullptr) return result;
  value_of(train(
      *job, {.checkpoint_path = folder / "checkpoint.pt"}, [](const Json&) {}, never));
  result.test = value_of(job->evaluate(never));
  result.request.weights = folder / "model.pt";
  result.request.pictures = std::move(pictures);
  result.request.sample_shape = job->facts().sample_shape;
  result.request.stored_as = job->facts().stored_as;
  value_of(job->save_model(result.request.weights));
  return result;
}

Result<Json> answer_of(const Trained& of, std::vector<Json>& predictions) {
  return predict(
      of.recipe, starting(of.recipe), test_machine(), cpu_only(), {}, of.request,
      [&](const Json& told) { predictions.push_back(told); }, never);
}

std::vector<Json> predictions_of(const Trained& of) {
  std::vector<Json> predictions;
  const auto answer = answer_of(of, predictions);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().message());
  if (answer) {
    EXPECT_EQ(answer->at("pictures"), of.request.pictures.size());
  }
  return predictions;
}

std::string refusal_to_predict(const Trained& of) {
  std::vector<Json> predictions;
  const auto answer = answer_of(of, predictions);
  return answer ? std::string() : answer.error().message();
}

// The data that the recipe is evaluated on: each sample as a PNG file, with its label.
struct Files {
  std::vector<std::string> paths;
  std::vector<std::int64_t> labels;
};

Files written(const input::Dataset& data, const TemporaryFolder& folder) {
  Files files;
  const input::SampleShape shape = data.type().shape();
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.elements()));
    EXPECT_TRUE(data.read(i, bytes));
    files.paths.push_back(folder
                              .write("picture" + std::to_string(i) + ".png",
                                     input::png_file(shape.height, shape.width, bytes))
                              .string());
    files.labels.push_back(data.label(i));
  }
  return files;
}

Files evaluated_files(const recipes::Recipe& recipe, const TemporaryFolder& folder) {
  const recipes::Component& data = recipe.evaluation->data;
  const auto opened = input::open_dataset(data.type, data.parameters);
  EXPECT_TRUE(opened);
  return opened ? written(**opened, folder) : Files{};
}

double probability_of(const Json& prediction, std::int64_t output) {
  for (const Json& one : prediction.at("outputs"))
    if (one.at("output") == output) return one.at("probability").get<double>();
  ADD_FAILURE() << prediction;
  return 0;
}

// Accuracy and loss of these predictions are those of the evaluation.
void expect_as_evaluated(const std::vector<Json>& predictions,
                         const std::vector<std::int64_t>& labels, const TestResult& test) {
  ASSERT_EQ(predictions.size(), labels.size());
  std::int64_t correct = 0;
  double loss = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Json& outputs = predictions[i].at("outputs");
    if (outputs.at(0).at("output") == labels[i]) ++correct;
    loss -= std::log(probability_of(predictions[i], labels[i]));
    double before = 1;
    double sum = 0;
    for (const Json& one : outputs) {
      const auto probability = one.at("probability").get<double>();
      EXPECT_LE(probability, before) << "the highest first";
      before = probability;
      sum += probability;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  const auto samples = static_cast<double>(labels.size());
  EXPECT_DOUBLE_EQ(static_cast<double>(correct) / samples, test.accuracy);
  EXPECT_NEAR(loss / samples, test.loss, 1e-5);
}

// Arrays of one channel, which the files hold as grey.
TEST(Prediction, OfPicturesForAModelOfArraysIsThatOfTheEvaluation) {
  const TemporaryFolder folder;
  const recipes::Recipe recipe = small_recipe();
  const Files files = evaluated_files(recipe, folder);
  Trained model = trained(recipe, folder, files.paths);
  EXPECT_EQ(model.request.stored_as, "uint8");
  EXPECT_GT(model.test.accuracy, 0.3) << "it has learned something";
  const std::vector<Json> predictions = predictions_of(model);
  expect_as_evaluated(predictions, files.labels, model.test);
  EXPECT_EQ(predictions.at(3).at("file"), files.paths.at(3));
  EXPECT_EQ(predictions.at(3).at("target"), "classes");

  model.request.most_outputs = 2;
  EXPECT_EQ(predictions_of(model).at(0).at("outputs").size(), 2U);
}

// Pictures in folders, with random transforms in the training and batches that the files do not fill.
TEST(Prediction, OfPictureFilesIsThatOfTheEvaluation) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 44; ++i) {
    std::vector<std::uint8_t> pixels;
    for (int at = 0; at < 10 * 12 * 3; ++at)
      pixels.push_back(
          static_cast<std::uint8_t>((i % 2 == 0 ? 40 : 150) + (at * 37 + i * 11) % 90));
    const std::string name = (i % 2 == 0 ? "dark/" : "light/") + std::to_string(100 + i) + ".png";
    paths.push_back(
        folder.write(name, input::png_file(10, 12, pixels, input::kColourPng)).string());
    labels.push_back(i % 2);
  }
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 2;
  recipe.data = {"image_files", {{"files", (folder / "*/*.png").string()}}};
  recipe.input = {{"decode", Json::object()},
                  {"random_crop", {{"size", 8}}},
                  {"random_flip", Json::object()},
                  {"to_float", Json::object()}};
  recipe.evaluation->data = recipe.data;
  recipe.step_rules.mixup_alpha = 0.2;
  const Trained model = trained(recipe, folder, paths);
  EXPECT_EQ(model.request.stored_as, "picture_file");
  expect_as_evaluated(predictions_of(model), labels, model.test);
}

// A smaller scale of decoding is for the training alone.
TEST(Prediction, DoesNotDependOnHowTheTrainingLoads) {
  const TemporaryFolder folder;
  const auto bytes = input::bytes_of_file(input::fixture_path("444_37x51.jpg"));
  const std::string jpeg(bytes.begin(), bytes.end());
  std::vector<std::string> paths;
  for (const char* const name : {"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"})
    paths.push_back(folder.write(name, jpeg).string());
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 2;
  recipe.data = {"image_files", {{"files", (folder / "*/*.jpg").string()}}};
  recipe.input = {
      {"decode", Json::object()}, {"resize", {{"size", 4}}}, {"to_float", Json::object()}};
  recipe.train.batch_size = 2;
  recipe.evaluation = recipes::Evaluation{.data = recipe.data};
  const Trained model = trained(recipe, folder, paths);
  const std::vector<Json> expected = predictions_of(model);
  ASSERT_EQ(expected.size(), 4U);
  std::vector<Json> tuned;
  const auto answer = predict(
      model.recipe, with(starting(recipe), "input.decode_scale", std::string("quarter")),
      test_machine(), cpu_only(), {}, model.request,
      [&](const Json& told) { tuned.push_back(told); }, never);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(tuned, expected);
}

TEST(Prediction, OfTagsAndNumbersTellsAllOutputs) {
  const TemporaryFolder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 3;
  recipe.data = {"synthetic_tags", {{"samples", 40}, {"shape", {1, 8, 8}}, {"tags", 3}}};
  recipe.loss = "bce";
  recipe.evaluation = recipes::Evaluation{.data = recipe.data, .best_by = "f1"};
  const Files files = evaluated_files(recipe, folder);
  Trained model = trained(recipe, folder, files.paths);
  model.request.most_outputs = 1;  // of classes
  const auto data = input::open_dataset(recipe.data.type, recipe.data.parameters);
  ASSERT_TRUE(data);
  const std::vector<Json> tags = predictions_of(model);
  ASSERT_EQ(tags.size(), 40U);
  TagFigures::Tag all;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(tags[i].at("target"), "tags");
    ASSERT_EQ(tags[i].at("outputs").size(), 3U);
    std::vector<float> wanted(3);
    (*data)->read_target(static_cast<std::int64_t>(i), wanted);
    for (std::size_t tag = 0; tag < 3; ++tag) {
      const bool is_found = probability_of(tags[i], static_cast<std::int64_t>(tag)) > 0.5;
      all.found += is_found ? 1 : 0;
      all.there += wanted[tag] > 0 ? 1 : 0;
      all.true_positives += is_found && wanted[tag] > 0 ? 1 : 0;
    }
  }
  ASSERT_TRUE(model.test.tags);
  EXPECT_EQ(all.found, model.test.tags->all.found);
  EXPECT_EQ(all.there, model.test.tags->all.there);
  EXPECT_EQ(all.true_positives, model.test.tags->all.true_positives);

  recipe.data = {"synthetic_targets", {{"samples", 40}, {"shape", {1, 8, 8}}, {"targets", 1}}};
  recipe.model.parameters["classes"] = 1;
  recipe.loss = "mse";
  recipe.evaluation = recipes::Evaluation{.data = recipe.data, .best_by = "loss"};
  const TemporaryFolder others;
  const Files of_numbers = evaluated_files(recipe, others);
  const Trained regression = trained(recipe, others, of_numbers.paths);
  const auto targets = input::open_dataset(recipe.data.type, recipe.data.parameters);
  ASSERT_TRUE(targets);
  const std::vector<Json> numbers = predictions_of(regression);
  ASSERT_EQ(numbers.size(), 40U);
  double error = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<float> wanted(1);
    (*targets)->read_target(static_cast<std::int64_t>(i), wanted);
    EXPECT_EQ(numbers[i].at("target"), "numbers");
    error += std::abs(numbers[i].at("outputs").at(0).at("value").get<double>() -
                      static_cast<double>(wanted[0]));
  }
  ASSERT_TRUE(regression.test.numbers);
  EXPECT_NEAR(error / 40, regression.test.numbers->mae, 1e-5);
}

// The pixels of the written files are as often right as the evaluation says.
TEST(Prediction, OfMasksWritesThemAsTheTrainingHasThem) {
  constexpr int kSide = 8;
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  std::vector<std::vector<std::uint8_t>> masks;
  for (int i = 0; i < 12; ++i) {
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> numbers;
    for (int at = 0; at < kSide * kSide; ++at) {
      const bool is_inside = at % kSide >= i % kSide;
      const auto grey = static_cast<std::uint8_t>((is_inside ? 170 : 40) + (at * 29 + i * 7) % 60);
      for (int channel = 0; channel < 3; ++channel)
        pixels.push_back(grey);
      numbers.push_back(is_inside ? 200 : 100);
    }
    const std::string name = std::to_string(10 + i) + ".png";
    paths.push_back(
        folder.write("images/" + name, input::png_file(kSide, kSide, pixels, input::kColourPng))
            .string());
    folder.write("masks/" + name, input::png_file(kSide, kSide, numbers));
    masks.push_back(numbers);
  }
  recipes::Recipe recipe = small_recipe();
  recipe.model = {"unet", {{"width", 4}, {"depth", 1}, {"classes", 2}}};
  recipe.data = {"image_masks",
                 {{"files", (folder / "images/*.png").string()},
                  {"masks", (folder / "masks/*.png").string()},
                  {"classes", 2},
                  {"values", {100, 200}}}};
  recipe.input = {{"decode", Json::object()}, {"to_float", Json::object()}};
  recipe.train = {.epochs = 3, .steps = {}, .batch_size = 5, .drop_last = true};
  recipe.evaluation = recipes::Evaluation{.data = recipe.data, .best_by = "miou"};
  Trained model = trained(recipe, folder, paths);
  for (const std::string& path : paths) {
    model.request.masks.push_back(
        (folder / ("found" + std::filesystem::path(path).filename().string())).string());
  }
  const std::vector<Json> predictions = predictions_of(model);
  ASSERT_EQ(predictions.size(), 12U);
  std::int64_t correct = 0;
  input::PngDecoder decoder(input::PngPixels::numbers);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const Json& told = predictions[i];
    EXPECT_EQ(told.at("target"), "masks");
    EXPECT_EQ(told.at("height"), kSide);
    EXPECT_EQ(told.at("mask"), model.request.masks[i]);
    const auto file = input::bytes_of_file(model.request.masks[i]);
    ASSERT_TRUE(decoder.begin(file));
    std::vector<std::uint8_t> found(masks[i].size());
    ASSERT_TRUE(decoder.decode(found.data()));
    std::int64_t light = 0;
    for (std::size_t at = 0; at < found.size(); ++at) {
      EXPECT_TRUE(found[at] == 100 || found[at] == 200) << int{found[at]};
      correct += found[at] == masks[i][at] ? 1 : 0;
      light += found[at] == 200 ? 1 : 0;
    }
    double share = 0;
    for (const Json& one : told.at("outputs"))
      if (one.at("output") == 1) share = one.at("share").get<double>();
    EXPECT_DOUBLE_EQ(share, static_cast<double>(light) / (kSide * kSide));
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(correct) / (12 * kSide * kSide), model.test.accuracy);
}

// Damaged at its header, or where only decoding finds it.
TEST(Prediction, AnswersForTheOthersWhereFilesAreDamaged) {
  const TemporaryFolder folder;
  const recipes::Recipe recipe = small_recipe();
  const Files files = evaluated_files(recipe, folder);
  Trained model = trained(recipe, folder, {files.paths.at(0), files.paths.at(1)});
  const std::vector<Json> whole = predictions_of(model);
  ASSERT_EQ(whole.size(), 2U);
  const auto png = input::bytes_of_file(files.paths.at(2));
  ASSERT_GT(png.size(), 60U);
  const std::string broken = folder.write("broken.png", "no picture").string();
  const std::string cut =
      folder.write("cut.png", std::string(png.begin(), png.begin() + 60)).string();
  const std::string text = folder.write("text.png", "no picture either").string();
  model.request.pictures = {broken, files.paths.at(0), cut, files.paths.at(1), text};
  std::vector<Json> predictions;
  const auto answer = answer_of(model, predictions);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->at("pictures"), 5);
  EXPECT_EQ(answer->at("unreadable"), 3);
  ASSERT_EQ(predictions.size(), 5U);
  EXPECT_EQ(predictions[1], whole[0]);
  EXPECT_EQ(predictions[3], whole[1]);
  for (const std::size_t damaged : {0U, 2U, 4U}) {
    EXPECT_EQ(predictions[damaged].at("file"), model.request.pictures[damaged]);
    EXPECT_NE(predictions[damaged].at("error").at("what"), "");
    EXPECT_FALSE(predictions[damaged].contains("outputs"));
  }
  EXPECT_EQ(predictions[0].at("error").at("what"), "is neither a JPEG nor a PNG file");

  model.request.pictures = {broken};
  EXPECT_EQ(predictions_of(model).size(), 1U) << "of none";
}

// Encoded files in batches, the first of which are answered before the damage is met.
TEST(Prediction, GoesOnBehindADamagedPictureFile) {
  const TemporaryFolder folder;
  const auto bytes = input::bytes_of_file(input::fixture_path("444_37x51.jpg"));
  const std::string jpeg(bytes.begin(), bytes.end());
  std::vector<std::string> paths;
  for (const char* const name : {"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"})
    paths.push_back(folder.write(name, jpeg).string());
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 2;
  recipe.data = {"image_files", {{"files", (folder / "*/*.jpg").string()}}};
  recipe.input = {
      {"decode", Json::object()}, {"resize", {{"size", 4}}}, {"to_float", Json::object()}};
  recipe.train.batch_size = 2;
  recipe.evaluation = recipes::Evaluation{.data = recipe.data};
  Trained model = trained(recipe, folder, paths);
  const std::string cut = folder.write("cut.jpg", jpeg.substr(0, jpeg.size() * 6 / 10)).string();
  model.request.pictures = {paths[0], paths[1], paths[2], cut, paths[3]};
  std::vector<Json> predictions;
  const auto answer = answer_of(model, predictions);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->at("unreadable"), 1);
  ASSERT_EQ(predictions.size(), 5U);
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    EXPECT_EQ(predictions[i].at("file"), model.request.pictures[i]);
    EXPECT_EQ(predictions[i].contains("error"), i == 3) << predictions[i];
  }
}

TEST(Prediction, SaysWhatItCannotAnswer) {
  const TemporaryFolder folder;
  const recipes::Recipe recipe = small_recipe();
  const Files files = evaluated_files(recipe, folder);
  const Trained model = trained(recipe, folder, {files.paths.at(0), files.paths.at(1)});
  EXPECT_EQ(predictions_of(model).size(), 2U);

  Trained wrong = model;
  wrong.request.pictures.back() =
      folder.write("small.png", input::png_file(4, 8, std::vector<std::uint8_t>(32))).string();
  tests::Cases cases(folder.path());
  cases.add("different sizes", refusal_to_predict(wrong));
  wrong.request.pictures = {wrong.request.pictures.back()};
  cases.add("another size than that of the training", refusal_to_predict(wrong));

  wrong = model;
  wrong.request.stored_as = "float32";
  cases.add("floats", refusal_to_predict(wrong));
  wrong = model;
  wrong.request.sample_shape = {5, 8, 8};
  cases.add("other channels", refusal_to_predict(wrong));
  wrong = model;
  wrong.recipe.model.parameters["hidden"] = 17;
  cases.add("weights of another model", refusal_to_predict(wrong));
  wrong = model;
  wrong.request.weights = folder / "gone.pt";
  cases.add("weights that are not there", refusal_to_predict(wrong));
  wrong = model;
  wrong.recipe.data.type = "tokens";
  cases.add("a model of tokens", refusal_to_predict(wrong));
  tests::expect_golden("trainer/job/golden/prediction.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::trainer
