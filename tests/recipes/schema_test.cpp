// SPDX-License-Identifier: Apache-2.0
#include "recipes/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "recipes/checker.hpp"
#include "recipes/schema_table.hpp"
#include "tests/places.hpp"
#include "tests/recipes/samples.hpp"

namespace autotuned::recipes {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void for_each_field(const std::vector<Field>& fields,
                    const std::function<void(const Field&)>& visit) {
  for (const Field& field : fields) {
    visit(field);
    for_each_field(field.fields, visit);
    if (field.variants == nullptr) continue;
    for (const Variant& variant : *field.variants)
      for_each_field(variant.fields, visit);
  }
}

TEST(Schema, EveryDefaultIsAValidValue) {
  for_each_field(recipe_field().fields, [](const Field& field) {
    if (field.default_text.empty()) return;
    const auto node = parse_yaml(field.default_text, "default");
    ASSERT_TRUE(node) << field.key;
    std::vector<Diagnostic> found;
    Checker checker("default", "/", found);
    EXPECT_TRUE(checker.check(field, *node, std::string(field.key))) << field.key;
    for (const Diagnostic& problem : found)
      ADD_FAILURE() << problem.text();
  });
}

TEST(Schema, EveryFieldIsExplained) {
  for_each_field(recipe_field().fields, [](const Field& field) {
    EXPECT_THAT(std::string(field.summary), testing::EndsWith(".")) << field.key;
    EXPECT_FALSE(field.expected().empty()) << field.key;
    // What may be left out says what happens then.
    EXPECT_NE(field.is_required, !field.default_text.empty() || !field.default_in_words.empty())
        << field.key;
  });
}

// Every key that the checker knows is in the reference, on a line of its own.
TEST(Schema, TextNamesEveryField) {
  const std::string text = "\n" + schema_text();
  for_each_field(recipe_field().fields, [&](const Field& field) {
    EXPECT_THAT(text, HasSubstr(std::string(field.key) + ": " + field.expected()));
  });
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 120U) << line;
}

TEST(Schema, JsonFollowsTheTable) {
  const Json schema = schema_json();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["required"], Json({"autotuned", "name", "model", "data", "optimizer", "train"}));
  const Json& properties = schema["properties"];
  EXPECT_EQ(properties["autotuned"]["minimum"], 1);
  EXPECT_EQ(properties["autotuned"]["maximum"], 1);
  EXPECT_EQ(properties["deterministic"]["type"], "boolean");
  EXPECT_EQ(properties["train"]["properties"]["batch_size"]["maximum"], 1'048'576);
  EXPECT_EQ(properties["tune"]["properties"]["batch_size"]["properties"]["lr_scaling"]["enum"],
            Json({"none", "linear", "sqrt"}));
  ASSERT_EQ(properties["model"]["oneOf"].size(), model_types().size());
  EXPECT_EQ(properties["model"]["oneOf"][0]["properties"]["type"]["const"], "fashion_cnn");
  EXPECT_EQ(properties["data"]["oneOf"][0]["required"], Json({"files", "type"}));
  EXPECT_TRUE(properties["start"]["properties"].contains("loader.workers"));
  EXPECT_FALSE(properties["start"]["properties"].contains("batch_size"));
}

// docs/recipe.md shows the reference word for word.
TEST(Schema, DocumentIsUpToDate) {
  std::ifstream file(tests::source_folder() / "docs/recipe.md");
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_NE(document.str().find("```text\n" + schema_text() + "```\n"), std::string::npos)
      << "docs/recipe.md must hold the output of `autotuned schema` in a text block";
}

// The example in docs/recipe.md is a recipe that `autotuned check` accepts.
TEST(Schema, DocumentedExampleIsRight) {
  std::ifstream file(tests::source_folder() / "docs/recipe.md");
  std::stringstream content;
  content << file.rdbuf();
  const std::string document = content.str();
  const std::string opening = "```yaml\n";
  const std::size_t start = document.find(opening);
  ASSERT_NE(start, std::string::npos);
  const std::size_t from = start + opening.size();
  EXPECT_THAT(problems(document.substr(from, document.find("```", from) - from)), IsEmpty());
}

}  // namespace
}  // namespace autotuned::recipes
