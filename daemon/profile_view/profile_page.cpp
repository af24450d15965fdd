// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/profile_page.hpp"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "daemon/profile_view/profile_page_files.hpp"
#include "daemon/profile_view/profile_tables.hpp"
#include "daemon/profile_view/trace_report.hpp"

namespace autotuned::daemon {

namespace {

using analysis::Bar;
using analysis::OperatorsBy;
using analysis::TraceProfile;

// Over all ranks together.
constexpr std::size_t kMaxBars = 30'000;
constexpr std::size_t kMaxFrames = 8'000;
constexpr std::size_t kMaxChanges = 60'000;
constexpr std::size_t kMaxCurvePoints = 16'000;
constexpr std::size_t kMaxRows = 2'000;
constexpr std::size_t kMaxSteps = 400;
constexpr std::size_t kMaxStackRows = 600;
constexpr std::size_t kLongestText = 300;
constexpr std::size_t kLongestStack = 1'200;

// It is in page/profile.html, and tells a page from other files.
constexpr std::string_view kPageTitle = "autotuned profile";

std::string bounded(const std::string& text, std::size_t longest = kLongestText) {
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

Json bounded_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts)
    list.push_back(bounded(text));
  return list;
}

Json table_json(const Table& table, std::size_t most_rows) {
  static constexpr const char* kUnits[] = {"text",  "count",  "time",  "bytes",
                                           "ratio", "change", "number"};
  Json columns = Json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"key", column.key},
                       {"heading", column.heading},
                       {"unit", kUnits[static_cast<std::size_t>(column.unit)]}});
  }
  Json rows = Json::array();
  for (std::size_t i = 0; i < std::min(table.rows.size(), most_rows); ++i) {
    Json row = Json::array();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const Cell& cell = table.rows[i][c];
      const bool is_stack = std::string_view(table.columns[c].key) == "stack";
      const auto* text = std::get_if<std::string>(&cell);
      const auto* number = std::get_if<double>(&cell);
      if (text != nullptr) {
        row.push_back(bounded(*text, is_stack ? kLongestStack : kLongestText));
      } else {
        row.push_back(number != nullptr ? Json(*number) : Json());
      }
    }
    rows.push_back(std::move(row));
  }
  return {{"id", table.id},
          {"title", table.title},
          {"columns", std::move(columns)},
          {"left_out", table.rows.size() - rows.size()},
          {"rows", std::move(rows)},
          {"when_empty", table.when_empty}};
}

Json tables_json(const std::vector<Table>& tables, std::size_t most_rows) {
  Json list = Json::array();
  for (const Table& table : tables)
    list.push_back(table_json(table, most_rows));
  return list;
}

// A node at the top has the parent -1.
std::int64_t parent_number(std::uint32_t parent) {
  return parent == analysis::kNoNode ? -1 : static_cast<std::int64_t>(parent);
}

Json bars_json(const TraceProfile& rank, std::size_t most) {
  Json list = Json::array();
  for (const Bar& bar : analysis::longest(rank.bars.bars, most)) {
    list.push_back({bar.track, bar.name, bar.depth, static_cast<int>(bar.kind),
                    bar.time.start_ns - rank.recorded.start_ns, bar.time.length_ns()});
    if (bar.cause != analysis::kNoBar) list.back().push_back(bar.cause);
  }
  const auto left_out =
      rank.bars.left_out + static_cast<std::int64_t>(rank.bars.bars.size() - list.size());
  return {{"tracks", bounded_list(rank.bars.tracks)},
          {"names", bounded_list(rank.bars.names)},
          {"bars", std::move(list)},
          {"left_out", left_out}};
}

Json flame_json(const analysis::Flame& flame, std::size_t most) {
  Json list = Json::array();
  // A parent stands before what it holds, so the first ones are whole.
  for (const analysis::FlameFrame& frame : flame.frames) {
    if (list.size() == most) break;
    list.push_back({frame.name, parent_number(frame.parent), static_cast<int>(frame.kind),
                    frame.calls, frame.host_ns, frame.device_ns});
  }
  const auto left_out =
      flame.left_out + static_cast<std::int64_t>(flame.frames.size() - list.size());
  return {
      {"names", bounded_list(flame.names)}, {"frames", std::move(list)}, {"left_out", left_out}};
}

