// SPDX-License-Identifier: Apache-2.0
// docs/plugins/ has a page for each built-in plugin, which names what the plugin reads and turns, and nothing
// that is not there.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "recipes/knobs.hpp"
#include "tests/places.hpp"
#include "tests/plugins/loader_scene.hpp"

namespace autotuned::plugins {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::filesystem::path pages_folder() {
  return tests::source_folder() / "docs/plugins";
}

// By name.
std::map<std::string, std::string> sources() {
  std::map<std::string, std::string> all;
  for (const auto& folder :
       std::filesystem::directory_iterator(tests::source_folder() / "plugins/builtin")) {
    const std::string name = folder.path().filename().string();
    for (const char* ending : {".cpp", ".yaml"}) {
      const std::filesystem::path file = folder.path() / (name + ending);
      if (std::filesystem::exists(file)) all[name] = text_of(file);
    }
  }
  return all;
}

std::map<std::string, std::string> pages() {
  std::map<std::string, std::string> all;
  for (const auto& file : std::filesystem::directory_iterator(pages_folder()))
    all[file.path().stem().string()] = text_of(file.path());
  return all;
}

std::vector<std::string> names_of(const std::map<std::string, std::string>& texts) {
  std::vector<std::string> names;
  for (const auto& [name, text] : texts)
    names.push_back(name);
  return names;
}

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1].str());
  return found;
}

// The knobs of the program, and the metrics and signals of docs/metrics.md.
const std::set<std::string>& known() {
  static const std::set<std::string> kKnown = [] {
    const std::string text = text_of(tests::source_folder() / "docs/metrics.md");
    std::set<std::string> names =
        matches(text.substr(0, text.find("\n## ")), R"(\n\| `([a-z0-9_.]+)` \|)");
    std::string signals = text.substr(text.find("\n### Signals\n"));
    signals.resize(signals.find("\n**"));
    for (const std::string& cell : matches(signals, R"(\n\|( `[^|]+) \|)"))
      names.merge(matches(cell, "`([a-z0-9_.]+)`"));
    for (const recipes::Knob& knob : recipes::knobs_of(Machine{}))
      names.insert(knob.name);
    return names;
  }();
  return kKnown;
}

// Dotted and other words; a dot at the end is that of a sentence.
std::set<std::string> words_of(const std::string& text) {
  return matches(text, R"(((?:[a-z0-9_]+\.)*[a-z0-9_]+))");
}

std::string code_of(const std::string& page) {
  std::string code;
  for (const std::string& span : matches(page, "`([^`]+)`"))
    code += span + "\n";
  return code;
}

// Words with the first part of a knob or metric that are none.
std::vector<std::string> unknown_words(const std::string& text) {
  static const std::set<std::string> kKeysOfRecipes = {"train.batch_size", "train.drop_last",
                                                       "train.ranks"};
  static const std::set<std::string> kKnobsOfScripts = {"loader.native_threads",
                                                        "optimizer.foreach"};
  std::set<std::string> parts;
  for (const std::string& name : known()) {
    if (const std::size_t dot = name.find('.'); dot != name.npos) parts.insert(name.substr(0, dot));
  }
  std::vector<std::string> unknown;
  for (const std::string& word : words_of(text)) {
    const std::size_t dot = word.find('.');
    if (dot == word.npos || !parts.contains(word.substr(0, dot))) continue;
    const bool is_another = kKeysOfRecipes.contains(word) || kKnobsOfScripts.contains(word);
    if (!known().contains(word) && !is_another) unknown.push_back(word);
  }
  return unknown;
}

std::vector<std::string> unknown_names(const std::string& page) {
  return unknown_words(code_of(page));
}

TEST(Pages, EveryBuiltInHasOne) {
  const auto texts = pages();
  const std::vector<std::string> names = names_of(sources());
  EXPECT_THAT(names_of(texts), ElementsAreArray(names));
  const std::string overview = text_of(tests::source_folder() / "docs/plugins.md");
  for (const std::string& name : names) {
    EXPECT_TRUE(std::ranges::any_of(built_ins(), [&](const FoundPlugin& plugin) {
      return plugin.name == name;
    })) << name;
    EXPECT_THAT(texts.at(name), StartsWith("# " + name + "\n"));
    EXPECT_THAT(overview, HasSubstr("[`" + name + "`](plugins/" + name + ".md)"));
  }
}

TEST(Pages, NameEveryKnobAndMetricOfTheirPlugin) {
  const auto texts = pages();
  for (const auto& [name, source] : sources()) {
    const std::set<std::string> said = words_of(code_of(texts.at(name)));
    for (const std::string& word : words_of(source)) {
      EXPECT_TRUE(said.contains(word) || !known().contains(word)) << name << ": " << word;
    }
    for (const std::string& variable : matches(source, R"re("(env\.[A-Z_]+)")re"))
      EXPECT_THAT(texts.at(name), HasSubstr(variable)) << name;
  }
}

// Policies read the metrics and signals that are documented, from there and nowhere else.
TEST(Pages, PluginsReadWhatIsDocumented) {
  for (const auto& [name, source] : sources()) {
    const bool is_yaml = source.find("AUTOTUNED_PLUGIN(") == std::string::npos;
    std::string read = is_yaml ? source : "";
    for (const std::string& text : matches(source, R"re("([^"\n]+)")re"))
      read += is_yaml ? "" : text + "\n";
    EXPECT_THAT(unknown_words(read), IsEmpty()) << name;
  }
}

TEST(Pages, NameNothingThatIsNotThere) {
  const auto texts = pages();
  for (const auto& [name, page] : texts) {
    EXPECT_THAT(unknown_names(page), IsEmpty()) << name;
    for (const std::string& plugin : matches(page, "--without ([a-z0-9_]+)"))
      EXPECT_TRUE(texts.contains(plugin)) << name << ": " << plugin;
    for (const std::string& recipe : matches(page, R"((recipes/[a-z0-9_]+\.yaml))"))
      EXPECT_TRUE(std::filesystem::exists(tests::source_folder() / recipe)) << name << recipe;
    for (const std::string& link : matches(page, R"(\]\(([a-z0-9_./]+\.md)\))"))
      EXPECT_TRUE(std::filesystem::exists(pages_folder() / link)) << name << ": " << link;
  }
}

TEST(Pages, UnknownNamesAreSeen) {
  EXPECT_THAT(unknown_names("`loader.workers`, `-s input.decode=crop`, `torch.amp`"), IsEmpty());
  EXPECT_THAT(unknown_names("loader.threads, `loader.threads: 2`, `step.idle_ratio`"),
              ElementsAreArray({"loader.threads", "step.idle_ratio"}));
  EXPECT_TRUE(
      words_of("tune.batch_size.max of input.decode_scale.").contains("input.decode_scale"));
  EXPECT_FALSE(words_of("tune.batch_size.max of input.decode_scale.").contains("batch_size"));
}

}  // namespace
}  // namespace autotuned::plugins
