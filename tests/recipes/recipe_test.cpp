// SPDX-License-Identifier: Apache-2.0
#include "recipes/recipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/base/temporary_folder.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

// Every key with another value than its default.
constexpr std::string_view kFullRecipe = R"(autotuned: 1
name: full
seed: 7
device: cuda:1
deterministic: true
model: {type: fashion_cnn, classes: 12}
data: {type: synthetic, samples: 640, shape: [3, 28, 14], classes: 12, shuffle: false}
input:
  - scale: {by: 1/255}
  - normalize: {mean: [0.1, 0.2, -0.3], std: 0.5}
loss: cross_entropy
optimizer: {type: sgd, lr: 1e-2, momentum: 0.9, weight_decay: 1e-4, nesterov: on}
train: {steps: 100, batch_size: 64, drop_last: false}
evaluate:
  data: {type: synthetic, samples: 10, shape: [3, 28, 14], classes: 12}
  every: end
start: {loader.workers: 4, optimizer.set_to_none: on, precision.autocast: "off", env.A_B: x y}
tune:
  objective: samples_per_second
  plugins: [amp, batch_size]
  budget: 1h30min
  min_gain: 0.5%
  memory_limit: 6GiB
  allow: [numerics, batch_size]
  batch_size: {max: 256, lr_scaling: sqrt}
output: {dir: /tmp/somewhere/../else, checkpoint_every: 90s}
)";

TEST(Recipe, ReadsEveryKey) {
  const Recipe recipe = right(kFullRecipe);
  EXPECT_EQ(recipe.name, "full");
  EXPECT_EQ(recipe.seed, 7U);
  EXPECT_EQ(recipe.device, "cuda:1");
  EXPECT_TRUE(recipe.deterministic);
  EXPECT_EQ(recipe.model.type, "fashion_cnn");
  EXPECT_EQ(recipe.model.parameters, Json({{"classes", 12}}));
  EXPECT_EQ(recipe.data.type, "synthetic");
  EXPECT_EQ(recipe.data.parameters,
            Json({{"samples", 640}, {"shape", {3, 28, 14}}, {"classes", 12}, {"shuffle", false}}));
  ASSERT_EQ(recipe.input.size(), 2U);
  EXPECT_EQ(recipe.input[0].type, "scale");
  EXPECT_EQ(recipe.input[0].parameters, Json({{"by", 1.0 / 255.0}}));
  EXPECT_EQ(recipe.input[1].parameters, Json({{"mean", {0.1, 0.2, -0.3}}, {"std", 0.5}}));
  EXPECT_EQ(recipe.optimizer.parameters,
            Json({{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 1e-4}, {"nesterov", true}}));
  EXPECT_FALSE(recipe.train.epochs);
  EXPECT_EQ(recipe.train.steps, 100);
  EXPECT_EQ(recipe.train.batch_size, 64);
  EXPECT_FALSE(recipe.train.drop_last);
  ASSERT_TRUE(recipe.evaluation);
  EXPECT_EQ(recipe.evaluation->data.parameters["samples"], 10);
  EXPECT_EQ(recipe.evaluation->every, "end");
  EXPECT_EQ(recipe.start.canonical_text(),
            "env.A_B=\"x y\" loader.workers=4 optimizer.set_to_none=on precision.autocast=off");
  ASSERT_TRUE(recipe.tune.plugins);
  EXPECT_THAT(*recipe.tune.plugins, ElementsAre("amp", "batch_size"));
  EXPECT_EQ(recipe.tune.budget, 90min);
  EXPECT_DOUBLE_EQ(recipe.tune.min_gain_ratio, 0.005);
  EXPECT_EQ(recipe.tune.memory_limit_bytes, std::int64_t{6} << 30);
  EXPECT_THAT(recipe.tune.allow, ElementsAre("numerics", "batch_size"));
  EXPECT_EQ(recipe.tune.batch_size_max, 256);
  EXPECT_EQ(recipe.tune.lr_scaling, LearningRateScaling::sqrt);
  EXPECT_EQ(recipe.output_dir, "/tmp/else");
  EXPECT_EQ(recipe.checkpoint_every, 90s);
  EXPECT_EQ(recipe.file, std::filesystem::current_path() / "recipe.yaml");
}