Json memory_json(const TraceProfile& rank, std::size_t most_changes, std::size_t most_points) {
  const analysis::MemoryUse& use = rank.memory;
  Json devices = Json::array();
  for (const analysis::MemoryDevice& device : use.devices) {
    Json curve = Json::array();
    for (const auto& point : analysis::thinned(
             device.curve, most_points / std::max<std::size_t>(use.devices.size(), 1)))
      curve.push_back(
          {point.time_ns - rank.recorded.start_ns, point.allocated_bytes, point.reserved_bytes});
    devices.push_back(
        {{"name", device.name}, {"peak", device.allocated.bytes}, {"curve", std::move(curve)}});
  }
  Json changes = Json::array();
  Json calls = Json::array();
  const bool fits = use.changes.size() <= most_changes && use.calls.size() <= 2 * most_changes;
  if (fits) {
    for (const auto& change : use.changes) {
      changes.push_back({change.time_ns - rank.recorded.start_ns, change.bytes, change.device,
                         parent_number(change.call)});
    }
    for (const auto& call : use.calls)
      calls.push_back({call.name, parent_number(call.parent)});
  }
  return {{"devices", std::move(devices)},
          {"changes", std::move(changes)},
          {"changes_left_out", fits ? 0 : use.changes.size()},
          {"calls", std::move(calls)},
          {"names", fits ? bounded_list(use.names) : Json::array()}};
}

Json devices_json(const TraceProfile& rank) {
  Json list = Json::array();
  for (const analysis::DeviceUse& use : rank.summary.devices) {
    const auto or_null = [](const std::optional<double>& value) {
      return value ? Json(*value) : Json();
    };
    list.push_back({{"name", "GPU " + std::to_string(use.device)},
                    {"title", bounded(device_title(rank.summary, use.device))},
                    {"utilization", use.utilization},
                    {"sm_efficiency", or_null(use.sm_efficiency)},
                    {"achieved_occupancy_percent", or_null(use.achieved_occupancy_percent)},
                    {"tensor_core_ratio", use.tensor_core_ratio}});
  }
  return list;
}

Json steps_json(const analysis::Breakdown& breakdown) {
  Json list = Json::array();
  for (const analysis::Step& step : breakdown.steps) {
    if (list.size() == kMaxSteps) break;
    list.push_back(
        {{"name", bounded(step.name)}, {"ns", step.time.length_ns()}, {"parts", step.part_ns}});
    if (breakdown.has_cpu_phases) list.back()["cpu"] = step.cpu_phase_ns;
  }
  return list;
}

Json rank_json(const TraceProfile& rank, std::size_t ranks) {
  const analysis::Breakdown& breakdown = rank.summary.breakdown;
  const std::size_t most_rows = std::max<std::size_t>(kMaxRows / ranks, 50);
  Json parts = Json::array();
  for (std::size_t i = 0; i < analysis::kParts; ++i) {
    const auto part = static_cast<analysis::Part>(i);
    parts.push_back({{"name", analysis::to_string(part)}, {"ns", breakdown.mean_part_ns(part)}});
  }
  Json phases = Json::array();
  for (std::size_t i = 0; breakdown.has_cpu_phases && i < analysis::kCpuPhases; ++i) {
    const auto phase = static_cast<analysis::CpuPhase>(i);
    phases.push_back(
        {{"name", analysis::to_string(phase)}, {"ns", breakdown.mean_phase_ns(phase)}});
  }
  Json notes = bounded_list(rank.summary.damage);
  for (const std::string& note : rank.summary.notes)
    notes.push_back(bounded(note));
  std::vector<Table> operators = {operators_table(rank.summary.operators)};
  if (rank.has_shapes) {
    operators.push_back(operators_table(rank.operators_by_shape, OperatorsBy::shapes));
  }
  Json operators_tables = tables_json(operators, most_rows);
  if (rank.has_stacks) {
    operators_tables.push_back(
        table_json(operators_table(rank.operators_by_stack, OperatorsBy::stacks),
                   std::max<std::size_t>(kMaxStackRows / ranks, 50)));
  }
  Json steps = steps_json(breakdown);
  return {{"rank", rank.summary.rank},
          {"file", bounded(rank.summary.file)},
          {"length_ns", rank.recorded.length_ns()},
          {"step_ns", breakdown.mean_step_ns()},
          {"parts", std::move(parts)},
          {"cpu_phases", std::move(phases)},
          {"steps_left_out", breakdown.steps.size() - steps.size()},
          {"steps", std::move(steps)},
          {"devices", devices_json(rank)},
          {"notes", std::move(notes)},
          {"input_facts", bounded_list(input_facts(rank))},
          {"tables",
           {{"operators", std::move(operators_tables)},
            {"kernels", tables_json({kernels_table(rank.summary.kernels)}, most_rows)},
            {"modules", tables_json({modules_table(rank, false)}, most_rows)},
            {"memory", tables_json({memory_operators_table(rank, std::nullopt),
                                    memory_blocks_table(rank, std::nullopt)},
                                   most_rows)},
            {"input", tables_json(input_tables(rank), most_rows)},
            {"trace", tables_json({timelines_table(rank), gaps_table(rank)}, most_rows)}}},
          {"memory", memory_json(rank, kMaxChanges / ranks, kMaxCurvePoints / ranks)},
          {"flame", flame_json(rank.flame, kMaxFrames / ranks)},
          {"python_flame", flame_json(rank.python_flame, kMaxFrames / ranks)},
          {"bars", bars_json(rank, kMaxBars / ranks)}};
}

