// SPDX-License-Identifier: Apache-2.0
// Training that begins with weights from a file, and layers that are not trained.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/golden.hpp"
#include "tests/places.hpp"
#include "tests/trainer/small_job.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/learner.hpp"

namespace autotuned::trainer {
namespace {

using testing::HasSubstr;

Result<std::unique_ptr<Learner>> made(const recipes::Recipe& recipe) {
  return Learner::create(recipe, {.channels = 1, .height = 8, .width = 8}, at::kCPU);
}

std::string error_of(const recipes::Recipe& recipe) {
  const auto one = made(recipe);
  return one ? std::string() : one.error().message();
}

DeviceBatch batch() {
  at::manual_seed(11);
  DeviceBatch one;
  one.images = at::randn({20, 1, 8, 8});
  one.labels = at::randint(4, {20}, at::kLong);
  one.samples = 20;
  return one;
}

// The parameters that a step changes.
std::vector<std::string> changed_by_a_step(Learner& learner) {
  const Checkpoint before = learner.capture();
  (void)learner.step(batch(), 0.1);
  const Checkpoint after = learner.capture();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < after.parameters.size(); ++i) {
    if (at::equal(before.parameters[i].second, after.parameters[i].second)) continue;
    names.push_back(after.parameters[i].first);
  }
  return names;
}

TEST(Freeze, LeavesParametersAndModulesAlone) {
  const auto changed = [](std::vector<std::string> frozen) {
    recipes::Recipe recipe = small_recipe();
    recipe.optimizer.parameters["weight_decay"] = 0.1;
    if (!frozen.empty()) recipe.model.parameters["freeze"] = frozen;
    const auto learner = value_of(made(recipe));
    return changed_by_a_step(*learner);
  };
  using testing::ElementsAre;
  EXPECT_THAT(changed({}),
              ElementsAre("hidden.weight", "hidden.bias", "output.weight", "output.bias"));
  EXPECT_THAT(changed({"hidden"}), ElementsAre("output.weight", "output.bias"));
  EXPECT_THAT(changed({"hidden.weight", "output.bias"}),
              ElementsAre("hidden.bias", "output.weight"));
}

TEST(Freeze, SaysWhatItCannotFreeze) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["freeze"] = {"hid"};
  tests::Cases cases;
  cases.add("hid", error_of(recipe));
  recipe.model.parameters["freeze"] = {"hidden", "output"};
  cases.add("hidden, output", error_of(recipe));
  tests::expect_golden("trainer/step/golden/freeze.txt", cases.text());
}

TEST(Freeze, CountsOnlyWhatIsTrained) {
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["freeze"] = {"hidden"};
  const auto learner = value_of(made(recipe));
  EXPECT_EQ(learner->parameter_tensors(), 2U);
  std::vector<std::size_t> gradients;
  {
    const auto watch = learner->watch_gradients([&](std::size_t i) { gradients.push_back(i); });
    (void)learner->step(batch(), 0.1);
  }
  EXPECT_THAT(gradients, testing::UnorderedElementsAre(0U, 1U));
}

TEST(Weights, AreThoseOfTheFile) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.seed = 99;
  const Checkpoint other = value_of(made(recipe))->capture();
  value_of(write_model(folder / "other.pt", other));
  recipe.seed = 7;
  const Checkpoint own = value_of(made(recipe))->capture();
  EXPECT_NE(digest_of(own), digest_of(other));
  recipe.model.parameters["weights"] = (folder / "other.pt").string();
  EXPECT_EQ(digest_of(value_of(made(recipe))->capture()), digest_of(other));

  recipe.model.parameters["weights_except"] = {"output"};
  const Checkpoint mixed = value_of(made(recipe))->capture();
  for (std::size_t i = 0; i < mixed.parameters.size(); ++i) {
    const auto& [name, tensor] = mixed.parameters[i];
    const Checkpoint& expected = name.starts_with("output") ? own : other;
    EXPECT_TRUE(at::equal(tensor, expected.parameters[i].second)) << name;
  }
}

// A last layer of another width is the usual case.
TEST(Weights, MustFitTheModel) {
  const Folder folder;
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["classes"] = 3;
  value_of(write_model(folder / "three.pt", value_of(made(recipe))->capture()));
  recipe.model.parameters["classes"] = 4;
  recipe.model.parameters["weights"] = (folder / "three.pt").string();
  tests::Cases cases((folder / "three.pt").parent_path());
  cases.add("weights of three classes", error_of(recipe));
  recipe.model.parameters["weights_except"] = {"output"};
  EXPECT_EQ(error_of(recipe), "");

  recipe.model.parameters.erase("weights_except");
  Checkpoint odd = value_of(made(small_recipe()))->capture();
  odd.parameters[0].first = "fc.weight";
  value_of(write_model(folder / "odd.pt", odd));
  recipe.model.parameters["weights"] = (folder / "odd.pt").string();
  cases.add("another name", error_of(recipe));
  recipe.model.parameters["weights"] = (folder / "none.pt").string();
  cases.add("no file", error_of(recipe));
  std::ofstream(folder / "text.pt") << "no archive";
  recipe.model.parameters["weights"] = (folder / "text.pt").string();
  cases.add("no archive", error_of(recipe));
  tests::expect_golden("trainer/step/golden/weights.txt", cases.text());
}

// LibTorch reads every OrderedDict as None: what PyTorch's state_dict() gives must become a dict first.
TEST(Weights, AnOrderedDictIsRefusedWithWhatToDo) {
  const auto tensors =
      read_model(tests::source_folder() / "tests/trainer/step/data/mlp_ordered_dict.pt");
  ASSERT_FALSE(tensors);
  EXPECT_THAT(tensors.error().message(), HasSubstr("torch.save(dict(model.state_dict()), FILE)"));
}

// data/mlp_state_dict.pt is what PyTorch wrote (data/state_dict.py).
TEST(Weights, AreReadFromAFileOfPyTorchs) {
  const NamedTensors tensors =
      value_of(read_model(tests::source_folder() / "tests/trainer/step/data/mlp_state_dict.pt"));
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].first, "hidden.weight");
  EXPECT_TRUE(at::equal(tensors[0].second, at::arange(128).reshape({2, 64}).to(at::kFloat)));
  EXPECT_EQ(tensors[3].first, "output.bias");
  EXPECT_TRUE(at::equal(tensors[3].second, at::tensor({0.5F, -0.5F, 0.25F, 1.0F})));
  recipes::Recipe recipe = small_recipe();
  recipe.model.parameters["hidden"] = 2;
  recipe.model.parameters["weights"] =
      (tests::source_folder() / "tests/trainer/step/data/mlp_state_dict.pt").string();
  EXPECT_EQ(error_of(recipe), "");
}

}  // namespace
}  // namespace autotuned::trainer
