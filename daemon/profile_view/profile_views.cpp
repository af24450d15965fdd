// SPDX-License-Identifier: Apache-2.0
#include "daemon/profile_view/profile_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "daemon/profile_view/profile_difference.hpp"
#include "daemon/profile_view/profile_page.hpp"
#include "daemon/profile_view/profile_tables.hpp"
#include "daemon/profile_view/trace_report.hpp"

namespace autotuned::daemon {

namespace {

using analysis::TraceProfile;

constexpr std::size_t kTopByDefault = 10;

bool is_in_summary(ProfileView view) {
  return view == ProfileView::overview || view == ProfileView::operators ||
         view == ProfileView::kernels;
}

ViewSection section_of_rank(ProfileView view, const TraceProfile& rank,
                            const ViewOptions& options) {
  ViewSection section;
  switch (view) {
    case ProfileView::modules:
      section.tables.push_back(modules_table(rank, !options.sort.empty()));
      break;
    case ProfileView::memory:
      section.lines = memory_curves(rank, options.range);
      section.tables = {memory_devices_table(rank)};
      if (!rank.memory.devices.empty()) {
        section.tables.push_back(memory_operators_table(rank, options.range));
        section.tables.push_back(memory_blocks_table(rank, options.range));
      }
      break;
    case ProfileView::input:
      section.lines = input_facts(rank);
      section.tables = input_tables(rank);
      break;
    case ProfileView::trace:
      section.tables = {timelines_table(rank), gaps_table(rank)};
      break;
    case ProfileView::overview:
    case ProfileView::operators:
    case ProfileView::kernels:
    case ProfileView::distributed:
      break;
  }
  return section;
}

// A table for each rank: shapes and call stacks of operators cannot be summed over ranks.
std::vector<Table> operators_by_more(const std::vector<TraceProfile>& ranks,
                                     const ViewOptions& options) {
  std::vector<Table> tables;
  for (const TraceProfile& rank : ranks) {
    if (options.by_shape) {
      tables.push_back(operators_table(rank.operators_by_shape, analysis::OperatorsBy::shapes));
    }
    if (options.by_stack) {
      tables.push_back(operators_table(rank.operators_by_stack, analysis::OperatorsBy::stacks));
    }
  }
  return tables;
}

// Sorted where a column is named: at least one of all tables must have it.
Result<std::vector<ViewSection>> all_sections(const std::vector<TraceProfile>& ranks,
                                              const ViewOptions& options) {
  std::vector<ViewSection> sections;
  std::set<std::string> columns;
  bool is_sorted = options.sort.empty();
  for (const ProfileView view : options.views) {
    for (ViewSection& section : view_sections(view, ranks, options)) {
      for (Table& table : section.tables) {
        for (const Column& column : table.columns)
          columns.insert(column.key);
        is_sorted |= !options.sort.empty() && sort_by(table, options.sort);
      }
      sections.push_back(std::move(section));
    }
  }
  if (!options.before.empty()) {
    ViewSection& section = sections.emplace_back();
    section.lines = difference_facts(options.before, ranks);
    section.tables = difference_tables(options.before, ranks);
    for (Table& table : section.tables)
      is_sorted |= !options.sort.empty() && sort_by(table, options.sort);
  }
  if (is_sorted) return sections;
  std::string known;
  for (const std::string& column : columns)
    known += (known.empty() ? "" : ", ") + column;
  return fail(ErrorKind::invalid, "no table has a column '" + short_for_message(options.sort) + "'",
              "--sort",
              columns.empty() ? "name a view with tables, such as --view operators"
                              : "the columns are " + known);
}

std::string section_text(const ViewSection& section, std::size_t top) {
  std::string text = "\n";
  if (!section.title.empty()) text += section.title + "\n";
  for (const std::string& line : section.lines)
    text += line + "\n";
  if (!section.lines.empty() && !section.tables.empty()) text += "\n";
  for (std::size_t i = 0; i < section.tables.size(); ++i)
    text += (i > 0 ? "\n" : "") + to_text(section.tables[i], top);
  return text;
}

Json views_json(const std::vector<TraceProfile>& ranks, const ViewOptions& options) {
  Json views = Json::object();
  for (const ProfileView view : options.views) {
    if (is_in_summary(view) && !options.by_shape && !options.by_stack) continue;
    const std::string& name = view_names()[static_cast<std::size_t>(view)];
    std::vector<ViewSection> sections = view_sections(view, ranks, options);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      for (Table& table : sections[i].tables) {
        if (!options.sort.empty()) (void)sort_by(table, options.sort);
        Json entry = {{"table", table.id}, {"rows", rows_json(table, options.top)}};
        if (sections.size() > 1) entry["rank"] = ranks[i].summary.rank;
        views[name].push_back(std::move(entry));
      }
    }
  }
  if (options.before.empty()) return views;
  for (Table& table : difference_tables(options.before, ranks)) {
    if (!options.sort.empty()) (void)sort_by(table, options.sort);
    views["difference"].push_back({{"table", table.id}, {"rows", rows_json(table, options.top)}});
  }
  return views;
}

}  // namespace

