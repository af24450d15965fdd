// SPDX-License-Identifier: Apache-2.0
// The typed reading that plugin authors rely on: nothing throws, the unknown stays unknown.
#include "plugins/sdk/situation.hpp"

#include <gmock/gmock.h>

#include "plugins/sdk/plugin.hpp"
#include "tests/golden_parts.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::sdk {
namespace {

using ::testing::IsEmpty;

// Why knobs cannot be turned, each asked in a case.
void expect_obstacles(const std::vector<std::pair<std::string, std::string>>& cases) {
  std::string told;
  for (const auto& [given, obstacle] : cases) {
    EXPECT_NE(obstacle, "") << given;
    told += given + "\n  " + obstacle + "\n";
  }
  tests::expect_golden_part("plugins/sdk/golden/obstacles.txt", told);
}

Json fashion() {
  return plugins::situation("fashion_cnn_cpu");
}

TEST(Situation, ReadsMetricsAndKnowsWhatItDoesNotKnow) {
  Json json = fashion();
  json["metrics"]["a.text"] = "9";
  json["metrics"]["nothing"] = nullptr;
  const Situation situation(json);
  EXPECT_EQ(situation.metric("step.data_wait_ratio"), 0.06);
  EXPECT_EQ(situation.metric("step.samples"), 32.0);
  EXPECT_EQ(situation.metric("step.no_such_thing"), std::nullopt);
  EXPECT_EQ(situation.metric("a.text"), std::nullopt);
  EXPECT_EQ(situation.metric("nothing"), std::nullopt);
  EXPECT_EQ(situation.first_metric({"nothing", "step.samples", "step.data_wait_ratio"}), 32.0);
  EXPECT_EQ(situation.first_metric({"nothing", "a.text"}), std::nullopt);
}

TEST(Situation, KnowsWhereOperatorsAre) {
  Json json = fashion();
  EXPECT_FALSE(Situation(json).place("operators.gather_share_ratio"));
  json["places"] = {{"operators.gather_share_ratio", {{"module", "model.a"}, {"share_ratio", 0.5}}},
                    {"no.text", {{"module", 3}}},
                    {"empty", {{"module", ""}}},
                    {"no.share", {{"module", "model"}}}};
  const Situation situation = Situation::read(json.dump());
  const auto place = situation.place("operators.gather_share_ratio");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->module, "model.a");
  EXPECT_EQ(place->share_ratio, 0.5);
  for (const char* name : {"no.text", "empty", "another"})
    EXPECT_FALSE(situation.place(name)) << name;
  EXPECT_EQ(situation.place("no.share")->share_ratio, 0.0);
}

TEST(Situation, SurvivesAnyJson) {
  for (const char* text : {"{}", "[]", "3", "null", R"({"metrics": 3, "knobs": [], "trials": {}})",
                           R"({"knobs": {"batch_size": 5}, "trials": [3, {"change": 4}],
                               "environment": {"gpus": {}, "cpu_features": "avx2"},
                               "job": {"device": "cuda:99999999999999999999"}})"}) {
    const Situation situation(Json::parse(text));
    EXPECT_EQ(situation.metric("step.samples"), std::nullopt) << text;
    EXPECT_EQ(situation.cpus_allowed(), 1) << text;
    EXPECT_FALSE(situation.has_cpu_feature("avx2")) << text;
    EXPECT_EQ(situation.gpu().has_value(), false) << text;
    EXPECT_EQ(situation.knob("batch_size").has_value(), false) << text;
    EXPECT_NE(situation.obstacle("batch_size"), "") << text;
    EXPECT_FALSE(situation.has_lost({{"batch_size", 64}})) << text;
  }
}

