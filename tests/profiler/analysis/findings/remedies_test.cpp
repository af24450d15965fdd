// SPDX-License-Identifier: Apache-2.0
#include "profiler/analysis/findings/remedies.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "profiler/analysis/findings/findings.hpp"
#include "tests/places.hpp"

namespace autotuned::analysis {
namespace {

using testing::HasSubstr;

TEST(Remedies, EveryRuleHasOneOfItsOwn) {
  std::set<std::string> of_rules;
  for (const Remedy& remedy : remedies())
    EXPECT_TRUE(of_rules.insert(remedy.rule).second) << remedy.rule;
  EXPECT_EQ(of_rules.size(), rules().size());
  for (const Rule& rule : rules()) {
    ASSERT_TRUE(of_rules.contains(rule.id)) << rule.id;
    const Remedy& remedy = remedy_of(rule);
    // A bound says how it comes about, and does not come twice.
    EXPECT_TRUE(*remedy.share == '\0' || *remedy.reasoning != '\0') << rule.id;
    EXPECT_TRUE(*remedy.share != '\0' || *remedy.of == '\0') << rule.id;
    // What a program is told to do about time it is told in code, but where it is only told where to look.
    EXPECT_TRUE(*remedy.code != '\0' || *rule.plugin == '\0') << rule.id;
  }
}

// Signals that the analysis knows, so that no bound is forgotten because of a slip.
TEST(Remedies, NameOnlySignalsOfTheDocument) {
  std::ifstream file(tests::source_folder() / "docs/metrics.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const Remedy& remedy : remedies()) {
    for (const std::string signal : {remedy.share, remedy.of}) {
      if (signal.empty() || signal == kOfOperators) continue;
      EXPECT_THAT(text, HasSubstr("`" + signal + "`")) << remedy.rule;
    }
  }
}

const Finding& finding_with(const std::vector<Finding>& findings, const std::string& id) {
  for (const Finding& finding : findings) {
    if (id == finding.rule->id) return finding;
  }
  ADD_FAILURE() << "no finding " << id;
  static const Finding kNone;
  return kNone;
}

TEST(Remedies, BoundTheGainByTheTimeOfTheSignal) {
  const auto findings = findings_of({{"parts.data_loading_ratio", 0.25}});
  const Finding& loading = finding_with(findings, "data_loading");
  ASSERT_TRUE(loading.gain.most_saved_ratio);
  EXPECT_DOUBLE_EQ(*loading.gain.most_saved_ratio, 0.25);
  EXPECT_EQ(loading.severity, Severity::high);
  EXPECT_EQ(
      gain_text(loading.gain),
      "at most 25.0 % of the step (1.33 x the rate), if no step waited for its batch any more");
  EXPECT_THAT(loading.code, HasSubstr("num_workers="));
}

// Whoever pastes it keeps the shuffling, the sampler and the size of the batch that the script has.
TEST(Remedies, LeaveTheOtherArgumentsOfALoaderAsTheyAre) {
  for (const Remedy& remedy : remedies()) {
    const std::string code = remedy.code;
    const std::size_t call = code.find("DataLoader(");
    if (call == std::string::npos) continue;
    const std::string arguments = code.substr(call);
    EXPECT_THAT(arguments, testing::StartsWith("DataLoader(dataset, ...,")) << remedy.rule;
    for (const char* word : {"shuffle=", "drop_last=", "batch_size=batch_size"})
      EXPECT_THAT(arguments, testing::Not(HasSubstr(word))) << remedy.rule;
  }
}

// A share of the operators' time is as much of a step as operators are.
TEST(Remedies, BoundTheGainByTheShareOfAPart) {
  Signals signals = {{"cpu.gemm_conv_share_ratio", 0.5}, {"parts.cpu_ratio", 0.08}};
  const auto findings = findings_of(signals);
  const Finding& wide = finding_with(findings, "wide_arithmetic_on_cpu");
  ASSERT_TRUE(wide.gain.most_saved_ratio);
  EXPECT_DOUBLE_EQ(*wide.gain.most_saved_ratio, 0.04);
  EXPECT_EQ(wide.severity, Severity::low);
  signals.erase("parts.cpu_ratio");
  const auto unknown = findings_of(signals);
  const Finding& unbounded = finding_with(unknown, "wide_arithmetic_on_cpu");
  EXPECT_FALSE(unbounded.gain.most_saved_ratio);
  EXPECT_EQ(gain_text(unbounded.gain), "");
  EXPECT_EQ(unbounded.severity, Severity::note);
}

TEST(Remedies, BoundTheGainOfAnIdleDeviceByWhatItsUseLeaves) {
  const auto findings = findings_of({{"device.utilization_ratio", 0.4}});
  const Finding& idle = finding_with(findings, "low_utilization");
  ASSERT_TRUE(idle.gain.most_saved_ratio);
  EXPECT_DOUBLE_EQ(*idle.gain.most_saved_ratio, 0.6);
  EXPECT_THAT(gain_text(idle.gain), HasSubstr("(2.50 x the rate)"));
}

// A leak costs no time and ends the job all the same.
TEST(Remedies, SomeMatterForMoreThanTime) {
  const auto findings = findings_of({{"memory.growth_share_ratio", 0.1}});
  const Finding& growth = finding_with(findings, "memory_growth");
  EXPECT_FALSE(growth.gain.most_saved_ratio);
  EXPECT_EQ(growth.severity, Severity::high);
  EXPECT_THAT(gain_text(growth.gain), HasSubstr("saves memory, not time"));
}

}  // namespace
}  // namespace autotuned::analysis
