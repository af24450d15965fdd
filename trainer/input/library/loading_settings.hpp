// SPDX-License-Identifier: Apache-2.0
// What a loader is told in one text: data and transforms as in a recipe, and how to load them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

struct LoadingSettings {
  std::string data_type;
  Json data = Json::object();  // its parameters
  std::vector<Transform> transforms;
  bool is_shuffled = true;
  bool drop_last = false;
  std::int64_t batch_size = 1;
  std::int64_t workers = 0;
  std::int64_t prefetch_factor = 2;
  std::uint64_t seed = 1;
  Share share;
  std::int64_t cache_bytes = 0;
  std::int64_t index_bytes = 0;
  bool are_batches_given = false;  // by Loading::give()
};

// Reads JSON or YAML as autotuned_loader.h describes it. ErrorKind::invalid names all mistakes at once.
[[nodiscard]] Result<LoadingSettings> read_loading_settings(std::string_view text);

}  // namespace autotuned::input
