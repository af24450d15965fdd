// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_reports.hpp"

#include <utility>

namespace autotuned::daemon {

TrainerReports::TrainerReports(std::function<void(const Json&)> on_damage,
                               std::function<void(const std::string&)> on_warning)
    : on_damage_(std::move(on_damage)), on_warning_(std::move(on_warning)) {}

void TrainerReports::take(const Json& progress) {
  if (const auto warning = get_string(progress, "warning"); warning && on_warning_) {
    if (warnings_.insert(*warning).second) on_warning_(*warning);
  }
  Json damaged = member(progress, "damaged");
  if (!damaged.is_object() || !on_damage_) return;
  if (!damaged_files_.insert(get_string(damaged, "file").value_or("?")).second) return;
  damaged["files"] = damaged_files_.size();
  on_damage_(damaged);
}

}  // namespace autotuned::daemon
