// SPDX-License-Identifier: Apache-2.0
// Models, data and losses that a plugin brings, as a recipe names them.
#include <gtest/gtest.h>

#include "recipes/knob_json.hpp"
#include "recipes/recipe_yaml.hpp"
#include "tests/golden.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

constexpr std::string_view kPluginRecipe = R"(autotuned: 1
name: mine
model:
  plugin: mine
  hidden: 32
  rate: 1/4
  deep: true
  text: "7"
  word: seven
  list: [1, two, {three: 3}]
data: {plugin: mine, samples: 64, shuffle: off}
loss: plugin
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1, batch_size: 8}
)";

TEST(RecipePlugin, ParametersAreWhatTheyLookLike) {
  const Recipe recipe = right(kPluginRecipe);
  EXPECT_EQ(recipe.model.type, "plugin");
  EXPECT_EQ(recipe.model.parameters.at("plugin"), "mine");
  EXPECT_EQ(recipe.model.parameters.at("line"), 4);
  EXPECT_EQ(recipe.model.parameters.at("parameters"), Json({{"hidden", 32},
                                                            {"rate", 0.25},
                                                            {"deep", true},
                                                            {"text", "7"},
                                                            {"word", "seven"},
                                                            {"list", {1, "two", {{"three", 3}}}}}));
  EXPECT_EQ(recipe.data.parameters.at("parameters"), Json({{"samples", 64}}));
  EXPECT_EQ(recipe.data.parameters.at("shuffle"), false);
  EXPECT_EQ(recipe.loss, "plugin");
}

TEST(RecipePlugin, ReadsBackAsTheSameRecipe) {
  const Recipe recipe = right(kPluginRecipe);
  const Recipe again = right(to_yaml(recipe, "a comment\nof two lines"));
  EXPECT_EQ(again.model.parameters.at("parameters"), recipe.model.parameters.at("parameters"));
  EXPECT_EQ(again.data.parameters.at("parameters"), recipe.data.parameters.at("parameters"));
  EXPECT_EQ(again.data.parameters.at("shuffle"), false);
  // Where it stands in the file says nothing about the job; a parameter does.
  EXPECT_NE(again.model.parameters.at("line"), recipe.model.parameters.at("line"));
  EXPECT_EQ(again.hash(), recipe.hash());
  EXPECT_NE(right(changed(kPluginRecipe, "hidden: 32", "hidden: 33")).hash(), recipe.hash());
}

TEST(RecipePlugin, MistakesAreExplained) {
  const std::string quick(kQuickRecipe);
  WrongRecipes wrong;
  wrong.add("shuffle is neither on nor off",
            changed(kPluginRecipe, "shuffle: off", "shuffle: maybe"));
  wrong.add("a list for a name", changed(kPluginRecipe, "plugin: mine\n", "plugin: [mine]\n"));
  wrong.add("no name", changed(kPluginRecipe, "  plugin: mine\n", "  type: plugin\n"));
  wrong.add("the loss of the model's plugin with another model", quick + "loss: plugin\n");
  wrong.add("a loss has no parameters", quick + "loss: {plugin: mine, scale: 2}\n");
  tests::expect_golden("recipes/golden/plugins.txt", wrong.told());
}

TEST(RecipePlugin, ALossThatIsNamedGoesWithAnyModel) {
  const std::string text = std::string(kQuickRecipe) + "loss: {plugin: mine}\n";
  const Recipe recipe = right(text);
  EXPECT_EQ(recipe.loss, "plugin");
  EXPECT_EQ(recipe.loss_parameters.at("plugin"), "mine");
  EXPECT_GT(recipe.loss_parameters.at("line"), 1);
  const Recipe again = right(to_yaml(recipe, std::string(40, '\n')));
  EXPECT_EQ(again.loss_parameters.at("plugin"), "mine");
  EXPECT_NE(again.loss_parameters.at("line"), recipe.loss_parameters.at("line"));
  EXPECT_EQ(again.hash(), recipe.hash());
  EXPECT_NE(right(std::string(kQuickRecipe) + "loss: {plugin: other}\n").hash(), recipe.hash());
  EXPECT_EQ(Recipe::from_json(recipe.to_json()).value().to_json(), recipe.to_json());
  // Also beside a model of a plugin, and with the type spelt out.
  EXPECT_EQ(right(changed(kPluginRecipe, "loss: plugin", "loss: {type: plugin, plugin: other}"))
                .loss_parameters.at("plugin"),
            "other");
}

TEST(RecipePlugin, TheLossOfTheModelsPluginIsOneWord) {
  EXPECT_EQ(right(kPluginRecipe).to_json().at("loss"), "plugin");
  const Recipe spelt_out = right(changed(kPluginRecipe, "loss: plugin", "loss: {type: plugin}"));
  EXPECT_EQ(spelt_out.to_json().at("loss"), "plugin");
  EXPECT_EQ(right(to_yaml(spelt_out, "")).hash(), right(kPluginRecipe).hash());
}

Json declared(const Json& change = Json::object()) {
  Json knob = {{"name", "mine.depth"}, {"type", "integer"}, {"minimum", 1},          {"maximum", 9},
               {"default", 3},         {"risk", "exact"},   {"summary", "How deep."}};
  knob.merge_patch(change);
  return knob;
}

std::string error_of(const Json& change) {
  const auto knob = knob_from_json(declared(change));
  return knob ? "" : knob.error().message();
}

TEST(KnobFromJson, ReadsEveryType) {
  const Knob depth = knob_from_json(declared({{"switch", "restart"}, {"warmup_steps", 4}})).value();
  EXPECT_EQ(depth.maximum, 9);
  EXPECT_EQ(depth.default_value, KnobValue(std::int64_t{3}));
  EXPECT_EQ(depth.how, KnobSwitch::restart);
  EXPECT_EQ(depth.warmup_steps, 4);
  const Knob mode = knob_from_json({{"name", "mine.mode"},
                                    {"type", "choice"},
                                    {"choices", {"slow", "fast"}},
                                    {"risk", "semantics"},
                                    {"summary", "How."}})
                        .value();
  EXPECT_EQ(mode.default_value, KnobValue(std::string("slow")));
  EXPECT_EQ(mode.risk, RiskClass::semantics);
  EXPECT_EQ(mode.how, KnobSwitch::live);
}

TEST(KnobFromJson, NamesWhatIsWrong) {
  tests::Cases cases;
  for (const Json& change :
       {Json{{"type", "real"}}, Json{{"risk", "none"}}, Json{{"default", 10}},
        Json{{"minimum", nullptr}}, Json{{"summary", ""}}, Json{{"switch", "never"}},
        Json{{"warmup_steps", 1000}}, Json{{"choices", {"a", "b"}}}, Json{{"name", nullptr}}})
    cases.add(change.dump(), error_of(change));
  tests::expect_golden("recipes/golden/knobs.txt", cases.text());
}

}  // namespace
}  // namespace autotuned::recipes
