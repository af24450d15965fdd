// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/expression.hpp"

#include <gmock/gmock.h>

#include "plugins/host/values.hpp"
#include "tests/golden.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

sdk::Situation fashion_situation() {
  return sdk::Situation(situation("fashion_cnn_cpu"));
}

// Why a condition does not hold; empty when it does; the parser's word when it is none.
std::string failure(std::string_view text) {
  const auto condition = Condition::parse(text);
  return condition ? condition->failure(fashion_situation()) : "no condition: " + condition.error();
}

// Conditions that hold, and why others do not.
TEST(Condition, HoldsOrSaysWhyNot) {
  std::string told;
  for (const char* text :
       {// numbers
        "cpu.utilization_ratio < 0.9", "cpu.utilization_ratio<90%", "environment.cpus_allowed >= 4",
        "environment.cpus_allowed <= 4", "environment.cpus_allowed == 4", "step.duration_ns > 1e6",
        "environment.cpus_allowed != 4", "environment.cpus_allowed > 4",
        "environment.cpus_allowed < 4", "operators.gemm_conv_ratio > 80 %",
        // the first fact that is known
        "operators.gather_ratio or operators.gemm_conv_ratio > 60%",
        "operators.gemm_conv_ratio or step.forward_ratio < 60%",
        "a.ratio or b.ratio or c.ratio > 1",
        // words
        "job.device == cpu", "job.device != cpu", "job.device > 3",
        "incumbent.optimizer.set_to_none == off", "incumbent.optimizer.set_to_none == false",
        "incumbent.optimizer.set_to_none == on",
        // lists
        "environment.cpu_features has avx512_bf16", "environment.cpu_features has avx512",
        "recipe.input has to_float", "environment.cpu_model has Some",
        "environment.cpus_allowed has 4",
        // facts
        "incumbent.threads.intra_op < environment.cpus_allowed",
        "incumbent.batch_size == starting.batch_size", "incumbent.batch_size == starting.no_such",
        "cache.miss_ratio != 3",
        // none
        "operators.gather_ratio or > 3", "a.ratio or B > 3"}) {
    const std::string why = failure(text);
    told += std::string(text) + "\n  " + (why.empty() ? "holds" : why) + "\n";
  }
  tests::expect_golden("plugins/host/golden/conditions.txt", told);
}

TEST(Fact, LargeNumbersAreCounts) {
  const auto text = [](double faults) {
    Json json = situation("fashion_cnn_cpu");
    json["metrics"]["memory.page_faults_per_step"] = faults;
    return Fact::parse("memory.page_faults_per_step")->text(sdk::Situation(json));
  };
  EXPECT_EQ(text(9830.4), "9,830");
  EXPECT_EQ(text(1'234'567.5), "1,234,568");
  EXPECT_EQ(text(900), "900");
  EXPECT_EQ(text(99.96), "100");
  EXPECT_EQ(text(12.345), "12.3");
}

TEST(Condition, RefusesWhatIsNone) {
  for (const char* text :
       {"", "cpu.utilization_ratio", "cpu.utilization_ratio <", "< 3", "a = 3", "a === 3", "a ~ 3",
        "Big < 3", "a. < 3", "a < b c", "a < nan", "a < 1e999", "hasty", "a < 3 and b < 4"}) {
    EXPECT_FALSE(Condition::parse(text)) << text;
  }
  EXPECT_FALSE(Condition::parse("a < " + std::string(1000, '1'))) << "it is too long";
}

sdk::Knob knob(const std::string& name) {
  return *fashion_situation().knob(name);
}

// The values as JSON text, or the error.
std::vector<std::string> values(const std::vector<std::string>& texts, const std::string& of,
                                const Json& json = situation("fashion_cnn_cpu")) {
  Values all;
  for (const std::string& text : texts) {
    auto parsed = Values::parse_scalar(text, false);
    if (!parsed) return {"unparsed: " + parsed.error()};
    all.append(std::move(*parsed));
  }
  const auto resolved = all.resolve(sdk::Situation(json), knob(of));
  if (!resolved) return {"error: " + resolved.error()};
  std::vector<std::string> written;
  for (const Json& value : *resolved)
    written.push_back(to_line(value));
  return written;
}

