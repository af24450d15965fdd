// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "daemon/profile_view/profile_table.hpp"
#include "daemon/report/report.hpp"

namespace autotuned::daemon {

namespace {

using analysis::CpuPhase;
using analysis::DeviceUse;
using analysis::Finding;
using analysis::KernelRow;
using analysis::OperatorRow;
using analysis::Overall;
using analysis::Part;
using analysis::Rule;
using analysis::TraceAnalysis;
using Rows = std::vector<std::vector<std::string>>;

double microseconds(double ns) {
  return ns / 1e3;
}

template <class Row>
std::size_t shown(const std::vector<Row>& rows, std::size_t top) {
  return top == 0 ? rows.size() : std::min(top, rows.size());
}

Json operators_json(const std::vector<OperatorRow>& rows, std::size_t top) {
  Json list = Json::array();
  for (std::size_t i = 0; i < shown(rows, top); ++i) {
    const auto us = [](std::int64_t ns) { return microseconds(static_cast<double>(ns)); };
    list.push_back({{"name", rows[i].name},
                    {"calls", rows[i].calls},
                    {"host_total_us", us(rows[i].host_total_ns)},
                    {"host_self_us", us(rows[i].host_self_ns)},
                    {"device_total_us", us(rows[i].device_total_ns)},
                    {"device_self_us", us(rows[i].device_self_ns)}});
    if (rows[i].flop > 0) list.back()["gflop"] = rows[i].flop / 1e9;
  }
  return list;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json kernels_json(const std::vector<KernelRow>& rows, std::size_t top) {
  Json list = Json::array();
  for (std::size_t i = 0; i < shown(rows, top); ++i) {
    const KernelRow& row = rows[i];
    const auto us = [](std::int64_t ns) { return microseconds(static_cast<double>(ns)); };
    list.push_back({{"name", row.name},
                    {"calls", row.calls},
                    {"total_us", us(row.total_ns)},
                    {"mean_us", us(row.total_ns) / static_cast<double>(row.calls)},
                    {"min_us", us(row.min_ns)},
                    {"max_us", us(row.max_ns)},
                    {"tensor_cores", analysis::to_string(row.tensor_cores)},
                    {"blocks_per_sm", or_null(row.blocks_per_sm)},
                    {"occupancy_percent", or_null(row.occupancy_percent)}});
  }
  return list;
}

// Without a device every figure is null.
Json device_json(const std::optional<DeviceUse>& use) {
  const auto figure = [&](double DeviceUse::*member) {
    return use ? Json((*use).*member) : Json();
  };
  return {{"utilization", figure(&DeviceUse::utilization)},
          {"sm_efficiency", use ? or_null(use->sm_efficiency) : Json()},
          {"achieved_occupancy_percent", use ? or_null(use->achieved_occupancy_percent) : Json()},
          {"tensor_core_ratio", figure(&DeviceUse::tensor_core_ratio)}};
}

template <class Figure>
Json parts_json(const Figure& part_ns) {
  Json parts = Json::object();
  for (std::size_t i = 0; i < analysis::kParts; ++i) {
    const auto part = static_cast<Part>(i);
    parts[analysis::to_string(part)] = microseconds(part_ns(part));
  }
  return parts;
}

// The phases of `CPU Exec`; null if the trace does not tell.
Json cpu_phases_json(const Overall& all) {
  if (!all.has_cpu_phases) return Json();
  Json phases = Json::object();
  for (std::size_t i = 0; i < analysis::kCpuPhases; ++i)
    phases[analysis::to_string(static_cast<CpuPhase>(i))] = microseconds(all.cpu_phase_ns[i]);
  return phases;
}

Json rank_json(const TraceAnalysis& rank, std::size_t top) {
  Json devices = Json::array();
  for (const DeviceUse& use : rank.devices) {
    Json device = device_json(use);
    device["device"] = use.device;
    devices.push_back(std::move(device));
  }
  const analysis::Overall own = analysis::overall_of({rank});
  return {{"rank", rank.rank},
          {"file", rank.file},
          {"events", rank.events},
          {"steps", rank.breakdown.steps.size()},
          {"step_us", microseconds(own.step_ns)},
          {"parts_us",
           parts_json([&](Part part) { return own.part_ns[static_cast<std::size_t>(part)]; })},
          {"cpu_us", cpu_phases_json(own)},
          {"gpu", device_json(own.device)},
          {"devices", devices},
          {"findings", findings_json(own.findings)},
          {"operators", operators_json(rank.operators, top)},
          {"kernels", kernels_json(rank.kernels, top)},
          {"damage", rank.damage},
          {"notes", rank.notes}};
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("-");
}

std::string percent_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.1f} %", 100 * *ratio) : std::string("unknown");
}

std::string device_text(const TraceAnalysis& rank, const DeviceUse& use) {
  const auto occupancy = use.achieved_occupancy_percent
                             ? std::optional(*use.achieved_occupancy_percent / 100)
                             : std::nullopt;
  return fmt::format(
      "{}: utilization {}, est. SM efficiency {}, est. achieved occupancy {}, tensor cores in {} "
      "of "
      "the kernel time\n",
      device_title(rank, use.device), percent_text(use.utilization),
      percent_text(use.sm_efficiency), percent_text(occupancy),
      percent_text(use.tensor_core_ratio));
}

// Without a device there is nothing to say of those that only a device has.
bool is_shown(Part part, double ns, bool has_device) {
  const bool is_of_device = part == Part::kernel || part == Part::copy || part == Part::fill ||
                            part == Part::runtime || part == Part::communication;
  return has_device || !is_of_device || ns > 0;
}

// The rows below that of `CPU Exec`.
void add_cpu_phases(const Overall& all, Rows& rows) {
  if (!all.has_cpu_phases) return;
  for (std::size_t i = 0; i < analysis::kCpuPhases; ++i) {
    const double ns = all.cpu_phase_ns[i];
    if (ns <= 0) continue;
    rows.push_back({"  " + std::string(analysis::to_string(static_cast<CpuPhase>(i))),
                    format_span(ns), share_text(ns, all.step_ns)});
  }
}

// The findings whose code was printed, by that code.
using PrintedCode = std::map<std::string_view, std::string>;

// Its severity, its greatest gain and the code, unless an earlier finding has the same.
std::string remedy_text(const Finding& finding, PrintedCode& printed) {
  std::string text = "    " + std::string(analysis::to_string(finding.severity));
  if (const std::string gain = gain_text(finding.gain); !gain.empty()) text += ": " + gain;
  text += "\n";
  const auto [first, is_new] = printed.emplace(finding.code, finding.rule->id);
  if (!is_new && *finding.code != '\0') {
    return text + "      the code of " + first->second + " above\n";
  }
  for (std::string_view code = finding.code; !code.empty();) {
    const std::size_t end = std::min(code.find('\n'), code.size());
    text += fmt::format("      {}\n", code.substr(0, end));
    code.remove_prefix(std::min(end + 1, code.size()));
  }
  return text;
}

// The most important findings come first.
std::string findings_text(std::vector<Finding> findings) {
  if (findings.empty()) return "\nno findings\n";
  std::ranges::stable_sort(findings, std::ranges::greater{}, &Finding::severity);
  std::string text = "\nfindings\n";
  PrintedCode printed_code;
  for (const Finding& finding : findings) {
    text += fmt::format("  {}: {}\n", finding.rule->id, printable(finding.evidence));
    const std::string plugin = finding.rule->plugin;
    const std::string knob = finding.rule->knob;
    std::string who;
    if (!plugin.empty()) who = " [plugin " + plugin + ", " + knob + "]";
    if (plugin.empty() && !knob.empty()) who = " [" + knob + "]";
    text += fmt::format("    → {}{}\n", finding.rule->advice, who);
    text += remedy_text(finding, printed_code);
  }
  return text;
}

}  // namespace