TEST(Recipe, EvaluatesOnAShareOfTheTrainingData) {
  const Recipe recipe = right(std::string(kQuickRecipe) +
                              "evaluate: {split: 10%, input: [center_crop: {size: 4}]}\n");
  ASSERT_TRUE(recipe.evaluation);
  EXPECT_DOUBLE_EQ(recipe.evaluation->split_ratio, 0.1);
  EXPECT_TRUE(recipe.evaluation->data.type.empty());
  ASSERT_TRUE(recipe.evaluation->input);
  ASSERT_EQ(recipe.evaluation->input->size(), 1U);
  EXPECT_EQ(recipe.evaluation->input->front().type, "center_crop");
  const Result<Recipe> read = Recipe::from_json(recipe.to_json());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->to_json(), recipe.to_json());
  EXPECT_NE(recipe.hash(), right(kQuickRecipe).hash());
  EXPECT_NE(recipe.hash(), right(std::string(kQuickRecipe) + "evaluate: {split: 10%}\n").hash());
  // What evaluations decide is no part of what is tuned.
  EXPECT_EQ(
      right(std::string(kQuickRecipe) + "evaluate: {split: 10%, patience: 2, save_best: true}\n")
          .hash(),
      right(std::string(kQuickRecipe) + "evaluate: {split: 10%}\n").hash());
  // What is sent to a trainer is checked there once more.
  for (const char* key : {"data", "split_ratio"}) {
    Json both = recipe.to_json();
    both["evaluate"]["data"] = both["data"];
    both["evaluate"].erase(key);
    EXPECT_TRUE(Recipe::from_json(both)) << key;
    both["evaluate"]["data"] = both["data"];
    both["evaluate"]["split_ratio"] = 0.1;
    EXPECT_FALSE(Recipe::from_json(both));
  }
}

TEST(Recipe, FillsInDefaults) {
  const Recipe recipe = right(
      "autotuned: 1\n"
      "name: short\n"
      "model: {type: mlp}\n"
      "data: {type: synthetic, samples: 9, shape: [1, 2, 3], classes: 2}\n"
      "optimizer: {type: adam}\n"
      "train: {epochs: 3}\n");
  EXPECT_EQ(recipe.seed, 1U);
  EXPECT_EQ(recipe.device, "auto");
  EXPECT_FALSE(recipe.deterministic);
  EXPECT_EQ(recipe.model.parameters, Json({{"hidden", 128}, {"classes", 10}}));
  EXPECT_EQ(recipe.data.parameters["shuffle"], true);
  EXPECT_TRUE(recipe.input.empty());
  EXPECT_EQ(recipe.loss, "cross_entropy");
  EXPECT_EQ(recipe.optimizer.parameters,
            Json({{"lr", 0.001}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}}));
  EXPECT_EQ(recipe.train.epochs, 3);
  EXPECT_EQ(recipe.train.batch_size, 32);
  EXPECT_TRUE(recipe.train.drop_last);
  EXPECT_FALSE(recipe.evaluation);
  EXPECT_TRUE(recipe.start.empty());
  EXPECT_FALSE(recipe.tune.plugins);
  EXPECT_EQ(recipe.tune.budget, 10min);
  EXPECT_DOUBLE_EQ(recipe.tune.min_gain_ratio, 0.02);
  EXPECT_DOUBLE_EQ(recipe.tune.memory_limit_ratio, 0.9);
  EXPECT_FALSE(recipe.tune.memory_limit_bytes);
  EXPECT_TRUE(recipe.tune.allow.empty());
  EXPECT_EQ(recipe.tune.batch_size_max, 1024);
  EXPECT_EQ(recipe.tune.lr_scaling, LearningRateScaling::none);
  EXPECT_EQ(recipe.output_dir, std::filesystem::current_path() / "out/short");
  EXPECT_EQ(recipe.checkpoint_every, 10min);
}

