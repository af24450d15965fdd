// SPDX-License-Identifier: Apache-2.0
#include "base/configuration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace autotuned {
namespace {

Configuration example() {
  Configuration configuration;
  configuration.set("precision.autocast", std::string("bf16"));
  configuration.set("batch_size", std::int64_t{32});
  configuration.set("loader.pin_memory", true);
  configuration.set("lr", 0.5);
  return configuration;
}

std::string random_word(std::mt19937_64& random) {
  static constexpr std::string_view kCharacters = "ab=\" \\\n\x01x.1";
  std::string word;
  for (auto left = random() % 4; left > 0; --left) {
    word += kCharacters[random() % kCharacters.size()];
  }
  return word;
}

// Each name has one type, as in the knob table.
Configuration random_configuration(std::mt19937_64& random) {
  Configuration configuration;
  for (auto left = random() % 4; left > 0; --left) {
    const std::string word = random_word(random);
    switch (random() % 4) {
      case 0:
        configuration.set("b" + word, random() % 2 == 0);
        break;
      case 1:
        configuration.set("i" + word, static_cast<std::int64_t>(random() >> (random() % 64)));
        break;
      case 2:
        configuration.set("d" + word, std::ldexp(static_cast<double>(random() % 1000) - 500,
                                                 static_cast<int>(random() % 200) - 100));
        break;
      default:
        configuration.set("s" + word, random_word(random));
    }
  }
  return configuration;
}

TEST(KnobValue, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(to_text(KnobValue(true)), "on");
  EXPECT_EQ(to_text(KnobValue(false)), "off");
  EXPECT_EQ(to_text(KnobValue(std::int64_t{3})), "3");
  EXPECT_EQ(to_text(KnobValue(0.5)), "0.5");
  EXPECT_EQ(to_text(KnobValue(1.0)), "1.0");
  EXPECT_EQ(to_text(KnobValue(-0.0)), "0.0");
  EXPECT_EQ(to_text(KnobValue(1e300)), "1e+300");
  EXPECT_EQ(to_text(KnobValue(std::string("bf16"))), "bf16");
}

TEST(KnobValue, FromJsonTakesScalarsOnly) {
  EXPECT_EQ(*knob_value_from(Json(true)), KnobValue(true));
  EXPECT_EQ(*knob_value_from(Json(3)), KnobValue(std::int64_t{3}));
  EXPECT_EQ(*knob_value_from(Json(3U)), KnobValue(std::int64_t{3}));
  EXPECT_EQ(*knob_value_from(Json(3.0)), KnobValue(3.0));
  EXPECT_EQ(*knob_value_from(Json("x")), KnobValue(std::string("x")));
  for (const Json& value :
       {Json(), Json::array(), Json::object(), Json(std::numeric_limits<std::uint64_t>::max())}) {
    EXPECT_FALSE(knob_value_from(value).has_value()) << value;
  }
}

TEST(Configuration, HoldsTheLastValueOfEachKnob) {
  Configuration configuration = example();
  configuration.set("batch_size", std::int64_t{64});
  EXPECT_EQ(configuration.integer("batch_size"), 64);
  EXPECT_TRUE(configuration.flag("loader.pin_memory"));
  EXPECT_EQ(configuration.text("precision.autocast"), "bf16");
  EXPECT_EQ(configuration.find("nothing"), nullptr);
  EXPECT_FALSE(configuration.empty());
  EXPECT_TRUE(Configuration().empty());
}

TEST(Configuration, ForgetsAKnob) {
  Configuration configuration = example();
  configuration.erase("lr");
  configuration.erase("nothing");
  EXPECT_EQ(configuration.find("lr"), nullptr);
  EXPECT_EQ(configuration.change_to(example()).values().size(), 1U);
}

TEST(Configuration, ContainsAChangeWithItsValues) {
  const Configuration configuration = example();
  Configuration change;
  EXPECT_TRUE(configuration.contains(change));
  change.set("batch_size", std::int64_t{32});
  change.set("lr", 0.5);
  EXPECT_TRUE(configuration.contains(change));
  EXPECT_FALSE(change.contains(configuration));
  change.set("lr", 0.25);
  EXPECT_FALSE(configuration.contains(change));
  change.set("lr", 0.5);
  change.set("nothing", true);
  EXPECT_FALSE(configuration.contains(change));
}

TEST(ConfigurationDeathTest, ATypedReadOfAnotherTypeIsADefect) {
  const Configuration configuration = example();
  EXPECT_DEATH((void)configuration.flag("batch_size"), "another type");
  EXPECT_DEATH((void)configuration.integer("nothing"), "lacks the knob");
}

TEST(Configuration, CanonicalTextIsSortedByName) {
  EXPECT_EQ(example().canonical_text(),
            "batch_size=32 loader.pin_memory=on lr=0.5 precision.autocast=bf16");
  EXPECT_EQ(Configuration().canonical_text(), "");
}

TEST(Configuration, CanonicalTextQuotesWhatWouldConfuse) {
  Configuration configuration;
  configuration.set("env.A", std::string("1 b=2"));
  configuration.set("env.B", std::string());
  configuration.set("env.C", std::string("a\"\\\n"));
  EXPECT_EQ(configuration.canonical_text(), R"(env.A="1 b=2" env.B="" env.C="a\"\\\x0a")");
}

// The history is keyed by this: a change here forgets everybody's results.
TEST(Configuration, HashIsStableBetweenVersions) {
  EXPECT_EQ(example().hash(), "1178d15724527c56");
  EXPECT_EQ(Configuration().hash(), "e3b0c44298fc1c14");
}

TEST(Configuration, ZeroHasOneHash) {
  Configuration plus;
  Configuration minus;
  plus.set("x", 0.0);
  minus.set("x", -0.0);
  EXPECT_EQ(plus, minus);
  EXPECT_EQ(plus.hash(), minus.hash());
}

TEST(Configuration, FromJsonNamesTheKnob) {
  const auto parsed = Configuration::from_json(Json{{"a", 1}, {"b", Json::array()}});
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().where, "b");
  EXPECT_FALSE(Configuration::from_json(Json::array()).has_value());
  EXPECT_FALSE(Configuration::from_json(Json()).has_value());
}

TEST(ConfigurationProperty, JsonRoundTrip) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Configuration configuration = random_configuration(random);
    const auto text = to_line(configuration.to_json());
    const auto back = Configuration::from_json(*parse_json(text, "test"));
    ASSERT_TRUE(back.has_value()) << text;
    EXPECT_EQ(*back, configuration) << text;
    EXPECT_EQ(back->hash(), configuration.hash());
  }
}

TEST(ConfigurationProperty, CanonicalTextIsUnique) {
  std::mt19937_64 random(3);
  std::map<std::string, Configuration> seen;
  for (int i = 0; i < 20000; ++i) {
    const Configuration configuration = random_configuration(random);
    const auto [entry, is_new] = seen.emplace(configuration.canonical_text(), configuration);
    EXPECT_EQ(entry->second, configuration) << entry->first;
  }
  EXPECT_GT(seen.size(), 1000U);
}

TEST(ConfigurationProperty, AChangeLeadsFromOneToTheOther) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 2000; ++i) {
    const Configuration from = random_configuration(random);
    const Configuration to = from.with(random_configuration(random));
    const Configuration change = from.change_to(to);
    EXPECT_EQ(from.with(change), to);
    EXPECT_TRUE(to.change_to(to).empty());
    for (const auto& [name, value] : change.values()) {
      const KnobValue* before = from.find(name);
      EXPECT_TRUE(before == nullptr || *before != value) << name;
    }
  }
}

}  // namespace
}  // namespace autotuned
