// SPDX-License-Identifier: Apache-2.0
#include "daemon/plugin_list/plugin_survey.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/digest.hpp"
#include "base/frame.hpp"
#include "base/text.hpp"
#include "daemon/supervisor/own_process.hpp"
#include "plugins/host/loader.hpp"

namespace autotuned::daemon {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kFrameLimit = std::chrono::seconds(10);

// One loading process and its results. Loading stops at the first plugin that crashes or hangs it.
struct Attempt {
  Json plugins;         // null when it did not come to the end
  std::string loading;  // being loaded at the end
  bool hung = false;    // that did not come back in time
  std::string ending;   // how the process ended
};

Result<Attempt> attempt(const Json& request, nanoseconds limit) {
  auto child = start_own_process(kPluginProcess, {.is_silent = true});
  if (!child) return tl::unexpected(child.error());
  FrameChannel channel(std::move(child->socket));
  Attempt result;
  if (auto sent = channel.send(request); !sent) return tl::unexpected(sent.error());
  for (;;) {
    auto frame = channel.receive(result.loading.empty() ? kFrameLimit : limit);
    if (!frame && frame.error().kind == ErrorKind::timeout) {
      result.hung = true;
      result.ending = "no answer within " + format_duration(limit);
      child->process.signal_group(SIGKILL);
      return result;
    }
    if (!frame) break;
    if (const Json& found = member(*frame, "plugins"); found.is_array()) {
      result.plugins = found;
      return result;
    }
    result.loading = get_string(*frame, "loading").value_or("");
  }
  const auto exit = child->process.wait(kFrameLimit);
  result.ending =
      exit ? exit->message()
           : "it closed its connection and did not exit within " + format_duration(kFrameLimit);
  return result;
}

SurveyedPlugin crashed(const Attempt& attempt, const std::vector<std::filesystem::path>& folders) {
  SurveyedPlugin plugin;
  plugin.name = attempt.loading;
  plugin.kind = "policy";
  plugin.state = "crashed";
  plugin.refusal = attempt.hung ? "did not return when it was loaded: " + attempt.ending
                                : "ended the process that loaded it: " + attempt.ending;
  for (const auto& folder : folders) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(folder / ("lib" + plugin.name + ".so"), ignored);
    if (ignored) continue;
    plugin.path = file;
    plugin.sha256 = sha256_hex_of_file(file).value_or("");
    break;
  }
  return plugin;
}

}  // namespace

Result<SurveyedPlugin> SurveyedPlugin::from_json(const Json& value) {
  SurveyedPlugin plugin;
  std::string path;
  const std::pair<const char*, std::string*> fields[] = {
      {"name", &plugin.name},       {"kind", &plugin.kind},      {"version", &plugin.version},
      {"summary", &plugin.summary}, {"state", &plugin.state},    {"path", &path},
      {"sha256", &plugin.sha256},   {"refusal", &plugin.refusal}};
  for (const auto& [name, field] : fields) {
    auto text = get_string(value, name);
    if (!text) return tl::unexpected(text.error());
    *field = std::move(*text);
  }
  plugin.path = path;
  return plugin;
}

Json SurveyedPlugin::to_json() const {
  return {{"name", name}, {"state", state},        {"version", version}, {"summary", summary},
          {"kind", kind}, {"path", path.string()}, {"sha256", sha256},   {"refusal", refusal}};
}

Result<std::vector<SurveyedPlugin>> survey_plugins(
    const std::vector<std::filesystem::path>& folders, nanoseconds limit) {
  Json request = {{"folders", Json::array()}, {"without", Json::array()}};
  for (const auto& folder : folders)
    request["folders"].push_back(folder.string());
  std::vector<SurveyedPlugin> plugins;
  for (;;) {
    auto tried = attempt(request, limit);
    if (!tried) return tl::unexpected(tried.error());
    if (tried->plugins.is_array()) {
      for (const Json& found : tried->plugins) {
        auto plugin = SurveyedPlugin::from_json(found);
        if (!plugin) return tl::unexpected(plugin.error());
        plugins.push_back(std::move(*plugin));
      }
      std::ranges::stable_sort(plugins, {}, &SurveyedPlugin::name);
      return plugins;
    }
    const auto is_known = [&](const SurveyedPlugin& known) { return known.name == tried->loading; };
    if (tried->loading.empty() || std::ranges::any_of(plugins, is_known)) {
      return fail(ErrorKind::crashed, "the process that looks at plugins ended: " + tried->ending);
    }
    request["without"].push_back(tried->loading);
    plugins.push_back(crashed(*tried, folders));
  }
}

int run_plugin_process(int control_descriptor) {
  FrameChannel channel{Descriptor(control_descriptor)};
  auto request = channel.receive(kFrameLimit);
  if (!request) return 1;
  std::vector<std::filesystem::path> folders;
  for (const Json& folder : member(*request, "folders")) {
    if (folder.is_string()) folders.emplace_back(folder.get<std::string>());
  }
  std::vector<std::string> without;
  for (const Json& name : member(*request, "without")) {
    if (name.is_string()) without.push_back(name.get<std::string>());
  }
  const auto found = plugins::find_plugins(folders, without, [&](const std::string& name) {
    static_cast<void>(channel.send({{"loading", name}}));  // without a parent this process ends
  });
  Json list = Json::array();
  for (const plugins::FoundPlugin& plugin : found)
    list.push_back(plugin.to_json());
  return channel.send({{"plugins", std::move(list)}}) ? 0 : 1;
}

}  // namespace autotuned::daemon
