// SPDX-License-Identifier: Apache-2.0
// Writes event files of TensorBoard: TFRecord records, each a protobuf message Event.
//
// Only four kinds of messages with few fields are written. They are encoded here and not by protobuf's library, which this
// program would need for nothing else (docs/architecture.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/logs/log_points.hpp"

namespace autotuned::daemon {

// "events.out.tfevents.1700000000.autotuned": TensorBoard looks for `tfevents`, and sorts by the second of the first event.
[[nodiscard]] std::string event_file_name(std::int64_t unix_ns);

// The bytes of a file with these points as scalars, in their order. A value is a float there.
[[nodiscard]] std::string event_file_of(const std::vector<LogPoint>& points, std::int64_t unix_ns);

// The checksum of TFRecord: CRC-32C, turned by 15 bits, plus a constant.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace autotuned::daemon