std::string device_title(const TraceAnalysis& rank, int device) {
  std::string title = fmt::format("GPU {}", device);
  for (const traces::DeviceProperties& one : rank.properties) {
    if (one.id != device) continue;
    title += fmt::format(" ({}, compute capability {}.{}, {})", printable(one.name),
                         one.compute_major, one.compute_minor, format_bytes(one.memory_bytes));
  }
  return title;
}

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    const auto word = [](const char* text) { return *text == '\0' ? Json() : Json(text); };
    list.push_back({{"id", finding.rule->id},
                    {"evidence", finding.evidence},
                    {"plugin", word(finding.rule->plugin)},
                    {"knob", word(finding.rule->knob)},
                    {"advice", finding.rule->advice},
                    {"severity", analysis::to_string(finding.severity)},
                    {"most_saved_ratio", or_null(finding.gain.most_saved_ratio)},
                    {"gain", analysis::gain_text(finding.gain)},
                    {"code", word(finding.code)}});
  }
  return list;
}

Json traces_json(const std::vector<TraceAnalysis>& ranks, std::size_t top) {
  const analysis::Overall all = analysis::overall_of(ranks);
  Json json = rank_json(ranks.front(), top);
  if (ranks.size() == 1) return json;
  json.erase("rank");
  json.erase("file");
  json.erase("devices");
  json.erase("steps");
  json["step_us"] = microseconds(all.step_ns);
  json["parts_us"] =
      parts_json([&](Part part) { return all.part_ns[static_cast<std::size_t>(part)]; });
  json["cpu_us"] = cpu_phases_json(all);
  json["gpu"] = device_json(all.device);
  json["findings"] = findings_json(all.findings);
  json["operators"] = operators_json(all.operators, top);
  json["kernels"] = kernels_json(all.kernels, top);
  json["damage"] = Json::array();
  json["notes"] = Json::array();
  json["events"] = 0;
  json["ranks"] = Json::array();
  for (const TraceAnalysis& rank : ranks) {
    json["events"] = json["events"].get<std::int64_t>() + rank.events;
    for (const std::string& what : rank.damage)
      json["damage"].push_back(rank.file + ": " + what);
    for (const std::string& what : rank.notes)
      json["notes"].push_back(rank.file + ": " + what);
    json["ranks"].push_back(rank_json(rank, top));
  }
  return json;
}

