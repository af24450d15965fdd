// SPDX-License-Identifier: Apache-2.0
#include "trainer/common/precision.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/zeros.h>

namespace autotuned::trainer {
namespace {

constexpr double kInitialScale = 65536.0;
constexpr double kGrowthFactor = 2.0;
constexpr double kBackoffFactor = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

}  // namespace

AutocastGuard::AutocastGuard(at::DeviceType device, std::optional<at::ScalarType> type,
                             bool has_cache)
    : device_(device),
      is_active_(type.has_value()),
      was_enabled_(at::autocast::is_autocast_enabled(device)) {
  if (!is_active_) {
    if (was_enabled_) at::autocast::set_autocast_enabled(device_, false);
    return;
  }
  previous_type_ = at::autocast::get_autocast_dtype(device_);
  had_cache_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_cache_enabled(had_cache_ && has_cache);
  at::autocast::set_autocast_dtype(device_, *type);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!is_active_) {
    if (was_enabled_) at::autocast::set_autocast_enabled(device_, true);
    return;
  }
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(had_cache_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_type_);
}

AutocastPause::AutocastPause(at::DeviceType device)
    : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
  at::autocast::set_autocast_enabled(device_, false);
}

AutocastPause::~AutocastPause() {
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

LossScaler::LossScaler(at::Device device)
    : scale_(at::full({}, kInitialScale, at::device(device).dtype(at::kFloat))),
      growth_(at::zeros({}, at::device(device).dtype(at::kInt))) {}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return loss * scale_;
}

bool LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  return unscale_on_device(gradients).item<float>() == 0.0F;
}

at::Tensor LossScaler::unscale_on_device(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  at::Tensor found = at::zeros({}, scale_.options());
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, scale_.reciprocal());
  at::_amp_update_scale_(scale_, growth_, found, kGrowthFactor, kBackoffFactor, kGrowthInterval);
  return found;
}

}  // namespace autotuned::trainer
