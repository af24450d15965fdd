// SPDX-License-Identifier: Apache-2.0
#include "trainer/feed/feed_size.hpp"

#include <bit>
#include <string>

#include "base/text.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::int64_t kPinnedShare = 4;  // of the memory, one part in so many

std::int64_t image_bytes(const FeedSettings& settings, const input::Pipeline& first) {
  return first.shape().elements() *
         (sends_bytes(settings, first) ? std::int64_t{1} : std::int64_t{sizeof(float)});
}

std::int64_t bytes_of(const input::TargetType& target, const input::Pipeline& first) {
  return static_cast<std::int64_t>(target.bytes(first.shape()));
}

std::int64_t rounded_up(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

}  // namespace

int host_batches(const FeedSettings& settings, bool is_on_gpu) {
  const int held = is_on_gpu && settings.non_blocking ? 2 : 1;
  return settings.workers * settings.prefetch_batches + held;
}

const input::Pipeline& pipeline_of(const FeedSettings& settings, const input::Pipeline& first) {
  return settings.pipeline != nullptr ? *settings.pipeline : first;
}

bool sends_bytes(const FeedSettings& settings, const input::Pipeline& first) {
  return settings.is_uint8 || !pipeline_of(settings, first).device_formulas().empty();
}

std::int64_t sample_bytes(const FeedSettings& settings, const input::Pipeline& first,
                          const input::TargetType& target) {
  return image_bytes(settings, first) + bytes_of(target, first);
}

PinnedBlocks pinned_blocks(const FeedSettings& settings, const input::Pipeline& first,
                           bool is_on_gpu, const input::TargetType& target) {
  if (!settings.pin_memory || !is_on_gpu) return {};
  return {.batches = host_batches(settings, is_on_gpu),
          .image_bytes = rounded_up(settings.batch_size * image_bytes(settings, first)),
          .target_bytes = rounded_up(settings.batch_size * bytes_of(target, first))};
}

std::int64_t most_pinned_bytes(const FeedSettings& settings) {
  return settings.memory_allowed_bytes / kPinnedShare;
}

Result<void> check_pinned_bytes(const FeedSettings& settings, const input::Pipeline& first,
                                bool is_on_gpu, const input::TargetType& target) {
  const std::int64_t bytes = pinned_blocks(settings, first, is_on_gpu, target).bytes();
  const std::int64_t most = most_pinned_bytes(settings);
  if (settings.memory_allowed_bytes == 0 || bytes <= most) return {};
  return fail(ErrorKind::out_of_memory,
              std::to_string(host_batches(settings, is_on_gpu)) + " batches would page-lock " +
                  format_bytes(bytes) + ", and a quarter of the memory, " + format_bytes(most) +
                  ", is the most",
              "loader.pin_memory",
              "use fewer workers, a shorter prefetch, a smaller batch or transfer.dtype: uint8");
}

}  // namespace autotuned::trainer