TEST(Values, TakeTheTypeOfTheKnob) {
  EXPECT_THAT(values({"3"}, "threads.intra_op"), ElementsAre("3"));
  EXPECT_THAT(values({"on", "off", "true"}, "optimizer.set_to_none"),
              ElementsAre("true", "false", "true"));
  EXPECT_THAT(values({"off", "bf16"}, "precision.autocast"), ElementsAre("\"off\"", "\"bf16\""));
  EXPECT_THAT(values({"many"}, "threads.intra_op"),
              ElementsAre("error: 'many' is no value of the integer knob threads.intra_op"));
  EXPECT_THAT(values({"maybe"}, "optimizer.set_to_none"),
              ElementsAre("error: 'maybe' is no value of the boolean knob optimizer.set_to_none"));
}

TEST(Values, OutsideTheDomainAreLeftOut) {
  EXPECT_THAT(values({"1", "2", "4", "8"}, "threads.intra_op"), ElementsAre("1", "2", "4"));
  EXPECT_THAT(values({"bf16", "fp8"}, "precision.autocast"), ElementsAre("\"bf16\""));
}

TEST(Values, MayBeFacts) {
  EXPECT_THAT(values({"environment.physical_cores"}, "threads.intra_op"), ElementsAre("2"));
  EXPECT_THAT(values({"environment.no_such"}, "threads.intra_op"), IsEmpty());
}

TEST(Values, OfARangeAreTheNeighboursOfTheIncumbent) {
  EXPECT_THAT(values({"1..environment.cpus_allowed"}, "threads.intra_op"), ElementsAre("1", "3"));
  EXPECT_THAT(values({"2..4"}, "threads.intra_op"), ElementsAre("3"));
  EXPECT_THAT(values({"4..9"}, "threads.intra_op"), ElementsAre("4"));
  EXPECT_THAT(values({"1..1"}, "threads.intra_op"), ElementsAre("1"));
  EXPECT_THAT(values({"4..1"}, "threads.intra_op"), IsEmpty());
  Json json = situation("fashion_cnn_cpu");
  json["incumbent"].erase("threads.intra_op");
  EXPECT_THAT(values({"1..4"}, "threads.intra_op", json), IsEmpty());
}

TEST(Values, RefuseBrokenRanges) {
  for (const char* text : {"..", "1..", "..4", "1..many", "1...4", "a..b", "1.5..2"}) {
    EXPECT_FALSE(Values::parse_scalar(text, false)) << text;
  }
  // Quoted text is text.
  EXPECT_FALSE(Values::parse_scalar("1..", true)->may_be_several());
}

std::string filled(std::string_view text) {
  const auto sentence = Sentence::parse(text);
  return sentence ? sentence->fill(fashion_situation()) : "unparsed: " + sentence.error();
}

// The share of an expectation in a situation.
std::optional<double> share_of(std::string_view text) {
  const auto saving = Saving::parse(text);
  EXPECT_TRUE(saving) << saving.error();
  return saving ? saving->share(fashion_situation()) : std::nullopt;
}

std::string why_no_saving(std::string_view text) {
  const auto saving = Saving::parse(text);
  return saving ? "" : saving.error();
}

TEST(Saving, IsAPartOfAShare) {
  EXPECT_TRUE(Saving::is_meant("50% of a_ratio"));
  EXPECT_FALSE(Saving::is_meant("1.5"));
  const auto saving = Saving::parse(" 15 % of operators.gemm_conv_ratio ");
  ASSERT_TRUE(saving) << saving.error();
  EXPECT_DOUBLE_EQ(saving->hoped_ratio(), 0.15);
  EXPECT_DOUBLE_EQ(saving->share(fashion_situation()).value_or(0.0), 0.62);
  EXPECT_EQ(share_of("50% of operators.gather_ratio"), std::nullopt);  // was not measured
}