TEST(Situation, ReadFromTextSaysTheSame) {
  Json json = fashion();
  plugins::tell(json, {{"loader.workers", 1}}, "rejected", 0.99);
  plugins::tell(json, {{"loader.workers", 2}}, "accepted", 1.2);
  json["history"].push_back(plugins::trial_of(json, {{"loader.workers", 3}}, "accepted", 1.3));
  json["environment"]["cpu_model"] = "a \"quoted\" \\ name } ] , \u00fc";
  for (const int indent : {-1, 2}) {
    const Situation situation = Situation::read(json.dump(indent));
    EXPECT_EQ(situation.json(), json);
    EXPECT_EQ(situation.metric("step.data_wait_ratio"), 0.06);
    EXPECT_EQ(situation.knob("loader.workers")->maximum, 4);
    EXPECT_EQ(situation.knob("env.ANY")->type, "text");
    EXPECT_FALSE(situation.knob("loader.wrokers"));
    EXPECT_EQ(situation.has_lost({{"loader.workers", 1}}),
              Situation(json).has_lost({{"loader.workers", 1}}));
    EXPECT_EQ(situation.expected_gain({{"loader.workers", 3}}, 1.1), 1.3);
    EXPECT_EQ(situation.trials().size(), 2);
  }
}

TEST(Situation, KnowsWhatTrialsWereComparedWith) {
  Json json = fashion();
  json["trials"] = json["history"] = Json::array();
  plugins::tell(json, {{"loader.workers", 1}}, "rejected", 0.99);
  json["incumbent"]["batch_size"] = 64;
  plugins::tell(json, {{"loader.workers", 1}}, "rejected", 0.97);
  json["trials"].push_back({{"change", {{"loader.workers", 4}}}});
  for (const Situation& situation :
       {Situation(json), Situation::of(json), Situation::read(json.dump())}) {
    const auto trials = situation.trials();
    ASSERT_EQ(trials.size(), 3);
    EXPECT_EQ(trials[1].compared_with<std::int64_t>("batch_size"), 64);
    EXPECT_EQ(trials[1].compared_with<std::string>("batch_size"), std::nullopt);
    EXPECT_EQ(trials[2].reference, nullptr);
    EXPECT_EQ(trials[2].compared_with<std::int64_t>("batch_size"), std::nullopt);
    EXPECT_FALSE(situation.is_against_incumbent(trials[0]));
    EXPECT_TRUE(situation.is_against_incumbent(trials[0], "batch_size"));
    EXPECT_FALSE(situation.is_against_incumbent(trials[0], "loader.workers"));
    EXPECT_TRUE(situation.is_against_incumbent(trials[1]));
    EXPECT_TRUE(situation.is_against_incumbent(trials[2]));
  }
}

TEST(Situation, TrialsOutliveIt) {
  Json json = fashion();
  plugins::tell(json, {{"loader.workers", 1}}, "rejected", 0.99);
  const Trial trial = Situation(json).trials().back();
  EXPECT_EQ(trial.compared_with<std::int64_t>("batch_size"), 32);
}

TEST(Situation, OfSomebodyElsesCopiesNothing) {
  const Json json = fashion();
  const Situation situation = Situation::of(json);
  EXPECT_EQ(&situation.json(), &json);
  EXPECT_EQ(&situation.section("knobs"), &json.at("knobs"));
}

TEST(Situation, TextThatIsNoJsonIsAnError) {
  const std::string text = fashion().dump();
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1}) {
    EXPECT_ANY_THROW((void)Situation::read(text.substr(0, length))) << length;
  }
  for (const char* wrong :
       {"{not JSON", "{\"a\"}", "{\"a\":}", "{\"a\":1 \"b\":2}", "{1:2}", "nonsense",
        R"({"metrics": {"a": nonsense}, "job": {"device": "cpu"}})"}) {
    EXPECT_ANY_THROW((void)Situation::read(wrong)) << wrong;
  }
  for (const char* odd : {"{}", "[]", "3", R"({"metrics": 3, "knobs": [], "trials": {}})",
                          R"({"knobs": {"batch_size": 5}, "trials": [3, {"change": 4}]})"}) {
    const Situation situation = Situation::read(odd);
    EXPECT_EQ(situation.metric("step.samples"), std::nullopt) << odd;
    EXPECT_FALSE(situation.knob("batch_size")) << odd;
    EXPECT_FALSE(situation.has_lost({{"batch_size", 64}})) << odd;
    EXPECT_EQ(situation.json(), Json::parse(odd));
  }
}