const std::vector<std::string>& view_names() {
  static const std::vector<std::string> kNames = {
      "overview", "operators", "kernels", "modules", "memory", "input", "trace", "distributed"};
  return kNames;
}

ProfileView view_named(std::string_view name) {
  const auto found = std::ranges::find(view_names(), name);
  return static_cast<ProfileView>(found - view_names().begin());
}

analysis::Depth depth_for(const ViewOptions& options) {
  if (!options.html.empty()) return analysis::Depth::plots;
  const bool is_summary =
      std::ranges::all_of(options.views, is_in_summary) && !options.by_shape && !options.by_stack;
  return is_summary ? analysis::Depth::summary : analysis::Depth::views;
}

bool needs_stacks(const ViewOptions& options) {
  return options.by_stack || !options.html.empty();
}

std::vector<ViewSection> view_sections(ProfileView view, const std::vector<TraceProfile>& ranks,
                                       const ViewOptions& options) {
  std::vector<ViewSection> sections;
  if (view == ProfileView::overview) return sections;
  if (view == ProfileView::operators || view == ProfileView::kernels) {
    const analysis::Overall all = analysis::overall_of(ranks);
    ViewSection& section = sections.emplace_back();
    if (view == ProfileView::kernels) {
      section.tables = {kernels_table(all.kernels)};
    } else if (!options.by_shape && !options.by_stack) {
      section.tables = {operators_table(all.operators)};
    } else {
      section.tables = operators_by_more(ranks, options);
    }
    return sections;
  }
  if (view == ProfileView::distributed) {
    sections.push_back({.title = {},
                        .lines = straggler_facts(ranks),
                        .tables = {ranks_table(ranks), collectives_table(ranks)}});
    return sections;
  }
  for (const TraceProfile& rank : ranks) {
    sections.push_back(section_of_rank(view, rank, options));
    if (ranks.size() > 1) sections.back().title = fmt::format("rank {}", rank.summary.rank);
  }
  return sections;
}

Result<void> show_profile(const std::vector<TraceProfile>& ranks, const ViewOptions& options,
                          std::ostream& out) {
  auto sections = all_sections(ranks, options);
  if (!sections) return tl::unexpected(sections.error());
  if (!options.html.empty()) {
    PageContent page{.ranks = ranks};
    if (!options.before.empty()) {
      page.difference = difference_tables(options.before, ranks);
      page.difference_notes = difference_facts(options.before, ranks);
    }
    if (auto written = write_page(options.html, page); !written) return written;
    std::cerr << "wrote all views as a page: " << printable(options.html.string()) << "\n";
  }
  std::vector<analysis::TraceAnalysis> summaries;
  for (const TraceProfile& rank : ranks)
    summaries.push_back(rank.summary);
  if (options.as_json) {
    Json json = traces_json(summaries, options.top);
    if (Json views = views_json(ranks, options); !views.empty()) json["views"] = std::move(views);
    out << to_line(json) << "\n";
    return {};
  }
  // A trace is data of others, and so is every name in it.
  out << printable_lines(header_text(summaries));
  if (std::ranges::find(options.views, ProfileView::overview) != options.views.end()) {
    out << printable_lines(overview_text(summaries));
  }
  for (const ViewSection& section : *sections) {
    out << printable_lines(section_text(section, options.top == 0 ? kTopByDefault : options.top));
  }
  return {};
}

}  // namespace autotuned::daemon
