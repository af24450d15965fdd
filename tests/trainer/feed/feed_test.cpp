// SPDX-License-Identifier: Apache-2.0
// How the recipe's transforms reach the step, through a whole job.
#include <gmock/gmock.h>

#include "tests/golden.hpp"
#include "tests/trainer/small_job.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

recipes::Recipe recipe_with(std::vector<recipes::Component> input) {
  recipes::Recipe recipe = small_recipe();
  recipe.data.parameters["shape"] = {3, 12, 10};
  recipe.evaluation->data.parameters["shape"] = {3, 12, 10};
  recipe.input = std::move(input);
  return recipe;
}

recipes::Recipe yuv_recipe() {
  return recipe_with({{"random_crop", {{"size", 8}}},
                      {"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}},
                      {"rgb_to_yuv", Json::object()},
                      {"scale", {{"by", "1/255"}}}});
}

// The losses of two epochs and a half from the initial state.
std::vector<double> losses_of(Job& job, const Configuration& configuration) {
  value_of(job.prepare(configuration));
  EXPECT_TRUE(job.restore("initial"));
  return value_of(job.run_steps(25, never)).losses;
}

TEST(TransformsOfAJob, GiveTheModelTheirShape) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().sample_shape, (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(TransformsOfAJob, DrawTheSameUnderEveryConfiguration) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(yuv_recipe());
  const auto expected = losses_of(*job, start);
  ASSERT_EQ(expected.size(), 25U);
  EXPECT_EQ(losses_of(*job, with(start, "loader.workers", std::int64_t{2})), expected);
}

TEST(TransformsOfAJob, RefuseUint8WhereFloatsAreMadeAndDoNotSuggestIt) {
  const auto job = load(yuv_recipe());
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(yuv_recipe());
  const auto expected = losses_of(*job, start);
  const auto refused = job->prepare(with(start, "transfer.dtype", "uint8"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("transfer.dtype: batches cannot be transferred as uint8"));
  EXPECT_THAT(refused.error().message(), HasSubstr("`rgb_to_yuv`"));
  EXPECT_EQ(losses_of(*job, start), expected);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 0.0);
}

TEST(TransformsOfAJob, TravelAsBytesWhereATableMakesTheFloats) {
  const recipes::Recipe recipe = recipe_with({{"resize", {{"size", {7, 9}}}},
                                              {"to_float", Json::object()},
                                              {"normalize", {{"mean", 0.5}, {"std", 0.5}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  EXPECT_EQ(value_of(job->profile(2, 0, never)).metrics.at("loader.float_from_uint8_ratio"), 1.0);
  EXPECT_EQ(losses_of(*job, with(start, "transfer.dtype", "uint8")), losses_of(*job, start));
}

// The stages over a whole batch of bytes, then the table behind the transfer.
TEST(TransformsOfAJob, TravelAsBytesAlsoPerBatch) {
  const recipes::Recipe recipe = recipe_with({{"random_mask", {{"ratio", 0.25}}},
                                              {"to_float", Json::object()},
                                              {"normalize", {{"mean", 0.5}, {"std", 0.5}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration start = starting(recipe);
  const auto expected = losses_of(*job, start);
  for (const char* point_ops : {"per_batch", "fused"}) {
    for (const std::int64_t workers : {0, 2}) {
      Configuration other = with(start, "input.point_ops", point_ops);
      other.set("transfer.dtype", "uint8");
      other.set("loader.workers", workers);
      EXPECT_EQ(losses_of(*job, other), expected) << point_ops << " " << workers;
    }
  }
}

// On the CPU the device is the training thread: the same arithmetic, written for any device.
TEST(TransformsOfAJob, EndBehindTheTransferWithTheSameBits) {
  const std::vector<recipes::Component> crop_and_mask = {
      {"random_crop", {{"size", 8}}},
      {"random_mask", {{"ratio", 0.25}, {"dilate", "4-neighbour"}}}};
  const recipes::Component yuv = {"rgb_to_yuv", Json::object()};
  const recipes::Component scale = {"scale", {{"by", "1/255"}}};
  const recipes::Component to_float = {"to_float", Json::object()};
  const recipes::Component normalize = {
      "normalize", {{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}}};
  for (const auto& end : std::vector<std::vector<recipes::Component>>{{yuv, scale},
                                                                      {yuv},
                                                                      {yuv, scale, normalize},
                                                                      {to_float, normalize},
                                                                      {scale, yuv, scale}}) {
    std::vector<recipes::Component> input = crop_and_mask;
    input.insert(input.end(), end.begin(), end.end());
    const recipes::Recipe recipe = recipe_with(input);
    const auto job = load(recipe);
    ASSERT_NE(job, nullptr);
    SCOPED_TRACE(end.front().type + " and " + std::to_string(end.size() - 1));
    EXPECT_EQ(job->facts().can_finish_on_device, end.front().type != "to_float");
    const Configuration start = starting(recipe);
    const auto expected = losses_of(*job, start);
    Configuration device = with(start, "input.point_ops", "device");
    EXPECT_EQ(losses_of(*job, device), expected);
    const auto bytes = value_of(job->profile(2, 0, never)).metrics.at("transfer.bytes_per_step");
    EXPECT_EQ(bytes, 20 * (3 * 8 * 8 + 8));
    EXPECT_EQ(value_of(job->evaluate(never)).samples, 50);
    device.set("loader.workers", std::int64_t{2});
    device.set("layout.memory_format", "channels_last");
    EXPECT_EQ(losses_of(*job, device), expected);
    for (const Reuse reuse : {Reuse::made_samples, Reuse::host_batch, Reuse::device_batch})
      EXPECT_GT(value_of(job->run({.reuse = reuse}, never)).samples, 0);
    EXPECT_EQ(losses_of(*job, start), expected);
  }
}

TEST(TransformsOfAJob, RefuseToEndBehindTheTransferWhereTheyCannot) {
  const recipes::Recipe recipe = recipe_with({{"random_crop", {{"size", 8}}},
                                              {"rgb_to_yuv", Json::object()},
                                              {"random_mask", {{"ratio", 0.25}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_FALSE(job->facts().can_finish_on_device);
  const Configuration start = starting(recipe);
  const auto refused = job->prepare(with(start, "input.point_ops", "device"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("input.point_ops"));

  const auto masked = load(yuv_recipe());
  ASSERT_NE(masked, nullptr);
  Configuration both = with(starting(yuv_recipe()), "input.point_ops", "device");
  both.set("transfer.dtype", "uint8");
  const auto twice = masked->prepare(both);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message(),
              HasSubstr("input.point_ops: device already transfers bytes"));
}

TEST(TransformsOfAJob, AreKeptInMemoryWithTheSameBits) {
  const recipes::Recipe recipe = recipe_with({{"resize", {{"size", {9, 11}}}},
                                              {"rgb_to_yuv", Json::object()},
                                              {"random_crop", {{"size", 8}}},
                                              {"scale", {{"by", "1/255"}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().stored_samples, job->facts().train_samples);
  EXPECT_EQ(job->facts().cache_raw_bytes, job->facts().train_samples * 3 * 12 * 10);
  EXPECT_EQ(job->facts().cache_prefix_bytes, job->facts().train_samples * 3 * 9 * 11 * 4);
  EXPECT_EQ(job->facts().cache_decoded_bytes, 0);  // nothing is decoded
  EXPECT_GT(job->facts().cache_allowed_bytes, 1 << 20);
  const Configuration start = starting(recipe);
  const auto expected = losses_of(*job, start);
  // More caches than are kept at a time, filled on their way.
  for (const char* kind : {"prefix", "raw", "prefix_file", "prefix", "decoded", "none"}) {
    for (const char* order : {"written", "crop_first"}) {
      Configuration other = with(start, "input.cache", kind);
      other.set("input.order", order);
      other.set("loader.workers", std::int64_t{2});
      EXPECT_EQ(losses_of(*job, other), expected) << kind << " " << order;
    }
  }
  // A block fills it before its clock starts, and a profile tells what it holds.
  value_of(job->prepare(with(start, "input.cache", "prefix")));
  const Block filled = value_of(job->run({}, never));
  const auto metrics = value_of(job->profile(2, 0, never)).metrics;
  EXPECT_EQ(metrics.at("input.cached_ratio"), 1.0);
  EXPECT_GT(metrics.at("input.cache_fill_ns"), 0.0);
  // Every block of it tells what that took, and none of a configuration that keeps nothing.
  EXPECT_EQ(static_cast<double>(filled.one_time_ns), metrics.at("input.cache_fill_ns"));
  EXPECT_EQ(filled.one_time_samples, job->facts().stored_samples);
  const Block later = value_of(job->run({}, never));
  EXPECT_EQ(later.one_time_ns, filled.one_time_ns);
  EXPECT_EQ(later.one_time_samples, filled.one_time_samples);
  EXPECT_GE(metrics.at("input.cache_bytes"), static_cast<double>(job->facts().cache_prefix_bytes));
  value_of(job->prepare(start));
  EXPECT_EQ(value_of(job->run({}, never)).one_time_ns, 0);
  const auto without = value_of(job->profile(2, 0, never)).metrics;
  EXPECT_EQ(without.at("input.cached_ratio"), 0.0);
  EXPECT_GT(without.at("input.prefix_ratio"), without.at("input.read_ratio"));
  EXPECT_GT(without.at("input.read_ratio"), 0.0);
}

TEST(TransformsOfAJob, StayKeptWhileOtherConfigurationsAreRefused) {
  const recipes::Recipe recipe =
      recipe_with({{"resize", {{"size", 9}}}, {"random_crop", {{"size", 8}}}});
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  const Configuration used = with(starting(recipe), "input.cache", "prefix");
  const auto expected = losses_of(*job, used);
  value_of(job->run({}, never));
  const auto before = value_of(job->profile(2, 0, never)).metrics;
  ASSERT_EQ(before.at("input.cached_ratio"), 1.0);
  ASSERT_GT(before.at("input.cache_fill_ns"), 0.0);
  // Refused for what is looked at after their cache has been made.
  for (const char* kind : {"raw", "prefix_file", "raw"}) {
    const Configuration other = with(used, "input.cache", kind);
    ASSERT_FALSE(job->prepare(with(other, "precision.keep_float32", "conv1"))) << kind;
  }
  const auto after = value_of(job->profile(2, 0, never)).metrics;
  EXPECT_EQ(after.at("input.cached_ratio"), 1.0);
  // The very one, and not another that was filled since.
  EXPECT_EQ(after.at("input.cache_fill_ns"), before.at("input.cache_fill_ns"));
  EXPECT_EQ(losses_of(*job, used), expected);
}

// That 20,000 bytes hold a part of the samples, and that this changes no loss.
void expect_partly_kept(Job& job, const Configuration& start, const char* cache) {
  const auto expected = losses_of(job, start);
  EXPECT_EQ(losses_of(job, with(start, "input.cache", cache)), expected);
  value_of(job.run({}, never));
  const auto metrics = value_of(job.profile(2, 0, never)).metrics;
  EXPECT_GT(metrics.at("input.cached_ratio"), 0.0);
  EXPECT_LT(metrics.at("input.cached_ratio"), 1.0);
  EXPECT_LE(metrics.at("input.cache_bytes"), 20'000);
}

TEST(TransformsOfAJob, AreKeptInAFileOnlyAsFarAsDiskSpaceIsAllowed) {
  recipes::Recipe recipe = recipe_with({{"resize", {{"size", 9}}}, {"random_crop", {{"size", 8}}}});
  recipe.tune.cache_disk_bytes = 20'000;
  recipe.output_dir = std::filesystem::temp_directory_path() / "autotuned-not-there/yet";
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().cache_disk_allowed_bytes, 20'000);
  expect_partly_kept(*job, starting(recipe), "prefix_file");
  EXPECT_FALSE(std::filesystem::exists(recipe.output_dir.parent_path()));
}

TEST(TransformsOfAJob, AreKeptOnlyAsFarAsMemoryIsAllowed) {
  recipes::Recipe recipe = recipe_with({{"random_crop", {{"size", 8}}}});
  recipe.tune.cache_memory_bytes = 20'000;  // of 3 x 12 x 10 bytes and a line each: a part
  const auto job = load(recipe);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->facts().cache_allowed_bytes, 20'000);
  expect_partly_kept(*job, starting(recipe), "raw");
}

TEST(TransformsOfAJob, AreRefusedBeforeAnythingIsTrained) {
  const auto message = [](const recipes::Recipe& recipe) {
    const auto job = Job::load(recipe, starting(recipe), test_machine(), cpu_only());
    return job ? std::string() : job.error().message();
  };
  tests::Cases cases;
  cases.add("a large crop", message(recipe_with({{"random_crop", {{"size", 11}}}})));
  recipes::Recipe smaller = recipe_with({{"center_crop", {{"size", 9}}}});
  smaller.evaluation->data.parameters["shape"] = {3, 8, 8};
  cases.add("a crop too large for what is tested on", message(smaller));
  recipes::Recipe other = recipe_with({});
  other.evaluation->data.parameters["shape"] = {3, 8, 8};
  cases.add("another shape to test on", message(other));
  tests::expect_golden("trainer/feed/golden/transforms.txt", cases.text());
  // The sizes differ, but not where the model sees them.
  other.input = {{"center_crop", {{"size", 8}}}};
  EXPECT_EQ(message(other), "");
}

}  // namespace
}  // namespace autotuned::trainer
