// SPDX-License-Identifier: Apache-2.0
#include "bench/error_rates/exact_bounds.hpp"

#include <boost/math/distributions/beta.hpp>

namespace autotuned::bench {

Bounds exact_bounds(int events, int trials) {
  Bounds bounds;
  const double k = events;
  const double n = trials;
  if (events > 0) {
    bounds.low = boost::math::quantile(boost::math::beta_distribution<>(k, n - k + 1.0), 0.025);
  }
  if (events < trials) {
    bounds.high = boost::math::quantile(boost::math::beta_distribution<>(k + 1.0, n - k), 0.975);
  }
  return bounds;
}

}  // namespace autotuned::bench
