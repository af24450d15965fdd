// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/batch_mix.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "trainer/input/common/random.hpp"

namespace autotuned::trainer {
namespace {

// Makes the draws independent of the order of samples and of their transforms.
constexpr std::uint64_t kMixSeed = 0x6d69786564U;

class Draws {
 public:
  Draws(std::uint64_t seed, input::Position first)
      : stream_(input::mix64(seed ^ kMixSeed) + static_cast<std::uint64_t>(first.epoch),
                static_cast<std::uint64_t>(first.sample)) {}

  std::uint64_t below(std::int64_t bound) {
    return input::below(next(), static_cast<std::uint64_t>(bound));
  }

  // Draws a sample's own share from Beta(alpha, alpha), as one of two gamma variates over their sum. Uses logarithms,
  // because a small alpha makes both variates 0.
  double share(double alpha) {
    const double own = log_gamma_variate(alpha);
    const double other = log_gamma_variate(alpha);
    return 1.0 / (1.0 + std::exp(other - own));
  }

 private:
  std::uint64_t next() { return stream_.at(count_++); }
  // Above 0 to 1.
  double uniform() { return (static_cast<double>(next() >> 11U) + 1.0) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

  // The logarithm of a variate of Gamma(alpha, 1): Marsaglia and Tsang 2000, with alpha + 1 below 1.
  double log_gamma_variate(double alpha) {
    if (alpha < 1.0) {
      const double of_next = log_gamma_variate(alpha + 1.0);
      return of_next + std::log(uniform()) / alpha;
    }
    const double d = alpha - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    while (true) {
      const double x = normal();
      const double root = 1.0 + c * x;
      if (root <= 0.0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
    }
  }

  input::RandomStream stream_;
  std::uint64_t count_ = 0;
};

// From `middle` - half to `middle` + half, within 0 to `size`.
std::pair<std::int64_t, std::int64_t> part_of(std::int64_t middle, double half_ratio,
                                              std::int64_t size) {
  const auto half = static_cast<std::int64_t>(half_ratio * static_cast<double>(size));
  const std::int64_t begin = std::max<std::int64_t>(middle - half, 0);
  return {begin, std::min(middle + half, size) - begin};
}

}  // namespace

Mixing draw_mixing(const MixRules& rules, std::uint64_t seed, input::Position first,
                   std::int64_t height, std::int64_t width) {
  Draws draws(seed, first);
  Mixing mixing;
  mixing.is_cut =
      rules.mixup_alpha && rules.cutmix_alpha ? draws.below(2) == 1 : !rules.mixup_alpha;
  const double share =
      draws.share(mixing.is_cut ? rules.cutmix_alpha.value_or(1.0) : *rules.mixup_alpha);
  mixing.own_share = share;
  if (!mixing.is_cut) return mixing;
  const double half_ratio = 0.5 * std::sqrt(1.0 - share);
  std::tie(mixing.top, mixing.height) =
      part_of(static_cast<std::int64_t>(draws.below(height)), half_ratio, height);
  std::tie(mixing.left, mixing.width) =
      part_of(static_cast<std::int64_t>(draws.below(width)), half_ratio, width);
  mixing.own_share =
      1.0 - static_cast<double>(mixing.height * mixing.width) / static_cast<double>(height * width);
  return mixing;
}

DeviceBatch mixed(const DeviceBatch& batch, const Mixing& mixing, std::int64_t classes) {
  const at::NoGradGuard no_grad;
  DeviceBatch result = batch;
  const at::Tensor& images = batch.images;
  if (!mixing.is_cut) {
    result.images = images.mul(mixing.own_share).add_(images.roll(1, 0), 1.0 - mixing.own_share);
  } else if (mixing.height > 0 && mixing.width > 0) {
    const auto part = [&mixing](const at::Tensor& of) {
      return of.narrow(2, mixing.top, mixing.height).narrow(3, mixing.left, mixing.width);
    };
    result.images = images.clone();
    part(result.images).copy_(part(images).roll(1, 0));
  }
  const at::Tensor own =
      at::zeros({batch.labels.size(0), classes}, batch.labels.options().dtype(at::kFloat))
          .scatter_(1, batch.labels.unsqueeze(1), 1.0);
  result.labels = own.mul(mixing.own_share).add_(own.roll(1, 0), 1.0 - mixing.own_share);
  return result;
}

}  // namespace autotuned::trainer
