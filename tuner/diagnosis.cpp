// SPDX-License-Identifier: Apache-2.0
#include "tuner/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace autotuned::tuner {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kSlowCeilingPairs = 2;
constexpr int kRungShare = 20;  // the lower rungs may take this part, 1/20, of the remaining budget
constexpr int kTraceShare = 10;      // the same for the first trace
constexpr int kNextTraceShare = 12;  // the same for the trace of another incumbent
// Limits of the time to load and record. Most jobs need a second or two. If less than the first is left, there is no trace.
constexpr nanoseconds kMinTraceLimit = seconds(10);
constexpr nanoseconds kMaxTraceLimit = seconds(30);

// These come from times of the host. On a GPU they say nothing about kernels, which the host only starts.
constexpr std::array kHostTimesOfOperators = {"operators.gemm_conv_ratio",
                                              "operators.gather_ratio"};
constexpr std::string_view kKernelRatio = "parts.kernel_ratio";
constexpr std::string_view kShare = "_share_ratio";
// Other shares are those of waiting or of memory, which any change may affect.
constexpr std::array<std::string_view, 2> kOfKernels = {"operators.", "kernels."};

// Returns the members of `metrics` that are still roughly right for another incumbent.
Json kernel_shares_in(const Json& metrics) {
  Json shares = Json::object();
  for (const auto& [name, value] : metrics.items()) {
    const bool is_of_kernels =
        name.ends_with(kShare) && std::ranges::any_of(kOfKernels, [&](std::string_view start) {
          return name.starts_with(start);
        });
    if (name == kKernelRatio || is_of_kernels) shares[name] = value;
  }
  return shares;
}

}  // namespace

CeilingPlan ceiling_plan_of(const Baseline& baseline) {
  if (!baseline.has_slow_blocks) return {};
  return {.pairs = kSlowCeilingPairs, .rung_pairs = 1};
}

Diagnosis::Diagnosis(const SessionInput& input, const Baseline& baseline, const Budget& budget,
                     TrainingBackend& backend, Ledger& ledger, const Clock& clock)
    : input_(&input),
      baseline_(&baseline),
      budget_(&budget),
      backend_(&backend),
      ledger_(&ledger),
      clock_(&clock) {}

// The lower rungs take blocks after every acceptance. They are left out if that would be a notable part of the remaining budget, which
// the trials need more.
Result<void> Diagnosis::measure_ceiling(const Configuration& incumbent) {
  CeilingPlan plan = ceiling_plan_of(*baseline_);
  const auto rung_blocks = plan.rung_pairs * static_cast<std::int64_t>(kRungs.size());
  if (rung_blocks * baseline_->pair_time / 2 > budget_->remaining() / kRungShare) {
    plan.rung_pairs = 0;
  }
  // What was disturbed may have to begin in a new process. It may take the same part.
  const nanoseconds repeated =
      input_->start_time + backend_->warm_up_time() + baseline_->pair_time / 2;
  plan.repeats_disturbed = repeated <= budget_->remaining() / kRungShare;
  auto measured = tuner::measure_ceiling(*backend_, incumbent, plan);
  if (!measured) return forward_error(measured);
  // The speed of the machine drifts, but the job did reach its baseline. That the blocks of the start are faster now is no
  // gain: its bound is told beside its rate.
  const double baseline_rate = baseline_->samples_per_second;
  const bool is_faster_start = incumbent == input_->starting &&
                               measured->samples_per_second > measured->ratio() * baseline_rate;
  ceiling_ = measured->samples_per_second < baseline_rate || is_faster_start
                 ? ceiling_above(std::move(*measured), baseline_rate)
                 : std::move(*measured);
  ceiling_of_ = incumbent;
  return ledger_->ceiling(ceiling_);
}

Result<void> Diagnosis::examine(const Configuration& incumbent) {
  if (auto measured = measure_ceiling(incumbent); !measured) return forward_error(measured);
  return take_profile(incumbent, is_trace_due(incumbent));
}

Result<void> Diagnosis::complete(const Configuration& incumbent) {
  if (traced_ == incumbent || is_trace_too_slow_ || budget_->remaining() < kMinTraceLimit) {
    return {};
  }
  if (profiled_ != incumbent) return take_profile(incumbent, /*is_traced=*/true);
  if (auto added = add_trace(incumbent); !added) return forward_error(added);
  return ledger_->profiled(incumbent, profile_);
}

bool Diagnosis::is_trace_due(const Configuration& incumbent) const {
  if (!traced_) return true;
  return is_on_gpu(*input_) && traced_ != incumbent && trace_time_ &&
         *trace_time_ <= budget_->remaining() / kNextTraceShare;
}

Result<void> Diagnosis::take_profile(const Configuration& incumbent, bool is_traced) {
  profile_ = {};
  profiled_.reset();
  auto profile = backend_->profile(incumbent);
  // A disturbance says nothing about the job.
  if (!profile && profile.error().is_disturbance) profile = backend_->profile(incumbent);
  is_profile_missing_by_chance_ =
      !profile && (profile.error().is_disturbance || profile.error().kind == ErrorKind::timeout);
  if (!profile) {
    if (profile.error().kind == ErrorKind::cancelled) return forward_error(profile);
    return ledger_->not_profiled(profile.error());
  }
  profile_ = std::move(*profile);
  profiled_ = incumbent;
  if (is_traced) {
    if (auto added = add_trace(incumbent); !added) return forward_error(added);
  }
  if (is_on_gpu(*input_)) use_kernel_shares();
  if (ceiling_of_ == incumbent) add_ceiling_metrics(ceiling_, profile_.metrics);
  return ledger_->profiled(incumbent, profile_);
}

void Diagnosis::use_kernel_shares() {
  // Without any trace, as for a script, a rough share is better than none.
  if (kernel_shares_.empty()) return;
  for (const char* const name : kHostTimesOfOperators)
    profile_.metrics.erase(name);
  for (const auto& [name, value] : kernel_shares_.items()) {
    if (!profile_.metrics.contains(name)) profile_.metrics[name] = value;
  }
}

// If the trace fails, the run goes on without it.
Result<void> Diagnosis::add_trace(const Configuration& incumbent) {
  if (budget_->remaining() < kMinTraceLimit) return {};
  traced_ = incumbent;
  const nanoseconds limit =
      std::clamp(budget_->remaining() / kTraceShare, kMinTraceLimit, kMaxTraceLimit);
  const nanoseconds begin = clock_->now();
  trace_time_.reset();
  const auto added = backend_->add_trace(incumbent, profile_, limit);
  if (added) {
    trace_time_ = clock_->now() - begin;
    places_ = profile_.places;
    kernel_shares_ = kernel_shares_in(profile_.metrics);
    return {};
  }
  if (added.error().kind == ErrorKind::cancelled) return forward_error(added);
  // The next trace would load as long.
  is_trace_too_slow_ = added.error().kind == ErrorKind::timeout;
  profile_.notes.push_back("no steps could be recorded and analysed, so there are no findings: " +
                           added.error().message());
  return {};
}

}  // namespace autotuned::tuner