TEST(Recipe, TakesAMemoryLimitAsShareOrSize) {
  const auto tune = [](const std::string& limit) {
    return right(std::string(kQuickRecipe) + "tune: {memory_limit: " + limit + "}\n").tune;
  };
  EXPECT_DOUBLE_EQ(tune("50%").memory_limit_ratio, 0.5);
  EXPECT_DOUBLE_EQ(tune("0.25").memory_limit_ratio, 0.25);
  EXPECT_DOUBLE_EQ(tune("100%").memory_limit_ratio, 1.0);
  EXPECT_FALSE(tune("50%").memory_limit_bytes);
  EXPECT_EQ(tune("512MiB").memory_limit_bytes, 512 << 20);
  EXPECT_EQ(tune("2000000000").memory_limit_bytes, 2'000'000'000);
}

TEST(Recipe, ALargeBatchSizeRaisesTheDefaultLimit) {
  EXPECT_EQ(right(changed(kQuickRecipe, "batch_size: 8", "batch_size: 4096")).tune.batch_size_max,
            4096);
}

TEST(Recipe, StartsFromDefaultsItsBatchSizeAndItsOwnKnobs) {
  const Recipe recipe = right(std::string(kQuickRecipe) + "start: {loader.workers: 3}\n");
  EXPECT_EQ(
      recipe.starting_configuration(sample_knobs()).canonical_text(),
      "batch_size=8 checkpoint.async=off cuda.graph=off cudnn.benchmark=off "
      "ddp.bucket_cap_mb=25 ddp.comm_hook=none ddp.gradient_as_bucket_view=off input.cache=none "
      "input.decode=full input.decode_scale=full input.dilation=convolution input.jpeg_index=off "
      "input.order=written input.point_ops=per_sample input.read_ahead=0 "
      "layout.memory_format=contiguous loader.affinity=any loader.pin_memory=off "
      "loader.prefetch_batches=2 loader.workers=3 memory.allocator=glibc "
      "memory.malloc=default "
      "optimizer.fused=off optimizer.set_to_none=on precision.autocast=off "
      "precision.keep_float32=none precision.tf32=off rewrite.gather=gather "
      "threads.intra_op=4 train.loss_reading=deferred transfer.dtype=float32 "
      "transfer.non_blocking=off");
}

TEST(Recipe, ScalesTheLearningRate) {
  const auto rate = [](const std::string& rule) {
    return right(std::string(kQuickRecipe) + "tune: {batch_size: {lr_scaling: " + rule + "}}\n")
        .learning_rate_at(32);
  };
  EXPECT_DOUBLE_EQ(rate("none"), 0.1);
  EXPECT_DOUBLE_EQ(rate("linear"), 0.4);
  EXPECT_DOUBLE_EQ(rate("sqrt"), 0.2);
}

TEST(Recipe, AllowsExactlyWhatItSays) {
  const auto allows = [](const std::string& list, RiskClass risk,
                         std::initializer_list<std::string> names) {
    Configuration change;
    for (const std::string& name : names)
      change.set(name, std::int64_t{1});
    return right(std::string(kQuickRecipe) + "tune: {allow: [" + list + "]}\n")
        .allows(risk, change);
  };
  using enum RiskClass;
  EXPECT_TRUE(allows("", exact, {"loader.workers"}));
  EXPECT_FALSE(allows("", numerics, {"precision.autocast"}));
  EXPECT_FALSE(allows("", semantics, {"batch_size"}));

  EXPECT_TRUE(allows("numerics", numerics, {"precision.autocast"}));
  EXPECT_FALSE(allows("numerics", semantics, {"batch_size"}));
  EXPECT_TRUE(allows("semantics", numerics, {"precision.autocast"}));
  EXPECT_TRUE(allows("semantics", semantics, {"batch_size"}));

  EXPECT_TRUE(allows("batch_size", semantics, {"batch_size"}));
  EXPECT_FALSE(allows("batch_size", numerics, {"precision.autocast"}));
  EXPECT_FALSE(allows("batch_size", semantics, {"batch_size", "precision.autocast"}));
  EXPECT_TRUE(allows("batch_size, numerics", semantics, {"batch_size", "precision.autocast"}));
  EXPECT_TRUE(allows("batch_size", semantics, {"batch_size", "loader.workers"}));
  EXPECT_TRUE(allows("precision.autocast", numerics, {"precision.autocast", "loader.workers"}));
  // Declared riskier than the knob is: nobody permitted that.
  EXPECT_FALSE(allows("batch_size", numerics, {"transfer.dtype"}));
  EXPECT_FALSE(allows("batch_size", semantics, {"batch_size", "unheard.of"}));
}

// With more than two ranks the order of a sum depends on the bucket.
TEST(Recipe, AllowsByTheClassesOfItsRanks) {
  Recipe recipe = right(std::string(kQuickRecipe) + "tune: {allow: [batch_size]}\n");
  Configuration change;
  change.set("batch_size", std::int64_t{64});
  change.set("ddp.bucket_cap_mb", std::int64_t{1});
  recipe.train.ranks = 2;
  EXPECT_TRUE(recipe.allows(RiskClass::semantics, change));
  recipe.train.ranks = 4;
  EXPECT_FALSE(recipe.allows(RiskClass::semantics, change));
}

TEST(Recipe, SurvivesJson) {
  for (const std::string_view text : {kFullRecipe, kQuickRecipe}) {
    const Recipe recipe = right(text);
    const Json json = recipe.to_json();
    const auto again = Recipe::from_json(*parse_json(to_line(json), "recipe"));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->to_json(), json);
    EXPECT_EQ(again->hash(), recipe.hash());
  }
}