TEST(Saving, MultipliesSharesAndWhatTheyLeave) {
  EXPECT_NEAR(share_of("1% of cpu.kernel_ratio * step.forward_ratio").value_or(0.0), 0.12 * 0.3,
              1e-12);
  EXPECT_NEAR(share_of("1% of (1 - step.data_wait_ratio)").value_or(0.0), 0.94, 1e-12);
  EXPECT_NEAR(
      share_of("1% of step.data_wait_ratio*( 1-cpu.kernel_ratio )*loader.float_from_uint8_ratio")
          .value_or(0.0),
      0.06 * 0.88, 1e-12);
  EXPECT_EQ(share_of("1% of step.forward_ratio * operators.gather_ratio"), std::nullopt);
  EXPECT_EQ(share_of("1% of (1 - operators.gather_ratio)"), std::nullopt);
}

TEST(Saving, IsTheFirstProductOfWhichAllIsKnown) {
  EXPECT_NEAR(
      share_of("1% of step.forward_ratio * operators.gather_ratio or cpu.kernel_ratio").value_or(0),
      0.12, 1e-12);
  EXPECT_NEAR(
      share_of("1% of cpu.kernel_ratio * step.forward_ratio or step.data_wait_ratio").value_or(0),
      0.12 * 0.3, 1e-12);
  EXPECT_EQ(share_of("1% of operators.gather_ratio or (1 - operators.gather_ratio)"), std::nullopt);
}

TEST(Saving, StaysWithinAStep) {
  Json json = situation("fashion_cnn_cpu");
  json["metrics"]["a_ratio"] = 1.7;
  json["metrics"]["b_ratio"] = -0.2;
  json["metrics"]["c_ratio"] = "half";
  const sdk::Situation asked(json);
  const auto share = [&](const char* text) {
    const auto saving = Saving::parse(text);
    return saving ? saving->share(asked) : std::nullopt;
  };
  EXPECT_EQ(share("9% of a_ratio"), 1.0);
  EXPECT_EQ(share("9% of (1 - a_ratio)"), 0.0);
  EXPECT_EQ(share("9% of a_ratio * b_ratio"), 0.0);
  EXPECT_EQ(share("9% of c_ratio"), std::nullopt);
}

TEST(Saving, RefusesWhatIsNone) {
  std::string told;
  for (const char* text :
       {"1.5", "", "120% of a_ratio", "0% of a_ratio", "x% of a_ratio", "5% of step.duration_ns",
        "5% of a_ratio *", "5% of * a_ratio", "5% of a_ratio b_ratio", "5% of (a_ratio)",
        "5% of (2 - a_ratio)", "5% of (1 a_ratio)", "5% of ()", "5% of (1 - ", "5% of (1 -)",
        "5% of a_ratio or ", "5% of a_ratio or b_ns"}) {
    const std::string why = why_no_saving(text);
    EXPECT_NE(why, "") << text;
    told += std::string(text) + "\n  " + why + "\n";
  }
  tests::expect_golden("plugins/host/golden/savings.txt", told);
  EXPECT_FALSE(Saving::parse("5% of " + std::string(600, 'a'))) << "it is too long";
}

TEST(Sentence, FillsInTheFirstThatIsKnown) {
  EXPECT_EQ(filled("{operators.gather_ns or operators.gemm_conv_ratio}"), "62 %");
  EXPECT_EQ(filled("{a.b or c.d}"), "unknown");
}

TEST(Sentence, FillsInFiguresInTheirUnits) {
  EXPECT_EQ(filled("{operators.gemm_conv_ratio} of {step.duration_ns}"), "62 % of 12 ms");
  EXPECT_EQ(filled("{memory.peak_host_bytes}, {parameters.count}"), "500.0 MiB, 50,186");
  EXPECT_EQ(filled("{job.device}{incumbent.optimizer.set_to_none}"), "cpuoff");
  EXPECT_EQ(filled("{no.such_ratio} is fine"), "unknown is fine");
}

TEST(Sentence, RefusesBrokenBraces) {
  for (const char* text : {"", "   ", "{", "}", "{step.samples", "a } b", "{}", "{a b}", "{{a}}"}) {
    EXPECT_FALSE(Sentence::parse(text)) << text;
  }
}

}  // namespace
}  // namespace autotuned::plugins
