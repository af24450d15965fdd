// SPDX-License-Identifier: Apache-2.0
// What YAML plugins may name is what the documents and the sources of the figures list.
#include "plugins/host/known_names.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/machine/machine.hpp"
#include "tests/places.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

std::string source_text(const char* file) {
  std::ostringstream text;
  text << std::ifstream(tests::source_folder() / file).rdbuf();
  return text.str();
}

std::set<std::string> found_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1].str());
  return found;
}

// From the first `begin` up to the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos) << begin;
  return at == std::string::npos ? "" : text.substr(at, text.find(end, at + 1) - at);
}

std::string why(const std::string& fact) {
  return why_unknown(*Fact::parse(fact)).value_or("");
}

TEST(KnownNames, HaveAllMetricsOfTheDocument) {
  const std::string text = source_text("docs/metrics.md");
  std::set<std::string> names =
      found_in(text.substr(0, text.find("\n## ")), R"(\n\| `([a-z0-9_.]+)` \|)");
  for (const std::string& cell :
       found_in(between(text, "\n### Signals\n", "\n**"), R"(\n\|( `[^|]+) \|)"))
    names.merge(found_in(cell, "`([a-z0-9_.]+)`"));
  EXPECT_GT(names.size(), 100U);
  for (const std::string& name : names)
    EXPECT_EQ(why(name), "");
  for (const std::string& rung :
       found_in(between(text, "| rung |", "\n\n"), R"(\n\| ([a-z_]+) \|)"))
    EXPECT_EQ(why("ceiling." + rung + "_ratio"), "");
}

TEST(KnownNames, HaveAllFactsOfTheirSources) {
  const Json machine = Machine{}.to_json();
  for (const auto& [name, value] : machine.items())
    EXPECT_EQ(why("environment." + name), "");
  const std::string trainer =
      between(source_text("trainer/answers.cpp"), "Json to_json(const JobFacts& facts)", "\n}\n");
  const std::set<std::string> of_trainer = found_in(trainer, R"re(\{"([a-z0-9_]+)", facts)re");
  EXPECT_GT(of_trainer.size(), 20U);
  for (const std::string& name : of_trainer)
    EXPECT_EQ(why("job." + name), "");
  const std::string agent = between(source_text("python/autotuned/agent/description.py"),
                                    "    return {\n        \"step\"", "\n    }\n");
  const std::set<std::string> of_agent = found_in(agent, R"re(\n        "([a-z0-9_]+)":)re");
  EXPECT_GT(of_agent.size(), 10U);
  for (const std::string& name : of_agent)
    EXPECT_EQ(why("job." + name), "");
  for (const char* name : {"fashion_cnn_cpu", "photo_masking_cpu", "resnet18_gpu"}) {
    const Json json = situation(name);
    for (const auto& [fact, value] : json.at("recipe").items())
      EXPECT_EQ(why("recipe." + fact), "") << name;
  }
}

TEST(KnownNames, HaveAllKnobsOfScripts) {
  const std::string listed =
      between(source_text("python/autotuned/knobs/knobs.py"), "def names()", "    )\n");
  const std::set<std::string> knobs = found_in(listed, R"re("([a-z0-9_.]+)")re");
  EXPECT_GT(knobs.size(), 10U);
  for (const std::string& knob : knobs)
    EXPECT_FALSE(why_no_knob(knob)) << knob;
  const std::string modes =
      between(source_text("python/autotuned/parts/compiling.py"), "\nMODES = [", "]");
  for (const std::string& mode : found_in(modes, R"re("([a-z-]+)")re"))
    EXPECT_FALSE(why_no_value("model.compile", {mode, false})) << mode;
}

}  // namespace
}  // namespace autotuned::plugins