std::string header_text(const std::vector<TraceAnalysis>& ranks) {
  std::string text;
  for (const TraceAnalysis& rank : ranks) {
    text += fmt::format("{}: {} events, {}{}\n", rank.file, format_count(rank.events),
                        format_count(static_cast<std::int64_t>(rank.breakdown.steps.size())) +
                            (rank.breakdown.steps.size() == 1 ? " step" : " steps"),
                        ranks.size() > 1 ? fmt::format(", rank {}", rank.rank) : std::string());
    for (const std::string& what : rank.notes)
      text += "  note: " + printable(what) + "\n";
  }
  return text;
}

std::string overview_text(const std::vector<TraceAnalysis>& ranks) {
  const analysis::Overall all = analysis::overall_of(ranks);
  std::string text;
  Rows rows = {{"part", "of a step", "share of a recorded step"}};
  const bool has_device =
      std::ranges::any_of(ranks, [](const TraceAnalysis& rank) { return !rank.devices.empty(); });
  for (std::size_t i = 0; i < analysis::kParts; ++i) {
    if (!is_shown(static_cast<Part>(i), all.part_ns[i], has_device)) continue;
    rows.push_back({analysis::to_string(static_cast<Part>(i)), format_span(all.part_ns[i]),
                    share_text(all.part_ns[i], all.step_ns)});
    if (static_cast<Part>(i) == Part::cpu) add_cpu_phases(all, rows);
  }
  rows.push_back({"step", format_span(all.step_ns), ""});
  text += "\n" + table_text(rows);
  if (ranks.size() > 1) {
    std::vector<Part> parts = {Part::kernel, Part::communication, Part::data_loading, Part::cpu,
                               Part::other};
    std::erase_if(parts, [&](Part part) {
      return !is_shown(part, all.part_ns[static_cast<std::size_t>(part)], has_device);
    });
    Rows per_rank = {{"rank", "step"}};
    for (const Part part : parts)
      per_rank[0].emplace_back(analysis::to_string(part));
    for (const TraceAnalysis& rank : ranks) {
      std::vector<std::string> row = {std::to_string(rank.rank),
                                      format_span(rank.breakdown.mean_step_ns())};
      for (const Part part : parts) {
        row.push_back(fmt::format("{:.1f} %", 100 * rank.breakdown.ratio_of(part)));
      }
      per_rank.push_back(std::move(row));
    }
    text += "\n" + table_text(per_rank);
  }
  std::string devices;
  for (const TraceAnalysis& rank : ranks) {
    for (const DeviceUse& use : rank.devices)
      devices += device_text(rank, use);
  }
  if (!devices.empty()) text += "\n" + devices;
  return text + findings_text(all.findings);
}

Json rules_json() {
  Json list = Json::array();
  for (const Rule& rule : analysis::rules()) {
    const auto word = [](const char* text) { return *text == '\0' ? Json() : Json(text); };
    list.push_back({{"id", rule.id},
                    {"signal", rule.signal},
                    {"threshold", rule.threshold},
                    {"fires", rule.is_below ? "under" : "over"},
                    {"evidence", rule.evidence},
                    {"plugin", word(rule.plugin)},
                    {"knob", word(rule.knob)},
                    {"advice", rule.advice},
                    {"code", word(analysis::code_of(rule))}});
  }
  return list;
}

std::string rules_text() {
  Rows rows = {{"finding", "when", "plugin", "knob", "advice"}};
  for (const Rule& rule : analysis::rules()) {
    const auto word = [](const char* text) { return *text == '\0' ? std::string("-") : text; };
    rows.push_back({rule.id, std::string(rule.signal) + " " + analysis::condition_text(rule),
                    word(rule.plugin), word(rule.knob), rule.advice});
  }
  return table_text(rows);
}

}  // namespace autotuned::daemon