TEST(Situation, ReadsKnobs) {
  const Situation situation(fashion());
  const auto workers = situation.knob("loader.workers");
  ASSERT_TRUE(workers);
  EXPECT_EQ(workers->type, "integer");
  EXPECT_EQ(workers->maximum, 4);
  EXPECT_EQ(situation.knob("precision.autocast")->choices.size(), 3U);
  EXPECT_EQ(situation.incumbent<std::int64_t>("batch_size"), 32);
  EXPECT_EQ(situation.incumbent<bool>("batch_size"), std::nullopt);
  EXPECT_EQ(situation.incumbent<std::string>("transfer.dtype"), "float32");
}

TEST(Situation, SaysWhyAKnobCannotBeChanged) {
  Json json = fashion();
  json["permissions"]["numerics"] = false;
  json["permissions"]["knobs"] = Json::array();
  const Situation situation(json);
  EXPECT_THAT(situation.obstacle("loader.workers"), IsEmpty());
  expect_obstacles({{"another rounding", situation.obstacle("precision.autocast")},
                    {"another training", situation.obstacle("batch_size")},
                    {"no GPU", situation.obstacle("loader.pin_memory")},
                    {"no such knob", situation.obstacle("loader.wrokers")},
                    {"no knobs at all", Situation(Json::object()).obstacle("batch_size")}});
}

TEST(Situation, SaysWhyAChoiceCannotBeHad) {
  const Situation situation(fashion());
  EXPECT_THAT(situation.obstacle("memory.allocator", "jemalloc"), IsEmpty());
  expect_obstacles({{"no library", situation.obstacle("memory.allocator", "tcmalloc")},
                    {"no such choice", situation.obstacle("memory.allocator", "mine")},
                    {"no such knob", situation.obstacle("memory.locator", "mine")}});
}

TEST(Situation, SpeaksOfAScriptToWhoRunsOne) {
  Json json = fashion();
  EXPECT_FALSE(Situation(json).is_script());
  json["permissions"] = {{"numerics", false}, {"knobs", Json::array()}, {"option", "--allow"}};
  json["knobs"]["loader.workers"]["unavailable"] = "the script does it";
  const Situation situation(json);
  EXPECT_TRUE(situation.is_script());
  expect_obstacles({{"the script", situation.obstacle("loader.workers")},
                    {"no consent", situation.obstacle("precision.autocast")},
                    {"no such knob", situation.obstacle("no.such")},
                    {"no library", situation.obstacle("memory.allocator", "tcmalloc")}});
}

TEST(Situation, PermitsByClassOrByName) {
  Json json = fashion();
  json["permissions"] = {{"knobs", {"precision.autocast"}}};
  EXPECT_THAT(Situation(json).obstacle("precision.autocast"), IsEmpty());
  EXPECT_FALSE(Situation(json).obstacle("threads.intra_op").empty());
  // Who agrees to another training agrees to other rounding.
  json["permissions"] = {{"numerics", false}, {"semantics", true}};
  EXPECT_THAT(Situation(json).obstacle("threads.intra_op"), IsEmpty());
  EXPECT_THAT(Situation(json).obstacle("batch_size"), IsEmpty());
}

TEST(Situation, FindsTheGpuOfTheJob) {
  const Situation situation(plugins::situation("resnet18_gpu"));
  EXPECT_EQ(situation.gpu()->name, "NVIDIA H100");
  EXPECT_EQ(situation.gpu()->compute_capability_major, 9);
  EXPECT_EQ(Situation(fashion()).gpu().has_value(), false);
  // The trainer says which one it is, whatever CUDA's number.
  Json named = plugins::situation("resnet18_gpu");
  named["environment"]["gpus"] = {{{"uuid", "GPU-aa"}, {"name", "Slow"}, {"memory_bytes", 1}},
                                  {{"uuid", "GPU-bb"}, {"name", "Fast"}, {"memory_bytes", 2}}};
  named["job"]["device"] = "cuda:0";
  EXPECT_EQ(Situation(named).gpu()->name, "Slow");
  named["job"]["device_uuid"] = "bb";
  EXPECT_EQ(Situation(named).gpu()->name, "Fast");
  // A part of a GPU, which the list does not have.
  named["job"]["device_uuid"] = "cc";
  EXPECT_EQ(Situation(named).gpu().has_value(), false);
}

