// SPDX-License-Identifier: Apache-2.0
#include "daemon/guard/guard_backend.hpp"

#include <utility>

namespace autotuned::daemon {
namespace {

constexpr const char* kThis = "this";
constexpr const char* kOther = "other";

// The configuration without kGuardSide, as a trainer gets it.
Configuration plain(const Configuration& configuration) {
  Configuration rest;
  for (const auto& [name, value] : configuration.values()) {
    if (name != kGuardSide) rest.set(name, value);
  }
  return rest;
}

}  // namespace

Configuration on_this_side(Configuration configuration) {
  configuration.set(kGuardSide, std::string(kThis));
  return configuration;
}

Configuration on_other_side(Configuration configuration) {
  configuration.set(kGuardSide, std::string(kOther));
  return configuration;
}

TrainerBackend& GuardBackend::working(const Configuration& configuration) {
  if (against_ == nullptr) return *own_;
  const bool is_other = configuration.text(kGuardSide) == kOther;
  (is_other ? own_ : against_)->suspend_all();
  return is_other ? *against_ : *own_;
}

Result<void> GuardBackend::start(const Configuration& own, const Configuration& against) {
  if (auto started = working(on_this_side(own)).start(own); !started || against_ == nullptr) {
    return started;
  }
  return working(on_other_side(against)).start(against);
}

Result<void> GuardBackend::make_ready(const Configuration& configuration,
                                      tuner::ProcessChoice process,
                                      const Configuration* reference) {
  TrainerBackend& job = working(configuration);
  if (process == tuner::ProcessChoice::alone && against_ != nullptr) {
    (&job == own_ ? against_ : own_)->stop();
  }
  if (reference == nullptr) return job.make_ready(plain(configuration), process, nullptr);
  const Configuration compared_with = plain(*reference);
  return job.make_ready(plain(configuration), process, &compared_with);
}

bool GuardBackend::share_process(const Configuration& one, const Configuration& other) const {
  return against_ == nullptr && own_->share_process(plain(one), plain(other));
}

Result<Block> GuardBackend::run_block(const Configuration& configuration,
                                      const tuner::BlockRequest& request) {
  tuner::BlockRequest asked = request;
  Configuration reference;
  if (request.reference != nullptr) {
    reference = plain(*request.reference);
    asked.reference = &reference;
  }
  return working(configuration).run_block(plain(configuration), asked);
}

}  // namespace autotuned::daemon
