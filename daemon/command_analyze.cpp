// SPDX-License-Identifier: Apache-2.0
// analyze, findings: what the traces of any PyTorch program tell.
#include <algorithm>
#include <iostream>
#include <set>

#include "daemon/command_functions.hpp"
#include "daemon/commands.hpp"
#include "daemon/history_reading.hpp"
#include "daemon/trace_report.hpp"
#include "profiler/traces/reader.hpp"

namespace autotuned::daemon {

namespace {

TraceView view_from(const std::string& name) {
  if (name == "operators") return TraceView::operators;
  return name == "kernels" ? TraceView::kernels : TraceView::overview;
}

// Ranks must tell traces apart: files that name none, or the same one, are counted instead.
void number_ranks(std::vector<analysis::TraceAnalysis>& traces) {
  std::set<int> ranks;
  for (const analysis::TraceAnalysis& trace : traces)
    ranks.insert(trace.rank);
  if (ranks.size() < traces.size()) {
    std::cerr
        << "warning: several of these traces say they are of the same rank: they are numbered in "
           "this order, and comparing them says nothing if they are not of one run\n";
    for (std::size_t i = 0; i < traces.size(); ++i)
      traces[i].rank = static_cast<int>(i);
  }
  std::ranges::stable_sort(traces, {}, &analysis::TraceAnalysis::rank);
}

}  // namespace

int analyze(const AnalyzeOptions& options) {
  std::vector<analysis::TraceAnalysis> analyses;
  int code = kDone;
  for (const std::filesystem::path& file : options.traces) {
    // Traces are large: each is dropped before the next one is read.
    const auto trace = traces::read_trace(file);
    if (!trace) {
      code = report_error(trace.error(), exit_code_of(trace.error()));
      continue;
    }
    for (const std::string& what : trace->damage)
      std::cerr << "warning: " << file.string() << ": " << what << "\n";
    if (!trace->is_complete && code == kDone) code = kWorkFailed;
    analyses.push_back(analysis::analyze(*trace, static_cast<int>(analyses.size())));
  }
  if (analyses.empty()) return code;
  number_ranks(analyses);
  if (options.as_json) {
    std::cout << to_line(traces_json(analyses, options.top)) << "\n";
  } else {
    std::cout << traces_text(analyses, view_from(options.view), options.top);
  }
  return code;
}

int print_findings(bool as_json) {
  if (as_json) {
    std::cout << to_line(rules_json()) << "\n";
  } else {
    std::cout << rules_text();
  }
  return kDone;
}

}  // namespace autotuned::daemon