TEST(Recipe, SaysHowMuchMemoryACacheMayTake) {
  const auto tune = [](const std::string& amount) {
    return right(std::string(kQuickRecipe) + "tune: {cache_memory: " + amount + "}\n").tune;
  };
  EXPECT_DOUBLE_EQ(right(kQuickRecipe).tune.cache_memory_ratio, 0.5);
  EXPECT_DOUBLE_EQ(tune("25%").cache_memory_ratio, 0.25);
  EXPECT_EQ(tune("2GiB").cache_memory_bytes, std::int64_t{2} << 30);
  const Recipe recipe = right(std::string(kQuickRecipe) + "tune: {cache_memory: 3GiB}\n");
  EXPECT_EQ(Recipe::from_json(recipe.to_json())->tune.cache_memory_bytes, std::int64_t{3} << 30);
}

TEST(Recipe, SaysHowMuchDiskSpaceACacheMayTake) {
  const auto tune = [](const std::string& amount) {
    return right(std::string(kQuickRecipe) + "tune: {cache_disk: " + amount + "}\n").tune;
  };
  EXPECT_DOUBLE_EQ(right(kQuickRecipe).tune.cache_disk_ratio, 0.5);
  EXPECT_DOUBLE_EQ(tune("25%").cache_disk_ratio, 0.25);
  EXPECT_EQ(tune("2GiB").cache_disk_bytes, std::int64_t{2} << 30);
  const Recipe recipe = right(std::string(kQuickRecipe) + "tune: {cache_disk: 3GiB}\n");
  EXPECT_EQ(Recipe::from_json(recipe.to_json())->tune.cache_disk_bytes, std::int64_t{3} << 30);
  EXPECT_NE(recipe.hash(), right(kQuickRecipe).hash());
}

TEST(Recipe, RefusesJsonThatIsNone) {
  EXPECT_FALSE(Recipe::from_json(Json()));
  EXPECT_FALSE(Recipe::from_json(Json::array()));
  const Json json = right(kFullRecipe).to_json();
  ASSERT_TRUE(Recipe::from_json(json));
  // Every member in turn with a value of a type that no member has, at every depth.
  const auto try_all = [&](const auto& self, const Json::json_pointer& at) -> void {
    for (const auto& [key, value] : json.at(at).items()) {
      const Json::json_pointer inside = at / key;
      // What a model and the like take is theirs to check, and any knob may be in a configuration.
      static const std::vector<std::string> kFree{"objective", "plugins", "memory_limit_bytes"};
      const bool is_free = std::ranges::find(kFree, key) != kFree.end();
      if (!is_free) {
        Json broken = json;
        broken[inside] = Json::array({Json::array()});
        EXPECT_FALSE(Recipe::from_json(broken)) << inside.to_string();
      }
      if (key == "train" || key == "tune" || key == "output" || key == "batch_size") {
        if (value.is_object()) self(self, inside);
      }
    }
  };
  try_all(try_all, Json::json_pointer(""));
}

