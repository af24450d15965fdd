// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trace_findings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "profiler/analysis/trace_analysis.hpp"
#include "profiler/traces/reader.hpp"

namespace autotuned::daemon {
namespace {

// The most bytes of a trace of a few steps. The trainer's own limit on events keeps it below; another trainer may have
// no such limit.
constexpr std::int64_t kMaxBytes = 64 << 20;

// A figure that exists under the name of a metric and under that of a signal.
struct SameFigure {
  const char* metric;
  const char* signal;
  bool is_of_operators;  // the signal is a share of the operators' time, the metric one of the step
};
constexpr std::array kSameFigures = {
    SameFigure{"step.data_wait_ratio", "parts.data_loading_ratio", false},
    SameFigure{"step.duration_ns", "step.mean_ns", false},
    SameFigure{"step.optimizer_ratio", "optimizer.step_ratio", false},
    SameFigure{"operators.gather_ratio", "operators.gather_share_ratio", true},
    SameFigure{"operators.gemm_conv_ratio", "operators.gemm_conv_share_ratio", true},
    SameFigure{"operators.gemm_conv_ratio", "cpu.gemm_conv_share_ratio", true},
};

// The signals that a profile has measured itself.
analysis::Signals measured_by(const Json& metrics) {
  const double step_ns = get_number(metrics, "step.duration_ns").value_or(0.0);
  const double operators_ns = get_number(metrics, "operators.count_per_step").value_or(0.0) *
                              get_number(metrics, "operators.mean_ns").value_or(0.0);
  analysis::Signals measured;
  for (const SameFigure& same : kSameFigures) {
    const auto metric = get_number(metrics, same.metric);
    if (!metric) continue;
    if (!same.is_of_operators) {
      measured[same.signal] = *metric;
    } else if (operators_ns > 0.0) {
      measured[same.signal] = *metric * step_ns / operators_ns;
    }
  }
  return measured;
}

FindingRecord record_of(const analysis::Finding& finding) {
  const analysis::Rule& rule = *finding.rule;
  return {.id = rule.id,
          .signal = rule.signal,
          .value = finding.value,
          .threshold = rule.threshold,
          .is_below = rule.is_below,
          .evidence = finding.evidence,
          .plugin = rule.plugin,
          .knob = rule.knob,
          .advice = rule.advice,
          .severity = analysis::to_string(finding.severity),
          .gain = analysis::gain_text(finding.gain),
          .code = finding.code};
}

}  // namespace

Result<void> add_findings(const std::filesystem::path& file, tuner::StepProfile& profile) {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(file, failed);
  if (!failed && bytes > static_cast<std::uintmax_t>(kMaxBytes)) {
    return fail(ErrorKind::corrupt,
                "the trainer's trace has " + format_bytes(static_cast<std::int64_t>(bytes)) +
                    ", and a run looks at no more than " + format_bytes(kMaxBytes),
                file, "`autotuned analyze` takes it");
  }
  const auto trace = traces::read_trace(file);
  if (!trace) return tl::unexpected(trace.error());
  if (!trace->is_complete) {
    return fail(ErrorKind::corrupt, "the trace ends too early", file);
  }
  const analysis::TraceAnalysis found =
      analysis::analyze(*trace, /*default_rank=*/0, measured_by(profile.metrics));
  for (const auto& [name, value] : found.signals) {
    if (std::isfinite(value) && !profile.metrics.contains(name)) profile.metrics[name] = value;
  }
  for (const auto& [signal, place] : found.places)
    profile.places[signal] = {{"module", place.module}, {"share_ratio", place.share}};
  profile.notes.insert(profile.notes.end(), found.notes.begin(), found.notes.end());
  std::vector<analysis::Finding> findings = found.findings;
  std::ranges::stable_sort(findings, std::ranges::greater{}, &analysis::Finding::severity);
  for (const analysis::Finding& finding : findings)
    profile.findings.push_back(record_of(finding));
  return {};
}

}  // namespace autotuned::daemon
