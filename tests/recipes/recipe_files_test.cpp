// SPDX-License-Identifier: Apache-2.0
// Data that is many files, named by patterns.
#include <gmock/gmock.h>

#include <filesystem>

#include "recipes/recipe_yaml.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::HasSubstr;

std::string with_files(const std::string& files) {
  return R"(autotuned: 1
name: pictures
model: {type: mlp, hidden: 8, classes: 4}
data: {type: jpeg_files, labels: random, files: )" +
         files + R"(}
input:
  - decode_jpeg
  - center_crop: {size: 8}
  - random_mask: {ratio: 0.25}
  - resize: {size: [6, 4]}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
)";
}

auto parse(const std::string& files, const std::filesystem::path& recipe) {
  return parse_recipe(with_files(files), recipe, sample_knobs());
}

TEST(RecipeFiles, PatternsAreRelativeToTheRecipeWhateverItsFolderIsCalled) {
  const TemporaryFolder folder;
  folder.write("[1]/photos/a.jpg", "a");
  folder.write("[1]/photos/b.jpg", "bb");
  const auto recipe = parse("[photos/*.jpg, photos/a.jpg]", folder / "[1]/recipe.yaml");
  ASSERT_TRUE(recipe) << recipe.error().front().text();
  const std::string here = folder.path().string() + "/\\[1]/photos/";
  EXPECT_EQ(recipe->data.parameters["files"], Json({here + "*.jpg", here + "a.jpg"}));
  EXPECT_EQ(recipe->input[3].parameters, Json({{"size", {6, 4}}}));

  // What best.yaml says is read as the same.
  const auto again = parse_recipe(to_yaml(*recipe, ""), "/elsewhere/best.yaml", sample_knobs());
  ASSERT_TRUE(again) << again.error().front().text();
  EXPECT_EQ(again->data.parameters, recipe->data.parameters);
  EXPECT_EQ(again->hash(), recipe->hash());
}

TEST(RecipeFiles, SayWhatToDoWhenNothingMatches) {
  const TemporaryFolder folder;
  folder.write("photos/a.jpg", "a");
  const auto text = [&](const std::string& files) {
    const auto recipe = parse(files, folder / "recipe.yaml");
    return recipe ? std::string() : recipe.error().front().text();
  };
  EXPECT_THAT(text("photos/*.jpeg"),
              HasSubstr("4:49: data.files: no file matches \"" + folder.path().string() +
                        "/photos/*.jpeg\"; put JPEG files there"));
  EXPECT_THAT(text("photos/*.jpeg"), HasSubstr("relative to the recipe's folder"));
  EXPECT_THAT(text("{a: b}"), HasSubstr("expected a pattern of files such as photos/*.jpg, or a "
                                        "list of such, found a map"));
  EXPECT_THAT(text("[]"), HasSubstr("found a list of 0"));
  EXPECT_EQ(text("photos/*.jpg"), "");
}

TEST(RecipeFiles, MayBeShardsOrArrays) {
  const TemporaryFolder folder;
  for (const char* name : {"train-0.tar", "train-1.tar", "x.npy", "y.npy"})
    folder.write(name, name);
  const auto read = [&](const std::string& data) {
    const std::string text = with_files("none");
    const std::size_t begin = text.find("{type: jpeg_files");
    const std::size_t end = text.find('}', begin) + 1;
    return parse_recipe(text.substr(0, begin) + data + text.substr(end), folder / "recipe.yaml",
                        sample_knobs());
  };
  const std::string here = folder.path().string() + "/";
  const auto shards = read("{type: tar, files: 'train-*.tar', on_error: skip, repeat_to: 9}");
  ASSERT_TRUE(shards) << shards.error().front().text();
  EXPECT_EQ(shards->data.parameters, Json({{"files", here + "train-*.tar"},
                                           {"on_error", "skip"},
                                           {"repeat_to", 9},
                                           {"shuffle", true}}));
  const auto arrays = read("{type: npy, images: [x.npy], labels: y.npy, layout: nhwc}");
  ASSERT_TRUE(arrays) << arrays.error().front().text();
  EXPECT_EQ(arrays->data.parameters, Json({{"images", Json::array({here + "x.npy"})},
                                           {"labels", here + "y.npy"},
                                           {"layout", "nhwc"},
                                           {"shuffle", true}}));
  const auto wrong = read("{type: tar, files: x.tar, on_error: pass}");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().front().text() + wrong.error().back().text(),
              testing::AllOf(HasSubstr("x.tar\"; put tar files there"), HasSubstr("on_error"),
                             HasSubstr("one of stop, skip")));
}

TEST(RecipeFiles, CountByTheirNamesAndSizesInAnyOrder) {
  const TemporaryFolder folder;
  for (const char* place : {"here", "there", "longer", "more"}) {
    folder.write(std::string(place) + "/a.jpg", "1234");
    folder.write(std::string(place) + "/b.jpg", std::string(place) == "longer" ? "56" : "5");
  }
  folder.write("more/c.jpg", "");
  const auto hash = [&](const char* place, const char* files) {
    return parse(files, folder / (std::string(place) + "/recipe.yaml")).value().hash();
  };
  const std::string known = hash("here", "'*.jpg'");
  EXPECT_EQ(hash("there", "'*.jpg'"), known);
  EXPECT_EQ(hash("here", "[b.jpg, a.jpg]"), known);
  EXPECT_NE(hash("here", "a.jpg"), known);
  EXPECT_NE(hash("longer", "'*.jpg'"), known);
  EXPECT_NE(hash("more", "'*.jpg'"), known);
  EXPECT_EQ(hash("more", "'[ab].jpg'"), known);
}

}  // namespace
}  // namespace autotuned::recipes
