// SPDX-License-Identifier: Apache-2.0
#include "plugins/host/yaml_plugin.hpp"

#include <gmock/gmock.h>

#include "plugins/host/loader.hpp"
#include "plugins/host/needs.hpp"
#include "tests/golden_parts.hpp"
#include "tests/plugins/answers.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kGood = R"(plugin: 1
name: threads
version: "1.2"
summary: Tries threads.
when:
  - environment.cpus_allowed > 1
try:
  - threads.intra_op: 1..environment.cpus_allowed
  - {precision.autocast: [bf16, fp16]}
expect: 1.2
reason: on {environment.cpus_allowed} CPUs
)";

std::vector<std::string> mistakes_in(const std::string& text) {
  const auto plugin = parse_yaml_plugin(text, "threads.yaml");
  std::vector<std::string> mistakes;
  if (!plugin) {
    for (const recipes::Diagnostic& mistake : plugin.error())
      mistakes.push_back(mistake.text());
  }
  return mistakes;
}

// Each on a line.
std::string lines_of(const std::vector<std::string>& mistakes) {
  std::string lines;
  for (const std::string& mistake : mistakes)
    lines += "  " + mistake + "\n";
  return lines;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// What a plugin of this text says.
Json said(const std::string& text, const Json& json) {
  const auto plugin = parse_yaml_plugin(text, "threads.yaml");
  EXPECT_THAT(mistakes_in(text), IsEmpty());
  if (!plugin) return Json();
  const Result<Json> answer = plugin->policy->propose(json);
  return answer ? *answer : Json{{"error", answer.error().message()}};
}

std::vector<std::string> changes_of(const Json& answer) {
  std::vector<std::string> changes;
  for (const Json& candidate : answer.at("candidates")) {
    changes.push_back(to_line(candidate.at("change")));
  }
  return changes;
}

TEST(YamlPlugin, ProposesWhatItSays) {
  const Json answer = said(kGood, situation("fashion_cnn_cpu"));
  EXPECT_THAT(changes_of(answer),
              ElementsAre(R"({"threads.intra_op":1})", R"({"threads.intra_op":3})",
                          R"({"precision.autocast":"bf16"})", R"({"precision.autocast":"fp16"})"));
  EXPECT_EQ(first_reason(answer), "on 4 CPUs");
  EXPECT_EQ(first_gain(answer), 1.2);
  EXPECT_EQ(none_because(answer), "");
}

TEST(YamlPlugin, SaysWhatItNeedsOfTheMachine) {
  const auto needs_of = [](const std::string& needs) {
    const auto plugin =
        parse_yaml_plugin(replaced(kGood, "when:", "needs: " + needs + "\nwhen:"), "threads.yaml");
    return plugin ? plugin->needs : std::vector<std::string>{"mistakes"};
  };
  EXPECT_THAT(needs_of("cuda"), ElementsAre("cuda"));
  EXPECT_THAT(needs_of("[avx512_bf16, cuda]"), ElementsAre("avx512_bf16", "cuda"));
}

TEST(Needs, AreHeldAgainstTheMachine) {
  Machine machine;
  machine.cpu_model = "Some CPU";
  machine.gpu_reason = "no NVIDIA driver";
  machine.cpu_features = {"avx2", "f16c"};
  EXPECT_FALSE(why_unsupported({}, machine));
  EXPECT_FALSE(why_unsupported({"f16c", "avx2"}, machine));
  EXPECT_EQ(why_unsupported({"avx2", "amx_bf16"}, machine),
            "needs a CPU with amx_bf16, the Some CPU of this machine has avx2, f16c");
  EXPECT_EQ(why_unsupported({"cuda"}, machine),
            "needs a CUDA GPU, this machine has none: no NVIDIA driver");
  machine.gpus.emplace_back();
  EXPECT_FALSE(why_unsupported({"cuda"}, machine));
}

TEST(YamlPlugin, SaysWhichConditionDoesNotHold) {
  Json json = situation("fashion_cnn_cpu");
  json["environment"]["cpus_allowed"] = 1;
  const Json answer = said(kGood, json);
  EXPECT_THAT(changes_of(answer), IsEmpty());
  EXPECT_EQ(none_because(answer),
            "'environment.cpus_allowed > 1' does not hold: environment.cpus_allowed is 1");
}

TEST(YamlPlugin, SaysItsOwnSentenceWhereAConditionDoesNotHold) {
  const std::string text = replaced(
      kGood, "cpus_allowed > 1", "cpus_allowed > 8: only {environment.cpus_allowed} CPUs to use");
  Json json = situation("fashion_cnn_cpu");
  EXPECT_EQ(none_because(said(text, json)), "only 4 CPUs to use");
  json["environment"]["cpus_allowed"] = 16;
  EXPECT_EQ(first_reason(said(text, json)), "on 16 CPUs");
  EXPECT_EQ(none_because(said(text, Json::object())),
            "it is not known whether environment.cpus_allowed > 8");
}

// Its trials are real steps: none is made for a guess. And what a script does not have needs no condition.
TEST(YamlPlugin, ProposesNothingToAScriptWithoutEvidence) {
  const std::string text = replaced(kGood, "expect: 1.2", "expect: 50% of cpu.kernel_ratio");
  Json json = situation("fashion_cnn_cpu");
  EXPECT_THAT(changes_of(said(text, json)), ::testing::SizeIs(4));
  json["metrics"].erase("cpu.kernel_ratio");
  EXPECT_THAT(changes_of(said(text, json)), ::testing::SizeIs(4)) << "a recipe has no such steps";
  json["permissions"]["option"] = "--allow";
  EXPECT_THAT(changes_of(said(text, json)), IsEmpty());
  EXPECT_EQ(none_because(said(text, json)), "what it would save was not measured here");
  json["metrics"]["cpu.kernel_ratio"] = 0.2;
  EXPECT_THAT(changes_of(said(text, json)), ::testing::SizeIs(4));
  json["knobs"].erase("threads.intra_op");
  EXPECT_THAT(changes_of(said(text, json)), ::testing::SizeIs(2)) << "the other one is there";
  json["knobs"].erase("precision.autocast");
  json["environment"].erase("cpus_allowed");
  EXPECT_EQ(none_because(said(text, json)), "what it changes can only be changed in a recipe");
}

TEST(YamlPlugin, DoesNotRepeatWhatLost) {
  Json json = situation("fashion_cnn_cpu");
  tell(json, {{"threads.intra_op", 1}}, "rejected", 0.6);
  tell(json, {{"precision.autocast", "bf16"}}, "failed", 0.0);
  EXPECT_THAT(changes_of(said(kGood, json)),
              ElementsAre(R"({"threads.intra_op":3})", R"({"precision.autocast":"fp16"})"));
  tell(json, {{"threads.intra_op", 3}}, "accepted", 1.1);
  // The incumbent is another one, and so are its neighbours.
  EXPECT_THAT(changes_of(said(kGood, json)),
              ElementsAre(R"({"threads.intra_op":2})", R"({"threads.intra_op":4})",
                          R"({"precision.autocast":"bf16"})", R"({"precision.autocast":"fp16"})"));
}

TEST(YamlPlugin, SaysWhyNothingIsLeft) {
  Json json = situation("fashion_cnn_cpu");
  for (const int count : {1, 3})
    tell(json, {{"threads.intra_op", count}}, "rejected", 0.9);
  for (const char* type : {"bf16", "fp16"}) {
    tell(json, {{"precision.autocast", type}}, "rejected", 0.9);
  }
  std::string told = "tried\n  " + none_because(said(kGood, json)) + "\n";
  json["permissions"] = Json::object();
  told += "no consent\n  " + none_because(said(kGood, json)) + "\n";
  tests::expect_golden_part("plugins/host/golden/yaml_plugin.txt", told);
}

TEST(YamlPlugin, ChangesSeveralKnobsTogether) {
  const std::string text =
      replaced(kGood, "{precision.autocast: [bf16, fp16]}",
               "{precision.autocast: [bf16, fp16], layout.memory_format: channels_last, "
               "memory.malloc: default}");
  // memory.malloc has that value already, so it is no change.
  EXPECT_THAT(
      changes_of(said(text, situation("fashion_cnn_cpu"))),
      ElementsAre(R"({"threads.intra_op":1})", R"({"threads.intra_op":3})",
                  R"({"layout.memory_format":"channels_last","precision.autocast":"bf16"})",
                  R"({"layout.memory_format":"channels_last","precision.autocast":"fp16"})"));
}

// Knobs of extensions are known only when the plugin is asked.
TEST(YamlPlugin, AValueOfAnotherTypeIsItsFault) {
  Json json = situation("fashion_cnn_cpu");
  json["knobs"]["calm.level"] = json["knobs"]["threads.intra_op"];
  json["incumbent"]["calm.level"] = 1;
  const Json answer = said(
      replaced(kGood, "threads.intra_op: 1..environment.cpus_allowed", "calm.level: lots"), json);
  EXPECT_EQ(answer.at("error"),
            "plugin threads: 'lots' is no value of the integer knob calm.level");
}

TEST(YamlPlugin, ReportsNamesAndValuesThatNothingHas) {
  const std::vector<std::string> mistakes = mistakes_in(R"(plugin: 1
name: threads
version: "1"
summary: fine
when:
  - step.foward_ratio > 2%
  - environment.cpus > 3: only {environment.cpu_allowed} CPUs
  - incumbent.loader.worker == 0
  - job.devise == cpu
  - recipe.optimiser == sgd
  - step.forward_ratio or a.bogus_ratio > 2%
try:
  - threads.intra: 2
  - {loader.prefetch_batchs: 4, loader.workers: on}
  - threads.intra_op: many
  - {memory.malloc: kep, optimizer.fused: 1}
  - {precision.autocast: [bf16, bf17], model.compile: max}
  - threads.intra_op: 1..environment.cpus_alowed
  - batchsize: 64
expect: 10% of step.backwards_ratio
reason: it takes {step.bogus}
)");
  EXPECT_EQ(mistakes.size(), 19U);
  tests::expect_golden_part("plugins/host/golden/yaml_plugin.txt", lines_of(mistakes));
}

TEST(YamlPlugin, TakesKnobsOfExtensionsAndVariables) {
  EXPECT_THAT(mistakes_in(replaced(kGood, "{precision.autocast: [bf16, fp16]}",
                                   "{calm.level: some, env.OMP_WAIT_POLICY: passive, "
                                   "precision.keep_float32: \"norms,loss\", "
                                   "memory.allocator: jemalloc, model.compile: default, "
                                   "loader.persistent_workers: on, loader.native_threads: 2}")),
              IsEmpty());
}

TEST(YamlPlugin, SurvivesAnEmptySituation) {
  for (const Json& nothing : {Json::object(), Json(3)})
    EXPECT_EQ(none_because(said(kGood, nothing)),
              "it is not known whether environment.cpus_allowed > 1");
}

TEST(YamlPlugin, ReportsEveryMistakeWithItsPlace) {
  const std::vector<std::string> mistakes = mistakes_in(R"(plugin: 2
nmae: x
name: other
version: [1]
summary: fine
when:
  - cpu.utilization_ratio <
  - {a: b}
try:
  - threads.intra_op: 1..many
  - nothing
  - {threads.intra_op: [1, 2], batch_size: [1, 2]}
expect: 0.5
reason: "{"
)");
  EXPECT_EQ(mistakes.size(), 11U);
  tests::expect_golden_part("plugins/host/golden/yaml_plugin.txt", lines_of(mistakes));
}

// One mistake each, or several of one kind.
TEST(YamlPlugin, ReportsWhatIsWrong) {
  const std::string condition = "environment.cpus_allowed > 1";
  const auto expecting = [](const std::string& share) {
    return replaced(kGood, "expect: 1.2", "expect: " + share);
  };
  std::string many = "try:\n";
  for (int i = 0; i < 40; ++i)
    many += "  - {batch_size: 64}\n";
  std::string told;
  for (const auto& [given, text] : std::vector<std::pair<std::string, std::string>>{
           {"nothing", ""},
           {"a list", "- a list\n"},
           {"a version alone", "plugin: 1\n"},
           {"a version twice", "plugin: 1\nplugin: 1\n"},
           {"an alias of itself", "a: &a [1, *a]\n"},
           {"nothing to try", replaced(kGood, "1..environment.cpus_allowed", "[]")},
           {"too much to try", replaced(kGood, "try:\n", many)},
           {"an unknown need", replaced(kGood, "when:", "needs: [cudda]\nwhen:")},
           {"no need", replaced(kGood, "when:", "needs: []\nwhen:")},
           {"a list of needs", replaced(kGood, "when:", "needs: [[cuda]]\nwhen:")},
           {"two sentences of a condition",
            replaced(kGood, condition, "{job.device == cpu: no, job.name == a: no}")},
           {"a list for a condition", replaced(kGood, condition, "[job.device == cpu]")},
           {"a list for a sentence", replaced(kGood, condition, "{job.device == cpu: [no]}")},
           {"a broken sentence", replaced(kGood, condition, condition + ": {")},
           {"a share of more than all", expecting("120% of step.forward_ratio")},
           {"a share of nothing", expecting("0% of step.forward_ratio")},
           {"a share without a number", expecting("x% of step.forward_ratio")},
           {"a share of a time", expecting("50% of step.duration_ns")},
           {"a share of two words", expecting("50% of a b")}}) {
    const std::vector<std::string> mistakes = mistakes_in(text);
    EXPECT_THAT(mistakes, ::testing::Not(IsEmpty())) << given;
    told += given + "\n" + lines_of(mistakes);
  }
  tests::expect_golden_part("plugins/host/golden/yaml_plugin.txt", told);
}

TEST(YamlPlugin, ExpectsAPartOfAShare) {
  const std::string text =
      replaced(kGood, "expect: 1.2", "expect: 50% of operators.gemm_conv_ratio");
  Json json = situation("fashion_cnn_cpu");
  const Json answer = said(text, json);
  EXPECT_NEAR(first_gain(answer), 1 / (1 - 0.31), 1e-9);
  EXPECT_NEAR(first_share(answer), 0.62, 1e-9);
  json["metrics"].erase("operators.gemm_conv_ratio");
  const Json unknown = said(text, json);
  EXPECT_EQ(first_gain(unknown), 1.0);
  EXPECT_FALSE(unknown.at("candidates").at(0).contains("signal_share_ratio"));

  json = situation("fashion_cnn_cpu");
  const Json product =
      said(replaced(kGood, "expect: 1.2",
                    "expect: 50% of step.data_wait_ratio * (1 - cpu.kernel_ratio)"),
           json);
  EXPECT_NEAR(first_share(product), 0.06 * 0.88, 1e-9);
  EXPECT_NEAR(first_gain(product), 1 / (1 - 0.5 * 0.06 * 0.88), 1e-9);
}

TEST(YamlPlugin, IsFoundAndRefusedLikeALibrary) {
  const PluginFolder folder;
  folder.write("threads.yaml", kGood);
  const FoundPlugin good = only_plugin(folder.path());
  EXPECT_EQ(good.state, FoundPlugin::State::ready) << good.refusal;
  EXPECT_EQ(good.kind, "yaml");
  EXPECT_EQ(good.version, "1.2");
  EXPECT_EQ(good.summary, "Tries threads.");

  folder.write("threads.yaml", replaced(kGood, "expect: 1.2\nreason", "expect: 1\nraeson"));
  const FoundPlugin bad = only_plugin(folder.path());
  EXPECT_EQ(bad.state, FoundPlugin::State::refused);
  tests::expect_golden_part("plugins/host/golden/yaml_plugin.txt",
                            tests::with_here(bad.refusal, folder.path()) + "\n");
}

}  // namespace
}  // namespace autotuned::plugins
