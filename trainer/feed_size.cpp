// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed_size.hpp"

#include <bit>
#include <string>

#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kPinnedShare = 4;  // of the memory, one part in so many

std::int64_t rounded_up(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

}  // namespace

int host_batches(const FeedSettings& settings, bool is_on_gpu) {
  const int held = is_on_gpu && settings.non_blocking ? 2 : 1;
  return settings.workers * settings.prefetch_batches + held;
}

bool sends_bytes(const FeedSettings& settings) {
  return settings.is_uint8 ||
         (settings.pipeline != nullptr && !settings.pipeline->device_formulas().empty());
}

std::int64_t pinned_bytes(const FeedSettings& settings, input::SampleShape shape, bool is_on_gpu) {
  if (!settings.pin_memory || !is_on_gpu) return 0;
  const std::int64_t image_bytes =
      shape.elements() * (sends_bytes(settings) ? std::int64_t{1} : std::int64_t{sizeof(float)});
  const std::int64_t label_bytes = sizeof(std::int64_t);
  return host_batches(settings, is_on_gpu) * (rounded_up(settings.batch_size * image_bytes) +
                                              rounded_up(settings.batch_size * label_bytes));
}

Result<void> check_pinned_bytes(const FeedSettings& settings, input::SampleShape shape,
                                bool is_on_gpu) {
  const std::int64_t bytes = pinned_bytes(settings, shape, is_on_gpu);
  const std::int64_t most = settings.memory_allowed_bytes / kPinnedShare;
  if (settings.memory_allowed_bytes == 0 || bytes <= most) return {};
  return fail(ErrorKind::out_of_memory,
              std::to_string(host_batches(settings, is_on_gpu)) + " batches would page-lock " +
                  format_bytes(bytes) + ", and a quarter of the memory, " + format_bytes(most) +
                  ", is the most",
              "loader.pin_memory",
              "use fewer workers, a shorter prefetch, a smaller batch or transfer.dtype: uint8");
}

}  // namespace autotuned::trainer
