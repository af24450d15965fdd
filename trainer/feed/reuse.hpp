// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder (docs/metrics.md): the data that a block reuses from step to step instead of loading them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace autotuned::trainer {

enum class Reuse : std::uint8_t {
  nothing,
  raw_bytes,     // samples as they are stored, in memory
  made_samples,  // samples as batches hold them
  host_batch,    // a batch that is ready on the host
  device_batch,  // a batch that is on the device
};

// The rung by its name in the trainer protocol; "" is Reuse::nothing.
[[nodiscard]] constexpr std::optional<Reuse> reuse_from(std::string_view name) {
  constexpr std::array kNames = {
      std::pair{"", Reuse::nothing}, std::pair{"raw_bytes", Reuse::raw_bytes},
      std::pair{"made_samples", Reuse::made_samples}, std::pair{"host_batch", Reuse::host_batch},
      std::pair{"device_batch", Reuse::device_batch}};
  for (const auto& [known, reuse] : kNames) {
    if (name == known) return reuse;
  }
  return std::nullopt;
}

}  // namespace autotuned::trainer
