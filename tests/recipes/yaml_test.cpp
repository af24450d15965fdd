// SPDX-License-Identifier: Apache-2.0
#include "recipes/yaml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.hpp"

namespace autotuned::recipes {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::string> refusals(std::string_view text) {
  std::vector<std::string> texts;
  const auto node = parse_yaml(text, "f.yaml");
  if (node) return texts;
  for (const Diagnostic& problem : node.error())
    texts.push_back(problem.text());
  EXPECT_FALSE(texts.empty());
  return texts;
}

TEST(Yaml, KeepsPositionsThatCountFromOne) {
  const auto root = parse_yaml("a: 1\nb:\n  - x\n  - {c: 'y'}\n", "f.yaml");
  ASSERT_TRUE(root);
  const YamlNode* a = root->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->scalar, "1");
  EXPECT_FALSE(a->is_quoted);
  EXPECT_EQ(a->line, 1);
  EXPECT_EQ(a->column, 4);

  const YamlNode* b = root->find("b");
  ASSERT_NE(b, nullptr);
  ASSERT_THAT(b->items, SizeIs(2));
  const YamlNode* c = b->items[1].find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_TRUE(c->is_quoted);
  EXPECT_EQ(c->line, 4);
  EXPECT_EQ(c->column, 9);
  EXPECT_EQ(root->find("d"), nullptr);
}

TEST(Yaml, PlacesAMissingValueAtItsKey) {
  const auto root = parse_yaml("a:\n\n\nb: ~\n", "f.yaml");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("a")->kind, YamlNode::Kind::null);
  EXPECT_EQ(root->find("a")->line, 1);
  EXPECT_EQ(root->find("b")->line, 4);
  EXPECT_EQ(root->find("b")->column, 4);
}

TEST(Yaml, ReadsNothingAsNull) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n"}) {
    const auto root = parse_yaml(text, "f.yaml");
    ASSERT_TRUE(root) << text;
    EXPECT_EQ(root->kind, YamlNode::Kind::null) << text;
    EXPECT_GE(root->line, 1) << text;
  }
}

TEST(Yaml, RefusesWhatARecipeDoesNotNeed) {
  EXPECT_THAT(refusals("a: &x 1\nb: *x\n"),
              ElementsAre("f.yaml:1:4: anchors (&name) are not allowed in a recipe",
                          "f.yaml:2:4: aliases (*name) are not allowed in a recipe; repeat the "
                          "value"));
  EXPECT_THAT(refusals("a: &x [1, *x]\n"), SizeIs(2));
  EXPECT_THAT(refusals("a: !!int 1\n"),
              ElementsAre("f.yaml:1:4: tags (\"tag:yaml.org,2002:int\") are not allowed in a "
                          "recipe"));
  EXPECT_THAT(refusals("a: !x [1]\nb: !y {c: 1}\n"), SizeIs(2));
  EXPECT_THAT(refusals("a: 1\nb: 2\na: 3\n"),
              ElementsAre("f.yaml:3:1: the key \"a\" is already in line 1"));
  EXPECT_THAT(refusals("[a]: 1\n? {b: 1}\n: 2\n~: 3\n"), SizeIs(3));
  EXPECT_THAT(refusals("a: 1\n---\nb: 1\n"),
              ElementsAre("f.yaml:2:1: a recipe is one document; a second one starts here"));
}

TEST(Yaml, AllowsEqualKeysInDifferentMaps) {
  EXPECT_THAT(refusals("a: {x: 1}\nb: {x: 1}\nx: 1\n"), SizeIs(0));
}

TEST(Yaml, NamesThePlaceOfASyntaxError) {
  EXPECT_THAT(refusals("a: 1\nb: [1, 2\n"),
              ElementsAre(StartsWith("f.yaml:3:1: not valid YAML: ")));
  EXPECT_THAT(refusals("a: b: c\n"), ElementsAre(StartsWith("f.yaml:1:5: not valid YAML: ")));
  EXPECT_THAT(refusals("a: *none\n"), ElementsAre(StartsWith("f.yaml:1:4: not valid YAML: ")));
}

TEST(Yaml, BoundsDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_yaml(nested(32), "f.yaml"));
  EXPECT_THAT(refusals(nested(33)),
              ElementsAre("f.yaml:1:33: lists and maps are nested more than 32 deep"));
  // Beyond the parser's own limit, too, and in block style.
  EXPECT_THAT(refusals(std::string(100'000, '[')), SizeIs(1));
  EXPECT_THAT(refusals(std::string(100'000, '{')), SizeIs(1));
  std::string dashes;
  for (int i = 0; i < 10'000; ++i)
    dashes += "- ";
  EXPECT_THAT(refusals(dashes), SizeIs(1));
}

TEST(Yaml, BoundsSizeAndNodes) {
  EXPECT_THAT(refusals(std::string(kMaxYamlBytes + 1, ' ')),
              ElementsAre("f.yaml: the file is larger than 1 MiB"));
  std::string many = "[";
  for (int i = 0; i < 100'000; ++i)
    many += "1,";
  EXPECT_THAT(refusals(many + "]"),
              ElementsAre("f.yaml:1:200000: the file has more than 100,000 values"));
}

TEST(Yaml, StopsAfterAHundredProblems) {
  std::string twice;
  for (int i = 0; i < 1000; ++i)
    twice += "a: 1\n";
  EXPECT_THAT(refusals(twice), SizeIs(100));
}

TEST(Yaml, RefusesWhatIsNotUtf8) {
  EXPECT_THAT(refusals("a: b\nc: \xff\n"),
              ElementsAre("f.yaml:2:4: the file is not UTF-8 text from here on"));
  using namespace std::string_literals;
  for (const std::string& text :
       {"a\0b"s,
        "\xff\xfe"
        "a\0"s,
        "\xc0\x80"s, "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\xe2\x82"s, "a: \x1b[31m"s}) {
    EXPECT_THAT(refusals(text), SizeIs(1));
  }
  EXPECT_THAT(refusals("a: ü€😀\r\n\tb"), testing::Not(SizeIs(0)));  // a tab cannot indent
  EXPECT_THAT(refusals("a: ü€😀\r\n"), SizeIs(0));
}

TEST(Utf8, QuotesForMessages) {
  EXPECT_EQ(quote_for_message("a\nb\x01"), "\"a\\nb?\"");
  EXPECT_EQ(quote_for_message("ü"), "\"ü\"");
  EXPECT_EQ(quote_for_message("\xff"), "\"?\"");
  EXPECT_EQ(quote_for_message(std::string(61, 'x')), "\"" + std::string(60, 'x') + "…\"");
  EXPECT_EQ(short_for_message("a b"), "a b");
  EXPECT_EQ(short_for_message(std::string(5000, 'x')), std::string(60, 'x') + "…");
}

TEST(DiagnosticText, ShortensANameThatNoFileHas) {
  const std::string longest(255, 'a');
  EXPECT_EQ((Diagnostic{"b/" + longest, 3, 5, "is odd"}.text()), "b/" + longest + ":3:5: is odd");
  EXPECT_EQ((Diagnostic{std::string(5000, 'a'), 0, 0, "is odd"}.text()),
            "\"" + std::string(60, 'a') + "…\": is odd");
}

}  // namespace
}  // namespace autotuned::recipes
