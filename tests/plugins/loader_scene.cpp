// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/loader_scene.hpp"
#include "tests/places.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace autotuned::plugins {

PluginFolder::PluginFolder() {
  std::string pattern = ::testing::TempDir() + "autotuned-plugins-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  ::chmod(pattern.c_str(), 0755);
  path_ = std::filesystem::canonical(pattern);
}

PluginFolder::~PluginFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path PluginFolder::add(const std::string& fixture, const std::string& as) const {
  std::filesystem::path to = path_ / ("lib" + (as.empty() ? fixture : as) + ".so");
  std::filesystem::copy_file(fixture_library(fixture), to);
  return to;
}

std::filesystem::path PluginFolder::write(const std::string& leaf, std::string_view content) const {
  std::filesystem::path to = path_ / leaf;
  std::ofstream(to, std::ios::binary) << content;
  return to;
}

std::filesystem::path PluginFolder::make_folder(const std::string& leaf) const {
  std::filesystem::path to = path_ / leaf;
  std::filesystem::create_directory(to);
  return to;
}

std::filesystem::path fixture_library(const std::string& name) {
  return tests::build_folder() / "tests/fixture_plugins" / name / ("lib" + name + ".so");
}

FoundPlugin only_plugin(const std::filesystem::path& folder) {
  std::vector<FoundPlugin> found = find_plugins({folder}, {});
  if (found.size() != 1) {
    throw std::runtime_error(std::to_string(found.size()) + " plugins in " + folder.string());
  }
  return std::move(found.front());
}

Json situation(const std::string& name) {
  std::ifstream file(tests::source_folder() / "tests/plugins/data" / (name + ".json"));
  return Json::parse(file);
}

const std::vector<FoundPlugin>& built_ins() {
  static const std::vector<FoundPlugin> kFound =
      find_plugins({tests::build_folder() / "lib/autotuned/plugins"}, {});
  return kFound;
}

Json ask(const std::string& plugin, const Json& situation) {
  for (const FoundPlugin& found : built_ins()) {
    if (found.name != plugin) continue;
    if (!found.policy) throw std::runtime_error(found.refusal);
    Result<Json> answer = found.policy->propose(situation);
    if (!answer) throw std::runtime_error(answer.error().message());
    return *answer;
  }
  throw std::runtime_error("no plugin " + plugin);
}

Json first_change(const Json& answer) {
  const Json& candidates = answer.at("candidates");
  return candidates.empty() ? Json() : candidates.front().at("change");
}

std::string none_because(const Json& answer) {
  return answer.at("none_because").get<std::string>();
}

std::string first_reason(const Json& answer) {
  return answer.at("candidates").at(0).at("reason").get<std::string>();
}

double first_gain(const Json& answer) {
  return answer.at("candidates").at(0).at("expected_gain_ratio").get<double>();
}

Json trial_of(const Json& situation, const Json& change, const std::string& verdict, double ratio) {
  return {{"change", change},
          {"reference", situation.at("incumbent")},
          {"verdict", verdict},
          {"failure", verdict == "failed" ? Json("out_of_memory") : Json()},
          {"ratio", ratio},
          {"ratio_low", ratio * 0.98},
          {"ratio_high", ratio * 1.02},
          {"candidate_samples_per_second", 1000.0 * ratio},
          {"peak_memory_bytes", 0}};
}

void tell(Json& situation, const Json& change, const std::string& verdict, double ratio) {
  situation["trials"].push_back(trial_of(situation, change, verdict, ratio));
  if (verdict == "accepted") situation["incumbent"].update(change);
}

}  // namespace autotuned::plugins