TEST(Situation, RemembersWhatLostAgainstThisVeryIncumbent) {
  Json json = fashion();
  plugins::tell(json, {{"loader.workers", 1}}, "rejected", 0.99);
  plugins::tell(json, {{"loader.workers", 2}}, "interrupted", 0.0);
  plugins::tell(json, {{"loader.workers", 3}}, "failed", 0.0);
  EXPECT_TRUE(Situation(json).has_lost({{"loader.workers", 1}}));
  EXPECT_FALSE(Situation(json).has_lost({{"loader.workers", 2}}));
  EXPECT_TRUE(Situation(json).has_lost({{"loader.workers", 3}}));
  json["incumbent"]["batch_size"] = 128;
  EXPECT_FALSE(Situation(json).has_lost({{"loader.workers", 1}}));
}

TEST(Situation, ExpectsWhatAnEarlierRunSaw) {
  Json json = fashion();
  const Json change = {{"precision.autocast", "bf16"}};
  EXPECT_EQ(Situation(json).expected_gain(change, 1.5), 1.5);
  json["history"].push_back(plugins::trial_of(json, change, "accepted", 2.1));
  EXPECT_EQ(Situation(json).expected_gain(change, 1.5), 2.1);
  json["history"].push_back(plugins::trial_of(json, change, "rejected", 0.7));
  EXPECT_EQ(Situation(json).expected_gain(change, 1.5), 1.0);
  // It is a hint, not a ban: the other run may have been another job.
  EXPECT_FALSE(Situation(json).has_lost(change));
  json["incumbent"]["batch_size"] = 128;
  EXPECT_EQ(Situation(json).expected_gain(change, 1.5), 1.5);
}

TEST(Numbers, AreWrittenForPeople) {
  EXPECT_EQ(percent(0.314), "31 %");
  EXPECT_EQ(percent(0.004), "0.4 %");
  EXPECT_EQ(percent(0.0996), "10 %");
  EXPECT_EQ(percent(1.0), "100 %");
  EXPECT_EQ(count_text(9830.4), "9,830");
  EXPECT_EQ(count_text(900), "900");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_DOUBLE_EQ(gain_without(0.5), 2.0);
  EXPECT_DOUBLE_EQ(gain_without(-1.0), 1.0);
  EXPECT_NEAR(gain_without(2.0), 20.0, 1e-9);
}

Json answer_to(Answer (*propose)(const Situation&), const char* text) {
  const char* const answer = detail::answer(propose, text);
  Json json = answer == nullptr ? Json() : Json::parse(answer);
  detail::release(answer);
  return json;
}

TEST(Facade, WritesAnswers) {
  const Json answer = answer_to(
      [](const Situation&) {
        return propose_one({{"batch_size", 64}}, 1.25, "more at once");
      },
      "{}");
  EXPECT_EQ(answer, Json::parse(R"({"candidates": [{"change": {"batch_size": 64},
      "expected_gain_ratio": 1.25, "reason": "more at once"}], "none_because": ""})"));
  const Json compiled = answer_to(
      [](const Situation&) {
        Answer slow;
        slow.add({{"batch_size", 64}}, 1.25, "more at once", 0.5, /*preparation_s=*/60.0);
        return slow;
      },
      "{}");
  EXPECT_EQ(compiled, Json::parse(R"({"candidates": [{"change": {"batch_size": 64},
      "expected_gain_ratio": 1.25, "reason": "more at once", "signal_share_ratio": 0.5,
      "preparation_s": 60.0}], "none_because": ""})"));
  EXPECT_EQ(answer_to([](const Situation&) { return none("all is well"); }, "{}"),
            Json::parse(R"({"candidates": [], "none_because": "all is well"})"));
}

TEST(Facade, TurnsExceptionsIntoErrors) {
  const auto fail = [](const Situation&) -> Answer { throw std::runtime_error("\xff broken"); };
  const auto odd = [](const Situation&) -> Answer { throw 3; };
  for (const auto& [propose, words] : {std::pair(+fail, "broken"), std::pair(+odd, "unknown type")})
    EXPECT_THAT(answer_to(propose, "{}").at("error").get<std::string>(),
                ::testing::HasSubstr(words));
  const auto fine = [](const Situation&) { return none("fine"); };
  EXPECT_TRUE(answer_to(fine, "{not JSON").contains("error"));
}

}  // namespace
}  // namespace autotuned::sdk
