// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/refused_plugins.hpp"

#include <algorithm>

namespace autotuned::daemon {

using plugins::FoundPlugin;
using storage::AnswerKind;

Result<std::vector<std::string>> record_refused_plugins(
    storage::History& history, const RunId& run, const std::vector<FoundPlugin>& found,
    const std::optional<std::vector<std::string>>& named, std::int64_t now_unix_ns) {
  const auto answers = history.plugin_answers(run);
  if (!answers) return tl::unexpected(answers.error());
  const auto is_known = [&](const std::string& plugin, const std::string& outcome) {
    return std::ranges::any_of(*answers, [&](const storage::PluginAnswerRow& answer) {
      return answer.plugin == plugin && (answer.is_failure || answer.outcome == outcome);
    });
  };
  const auto is_wanted = [&](const FoundPlugin& plugin) {
    const bool is_named = named && std::ranges::find(*named, plugin.name) != named->end();
    if (plugin.state == FoundPlugin::State::unsupported) return is_named;
    // A folder may have held what was named.
    return plugin.state == FoundPlugin::State::refused &&
           (!named || is_named || plugin.kind == "folder");
  };
  std::vector<std::string> told;
  for (const FoundPlugin& plugin : found) {
    // `unsupported` is no failure of the plugin: this machine lacks something.
    const bool is_failure = plugin.state == FoundPlugin::State::refused;
    const std::string outcome = (is_failure ? "is refused: " : "is unsupported: ") + plugin.refusal;
    if (!is_wanted(plugin) || is_known(plugin.name, outcome)) continue;
    storage::PluginAnswerRow question;
    question.plugin = plugin.name;
    question.version = plugin.version;
    question.sha256 = plugin.sha256;
    question.asked_unix_ns = now_unix_ns;
    question.kind = is_failure ? AnswerKind::refused : AnswerKind::unsupported;
    if (auto stored = history.put_plugin_asked(run, question); !stored) {
      return tl::unexpected(stored.error());
    }
    auto stored = history.put_plugin_answered(run, plugin.name, outcome, is_failure);
    if (!stored) return tl::unexpected(stored.error());
    told.push_back((plugin.kind == "folder" ? "the plugin folder " : "plugin ") + plugin.name +
                   " " + outcome + "; the run goes on without it");
  }
  return told;
}

}  // namespace autotuned::daemon