TEST(Recipe, RefusesJsonOutOfBounds) {
  const Json json = right(kFullRecipe).to_json();
  const auto with = [&](const char* pointer, const Json& value) {
    Json broken = json;
    broken[Json::json_pointer(pointer)] = value;
    return Recipe::from_json(broken).has_value();
  };
  EXPECT_TRUE(with("/device", "cuda:1"));
  EXPECT_FALSE(with("/device", "cuda:x"));
  EXPECT_FALSE(with("/device", "cuda:99999999999999999999"));
  EXPECT_TRUE(with("/train/steps", 1));
  EXPECT_FALSE(with("/train/steps", 0));
  EXPECT_FALSE(with("/train/steps", std::int64_t{1} << 60));
  EXPECT_FALSE(with("/train/epochs", 1));  // and steps
  EXPECT_FALSE(with("/train/batch_size", 0));
  EXPECT_FALSE(with("/train/batch_size", std::int64_t{1} << 40));
  EXPECT_FALSE(with("/seed", -1));
  EXPECT_FALSE(with("/optimizer/lr", nullptr));
  EXPECT_FALSE(with("/autotuned", 2));
  EXPECT_FALSE(with("/tune/batch_size/lr_scaling", "cubic"));
}

TEST(RecipeHash, IsStable) {
  // Stored in histories: a change makes every best configuration there unknown.
  EXPECT_EQ(right(kQuickRecipe).hash(), "bc41b152b9010618");
  EXPECT_EQ(right(kFullRecipe).hash(), "756411d77f4295b3");
}

TEST(RecipeHash, LeavesOutWhatIsNotTheJob) {
  const std::string hash = right(kFullRecipe).hash();
  const auto same = [&](std::string_view from, std::string_view to) {
    EXPECT_EQ(right(changed(kFullRecipe, from, to)).hash(), hash) << to;
  };
  same("name: full", "name: other");
  same("seed: 7", "seed: 8");
  same("steps: 100", "steps: 1000");
  same("steps: 100", "epochs: 2");
  same("budget: 1h30min", "budget: 5s");
  same("/tmp/somewhere/../else", "/tmp/nowhere");
  same("checkpoint_every: 90s", "checkpoint_every: 1h");
  same("[amp, batch_size]", "[batch_size, amp]");
  same("[numerics, batch_size]", "[batch_size, numerics]");
  same("1/255", "2/510");
  EXPECT_EQ(parse_recipe(kFullRecipe, "/tmp/elsewhere.yaml", sample_knobs())->hash(), hash);
}

TEST(RecipeHash, CountsWhatIsTheJob) {
  const std::string hash = right(kFullRecipe).hash();
  const auto other = [&](std::string_view from, std::string_view to) {
    EXPECT_NE(right(changed(kFullRecipe, from, to)).hash(), hash) << to;
  };
  other("device: cuda:1", "device: cpu");
  other("deterministic: true", "deterministic: false");
  other("fashion_cnn, classes: 12", "fashion_cnn, classes: 13");
  other("samples: 640", "samples: 641");
  other("1/255", "1/256");
  other("lr: 1e-2", "lr: 0.02");
  other("batch_size: 64", "batch_size: 32");
  other("drop_last: false", "drop_last: true");
  other("samples: 10", "samples: 11");
  other("loader.workers: 4", "loader.workers: 2");
  other("allow: [numerics, batch_size]", "allow: [numerics]");
  other("lr_scaling: sqrt", "lr_scaling: linear");
  other("min_gain: 0.5%", "min_gain: 1%");
}