// Writes every '<' as a JSON escape, so that the text can neither end the script element nor begin a comment; also the
// line separators that JSON allows but older JavaScript does not.
std::string embedded(const Json& json) {
  const std::string text = to_line(json);
  std::string safe;
  safe.reserve(text.size() + text.size() / 16);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = std::string_view(text).substr(i, 3);
    if (text[i] == '<') {
      safe += "\\u003c";
    } else if (three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9") {
      safe += three.back() == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += text[i];
    }
  }
  return safe;
}

// The hash by which a Content-Security-Policy names the content of an element. The content begins with a line end in
// the markup.
std::string hash_source(const std::string& content) {
  Sha256 digest;
  digest.update("\n");
  digest.update(content);
  return "'sha256-" + digest.finish_base64() + "'";
}

void replace(std::string& text, std::string_view mark, const std::string& by) {
  const std::size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), by);
}

// Only an earlier page or an empty file may be replaced. Any other file, such as a model named by mistake, would be lost.
Result<void> check_replaced_page(const std::filesystem::path& file) {
  constexpr std::size_t kMaxBytesOfHead = 4096;
  if (auto checked = check_output_file(file, /*may_replace=*/true); !checked) return checked;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  const auto head = first_bytes(file, kMaxBytesOfHead);
  if (head && (head->empty() || begins_page(*head, kPageTitle))) return {};
  return fail(ErrorKind::invalid,
              "it is not a page that `analyze` or `profile` has written, and would be lost",
              file.string(), "name another file, or remove this one");
}

}  // namespace

std::string page_of(const PageContent& content) {
  const std::vector<TraceProfile>& ranks = content.ranks;
  Json list = Json::array();
  for (const TraceProfile& rank : ranks)
    list.push_back(rank_json(rank, ranks.size()));
  const Json data = {
      {"ranks", std::move(list)},
      {"findings", findings_json(analysis::overall_of(ranks).findings)},
      {"distributed", tables_json({ranks_table(ranks), collectives_table(ranks)}, kMaxRows)},
      {"straggler_facts", straggler_facts(ranks)},
      {"difference", tables_json(content.difference, kMaxRows)},
      {"difference_notes", bounded_list(content.difference_notes)}};
  const std::string script = std::string(kPageScript) + kPageTimeline + kPagePlots;
  // The data last: it could hold a mark itself.
  std::string page = kPageMarkup;
  replace(page, "@PAGE_STYLE_HASH@", hash_source(kPageStyle));
  replace(page, "@PAGE_SCRIPT_HASH@", hash_source(script));
  replace(page, "@PAGE_STYLE@", kPageStyle);
  replace(page, "@PAGE_SCRIPT@", script);
  replace(page, "@PAGE_DATA@", embedded(data));
  return page;
}

bool begins_page(std::string_view head, std::string_view title) {
  return head.starts_with("<!doctype html>") &&
         head.find("<title>" + std::string(title) + "</title>") != std::string_view::npos;
}

Result<void> check_page_file(const std::filesystem::path& file,
                             const std::vector<std::filesystem::path>& traces) {
  for (const std::filesystem::path& trace : traces) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(file, trace, ignored)) continue;
    return fail(ErrorKind::invalid, "this is one of the traces themselves", file.string(),
                "name another file");
  }
  return check_replaced_page(file);
}

Result<void> write_page(const std::filesystem::path& file, const PageContent& content) {
  // Reading traces takes a while, in which another program may have put something there.
  if (auto checked = check_replaced_page(file); !checked) return checked;
  return write_file_atomically(file, page_of(content));
}

}  // namespace autotuned::daemon
