// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace autotuned {
namespace {

using testing::HasSubstr;

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(ParseJson, ReadsOneValue) {
  EXPECT_EQ(parse_json(R"( {"a": [1, 2.5, null, true, "x"]} )", "test")->dump(),
            R"({"a":[1,2.5,null,true,"x"]})");
  EXPECT_EQ(*parse_json("3", "test"), Json(3));
}

TEST(ParseJson, RefusesWhatIsNotOneValue) {
  for (const char* text : {"", " ", "{", "[1,]", "{} {}", "{}x", "nul", "\"open", "'a'", "01",
                           "1e999", "{\"a\"}", "\"\x80\"", "[1] // comment", "\"\\ud800\""}) {
    const Result<Json> parsed = parse_json(text, "reply of the trainer");
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
    EXPECT_EQ(parsed.error().where, "reply of the trainer");
  }
}

TEST(ParseJson, NamesThePlaceWithoutTheLibrarysCode) {
  const Result<Json> parsed = parse_json("{\n \"a\": oops}", "test");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().what, HasSubstr("line 2, column 7"));
  EXPECT_THAT(parsed.error().what, Not(HasSubstr("json.exception")));
}

TEST(ParseJson, AMessageStaysShortWhateverTheText) {
  const Result<Json> parsed = parse_json("\"" + std::string(1 << 20, 'x'), "test");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_LT(parsed.error().what.size(), 400U);
}

TEST(ParseJson, LimitsTheSize) {
  EXPECT_TRUE(parse_json("[1,2]", "test", 5).has_value());
  EXPECT_FALSE(parse_json("[1,2] ", "test", 5).has_value());
}

TEST(ParseJson, LimitsTheDepthExactly) {
  EXPECT_TRUE(parse_json(nested(64), "test").has_value());
  EXPECT_FALSE(parse_json(nested(65), "test").has_value());
  EXPECT_TRUE(parse_json("3", "test", 10, 0).has_value());
  EXPECT_FALSE(parse_json("[]", "test", 10, 0).has_value());
  std::string objects = "1";
  for (int i = 0; i < 65; ++i)
    objects = "{\"a\":" + objects + "}";
  EXPECT_FALSE(parse_json(objects, "test").has_value());
}

TEST(ParseJson, BracketsInStringsAreNoDepth) {
  EXPECT_TRUE(parse_json("\"" + std::string(200, '[') + "\"", "test").has_value());
  EXPECT_TRUE(parse_json(R"(["\"[[[[[[[[", "\\"])", "test", 100, 1).has_value());
  // A string that ends in an escaped backslash is closed: what follows counts.
  EXPECT_FALSE(parse_json(R"(["\\", [1]])", "test", 100, 1).has_value());
}

TEST(ParseJson, WidthIsNoDepth) {
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i)
    wide += "[],";
  EXPECT_TRUE(parse_json(wide + "[]]", "test", 10000, 2).has_value());
}

TEST(ParseJson, AMillionBracketsDoNotExhaustTheStack) {
  EXPECT_FALSE(parse_json(std::string(1'000'000, '['), "test").has_value());
  EXPECT_FALSE(parse_json(std::string(1'000'000, ']'), "test").has_value());
  // And with the limit out of the way, the library itself copes, in both directions.
  EXPECT_TRUE(parse_json(nested(100'000), "test", 1 << 20, 100'000).has_value());
}

TEST(ToLine, IsOneLineAndReplacesBadBytes) {
  EXPECT_EQ(to_line(Json{{"a", "x\ny"}, {"b", 1}}), R"({"a":"x\ny","b":1})");
  EXPECT_EQ(to_line(Json("a\x80z")), "\"a\xef\xbf\xbdz\"");
  EXPECT_EQ(to_lines(Json{{"a", "\x80z"}, {"b", 1}}),
            "{\n  \"a\": \"\xef\xbf\xbdz\",\n  \"b\": 1\n}\n");
  EXPECT_EQ(to_line(Json(std::numeric_limits<double>::quiet_NaN())), "null");
}

TEST(Fields, AreReadByType) {
  const Json object = {{"s", "text"}, {"i", 3}, {"d", 0.5}, {"b", true}, {"n", nullptr}};
  EXPECT_EQ(*get_string(object, "s"), "text");
  EXPECT_EQ(*get_integer(object, "i"), 3);
  EXPECT_EQ(*get_number(object, "d"), 0.5);
  EXPECT_EQ(*get_number(object, "i"), 3.0);
  EXPECT_EQ(*get_bool(object, "b"), true);
  EXPECT_FALSE(get_integer(object, "d").has_value());
  EXPECT_FALSE(get_bool(object, "i").has_value());
  EXPECT_FALSE(get_string(object, "i").has_value());
  EXPECT_FALSE(get_number(object, "b").has_value());
}

TEST(Fields, ErrorsNameTheFieldTheWishAndTheFind) {
  const Result<std::int64_t> wrong = get_integer(Json{{"steps", "many"}}, "steps");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().what, R"(the field "steps" must be an integer of 64 bits, found "many")");
  const Result<std::int64_t> missing = get_integer(Json::object(), "steps");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().what, HasSubstr("\"steps\" (an integer of 64 bits) is missing"));
  const Result<bool> longer = get_bool(Json{{"f", std::string(1000, 'x')}}, "f");
  EXPECT_LT(longer.error().what.size(), 200U);
}

TEST(Fields, IntegersBeyond64BitsAreRefused) {
  EXPECT_EQ(*get_integer(*parse_json(R"({"i": 9223372036854775807})", "t"), "i"),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*get_integer(*parse_json(R"({"i": -9223372036854775808})", "t"), "i"),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(get_integer(*parse_json(R"({"i": 9223372036854775808})", "t"), "i").has_value());
  EXPECT_FALSE(get_integer(*parse_json(R"({"i": 18446744073709551615})", "t"), "i").has_value());
}

TEST(Fields, NumbersMustBeFinite) {
  EXPECT_FALSE(get_number(Json{{"x", std::numeric_limits<double>::infinity()}}, "x").has_value());
}

TEST(Fields, WhatIsNoObjectHasNoMembers) {
  for (const Json& value : {Json(), Json(3), Json::array({1}), Json("text")}) {
    EXPECT_TRUE(member(value, "a").is_null());
    EXPECT_FALSE(get_string(value, "a").has_value());
  }
  EXPECT_EQ(member(Json{{"a", 1}}, "b"), Json());
}

TEST(Fields, StringsAreThoseOfAList) {
  const Json object = {{"names", {"one", 2, "three"}}, {"text", "one"}};
  EXPECT_EQ(strings_in(object, "names"), (std::vector<std::string>{"one", "three"}));
  for (const char* const field : {"text", "missing"})
    EXPECT_TRUE(strings_in(object, field).empty()) << field;
  EXPECT_TRUE(strings_in(Json(), "names").empty());
}

}  // namespace
}  // namespace autotuned