TEST(RecipeHash, CountsFilesByNameAndSize) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& place, const std::string& content) {
    folder.write(place + "/images", content);
    folder.write(place + "/labels", "l");
  };
  const std::string text =
      changed(kQuickRecipe, "synthetic, samples: 64, shape: [1, 8, 8], classes: 4",
              "idx, images: images, labels: labels");
  const auto hash = [&](const char* place) {
    return parse_recipe(text, folder / place / "recipe.yaml", sample_knobs()).value().hash();
  };
  write("here", "1234");
  write("there", "abcd");
  write("longer", "12345");
  EXPECT_EQ(hash("here"), hash("there"));
  EXPECT_NE(hash("here"), hash("longer"));
  const Recipe before = parse_recipe(text, folder / "here/recipe.yaml", sample_knobs()).value();
  const std::string known = before.hash();
  std::filesystem::remove_all(folder.path());
  EXPECT_NE(before.hash(), known);  // and does not fail
}

TEST(RecipeHash, CountsAModelFileByNameAndSize) {
  const TemporaryFolder folder;
  const auto hash = [&](const std::string& place, const std::string& content) {
    folder.write(place + "/net.pt", content);
    const std::string text = changed(kQuickRecipe, "mlp, hidden: 16", "torchscript, file: net.pt");
    return parse_recipe(text, folder / place / "recipe.yaml", sample_knobs()).value().hash();
  };
  EXPECT_EQ(hash("here", "1234"), hash("there", "abcd"));
  EXPECT_NE(hash("here", "1234"), hash("here", "12345"));
}

TEST(RecipeRanks, AreAnotherJobAndShareTheThreads) {
  const Recipe one = right(kQuickRecipe);
  const Recipe two = right(changed(kQuickRecipe, "batch_size: 8", "batch_size: 8, ranks: 2"));
  EXPECT_EQ(one.train.ranks, 1);
  EXPECT_FALSE(one.to_json()["train"].contains("ranks"));
  EXPECT_EQ(two.train.ranks, 2);
  EXPECT_NE(two.hash(), one.hash());
  EXPECT_EQ(Recipe::from_json(two.to_json())->train.ranks, 2);
  // The machine has four cores.
  const auto threads = [](const Recipe& recipe) {
    return recipe.starting_configuration(sample_knobs()).integer("threads.intra_op");
  };
  EXPECT_EQ(threads(one), 4);
  EXPECT_EQ(threads(two), 2);
  Recipe many = two;
  many.train.ranks = 64;
  EXPECT_EQ(threads(many), 1);
  many.start.set("threads.intra_op", std::int64_t{3});
  EXPECT_EQ(threads(many), 3);
  Json wrong = two.to_json();
  wrong["train"]["ranks"] = 65;
  EXPECT_FALSE(Recipe::from_json(wrong));
}

TEST(RecipeRanks, RefuseASingleGpu) {
  Recipe recipe = right(kQuickRecipe);
  recipe.tune.budget = 1min;
  EXPECT_TRUE(refuse_ranks(recipe));
  recipe.train.ranks = 2;
  EXPECT_TRUE(refuse_ranks(recipe)) << "they are tuned";
  recipe.device = "cuda";
  EXPECT_TRUE(refuse_ranks(recipe)) << "a GPU each";
  recipe.device = "cuda:1";
  EXPECT_EQ(refuse_ranks(recipe).error().kind, ErrorKind::unsupported);
  recipe.train.ranks = 1;
  EXPECT_TRUE(refuse_ranks(recipe));
}

TEST(Recipe, TheMainJobIsRightWhereItsDataIs) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")) {
    GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  }
  const auto recipe =
      read_recipe(tests::source_folder() / "recipes/fashion_cnn.yaml", sample_knobs());
  ASSERT_TRUE(recipe) << recipe.error().front().text();
  EXPECT_EQ(recipe->model.type, "fashion_cnn");
  EXPECT_EQ(recipe->train.epochs, 2);
}

}  // namespace
}  // namespace autotuned::recipes
