// SPDX-License-Identifier: Apache-2.0
// plugins, plugins new: what is installed, and a start for one's own.
#include <algorithm>
#include <iostream>
#include <map>
#include <utility>

#include "base/printable.hpp"
#include "daemon/cli/command_functions.hpp"
#include "daemon/common/exit_codes.hpp"
#include "daemon/common/installation_paths.hpp"
#include "daemon/plugin_list/plugin_names.hpp"
#include "daemon/plugin_list/plugin_record.hpp"
#include "daemon/plugin_list/plugin_survey.hpp"
#include "daemon/report/history_reading.hpp"
#include "daemon/report/job_trend.hpp"
#include "daemon/report/report.hpp"
#include "daemon/screen/wrapped_text.hpp"
#include "plugins/host/loader.hpp"
#include "plugins/host/skeleton.hpp"

namespace autotuned::daemon {

namespace {

// Without a history nobody was ever asked; one that cannot be read costs the records, not the list.
std::map<std::string, PluginRecord> records_in(const std::filesystem::path& file) {
  const auto history = open_history(file, storage::Access::read_only);
  if (!history && history.error().kind == ErrorKind::not_found) return {};
  auto records = history ? plugin_records(*history) : tl::unexpected(history.error());
  if (records) return std::move(*records);
  report_error(records.error());
  return {};
}

void print_table(const std::vector<SurveyedPlugin>& plugins,
                 std::map<std::string, PluginRecord>& records) {
  std::vector<std::vector<std::string>> rows = {
      {"plugin", "kind", "version", "state", "record", "what it does"}};
  for (const SurveyedPlugin& plugin : plugins) {
    rows.push_back({plugin.name, plugin.kind, plugin.version.empty() ? "-" : plugin.version,
                    plugin.state, records[plugin.name].text(),
                    plugin.is_ready() ? plugin.summary : plugin.refusal});
  }
  print_text(table_text(rows));
  for (const SurveyedPlugin& plugin : plugins) {
    if (!plugin.is_ready()) {
      print_text(printable_lines("\n" + plugin.path.string() + ": " + plugin.state + ": " +
                                 plugin.refusal + "\n"));
    }
    // A policy and what it adds to the trainer have one name, and one record.
    const std::string failure = std::exchange(records[plugin.name].last_failure, "");
    if (!failure.empty()) {
      print_text(printable_lines("\n" + plugin.name + " failed last: " + failure + "\n"));
    }
  }
}

// `plugins` are those of one name: a policy and its trainer extension share a name, and both must be ready.
int check_ready(const std::vector<SurveyedPlugin>& plugins, const std::string& name) {
  const auto found = std::ranges::find_if_not(plugins, &SurveyedPlugin::is_ready);
  if (found == plugins.end()) return kDone;
  return report_error({ErrorKind::invalid,
                       "plugin " + name + " is " + found->state + ": " + found->refusal, "", ""});
}

int print_gains(const ListPluginsOptions& options) {
  const auto history = open_history(options.history, storage::Access::read_only);
  std::vector<PluginGain> gains;
  if (history) {
    auto found = plugin_gains(*history);
    if (!found) return report_error(found.error());
    gains = std::move(*found);
  } else if (history.error().kind != ErrorKind::not_found || !options.history.empty()) {
    return report_error(history.error());
  }
  if (options.required) {
    std::erase_if(gains, [&](const PluginGain& gain) { return gain.plugin != *options.required; });
  }
  std::cout << (options.as_json ? to_line(gains_json(gains)) + "\n" : gains_text(gains));
  return kDone;
}

}  // namespace

int list_plugins(const ListPluginsOptions& options) {
  if (options.is_gains) return print_gains(options);
  std::vector<std::filesystem::path> extra;
  for (const auto& folder : options.plugin_folders)
    extra.push_back(std::filesystem::absolute(folder));
  const auto built_in = find_installation_paths().built_in_plugins;
  if (auto checked = check_plugin_folders(extra); !checked) {
    return report_error(checked.error(), kUsageError);
  }
  auto found = survey_plugins(plugins::plugin_folders(extra, built_in));
  if (!found) return report_error(found.error());
  if (options.required) {
    std::vector<std::string> names;
    for (const SurveyedPlugin& plugin : *found)
      names.push_back(plugin.name);
    if (auto checked = check_plugin_names("--require", {*options.required}, names); !checked) {
      return report_error(checked.error(), kUsageError);
    }
    std::erase_if(*found, [&](const auto& plugin) { return plugin.name != *options.required; });
  }
  auto records = records_in(options.history);
  if (options.as_json) {
    Json list = Json::array();
    for (const SurveyedPlugin& plugin : *found) {
      list.push_back(plugin.to_json());
      list.back()["record"] = records[plugin.name].to_json();
    }
    std::cout << to_line(list) << "\n";
  } else if (found->empty()) {
    std::cout << "no plugins found in " << printable(built_in.string()) << "\n";
  } else {
    print_table(*found, records);
  }
  return options.required ? check_ready(*found, *options.required) : kDone;
}

int new_plugin(const NewPluginOptions& options) {
  const auto written = plugins::write_skeleton(
      {.templates = find_installation_paths().templates,
       .kind = options.kind,
       .name = options.name,
       .parent = std::filesystem::absolute(options.into).lexically_normal()});
  if (!written) return report_error(written.error(), exit_code_of(written.error()));
  if (options.as_json) {
    Json files = Json::array();
    for (const auto& file : *written)
      files.push_back(file.string());
    std::cout << to_line({{"name", options.name}, {"files", std::move(files)}}) << "\n";
    return kDone;
  }
  for (const auto& file : *written)
    std::cout << printable(
                     (options.into / options.name / file.filename()).lexically_normal().string())
              << "\n";
  std::cout << "\nREADME.md in there says how to test and use it.\n";
  return kDone;
}

}  // namespace autotuned::daemon
