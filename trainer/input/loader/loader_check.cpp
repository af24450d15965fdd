// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/loader_check.hpp"

#include <new>
#include <string>
#include <utility>

namespace autotuned::input {

Result<void> check(const LoaderSettings& settings, std::int64_t dataset_size,
                   const Pipeline& pipeline) {
  const auto refuse = [](std::string what, std::string remedy) {
    return fail(ErrorKind::invalid, std::move(what), "loader", std::move(remedy));
  };
  if (settings.workers < 0) return refuse("the number of workers is negative", "use 0 or more");
  if (settings.batch_size < 1) return refuse("the batch size is below 1", "use 1 or more");
  if (settings.drop_last && settings.batch_size > dataset_size) {
    return refuse("a batch of " + std::to_string(settings.batch_size) +
                      " is never full: the data set has " + std::to_string(dataset_size) +
                      " samples, and short batches are dropped",
                  "use a smaller batch, or drop_last: false");
  }
  if (settings.ring.empty()) return refuse("the ring has no buffers", "give at least one");
  if (settings.pixel_type == PixelType::uint8 && pipeline.table() == nullptr) {
    return fail(ErrorKind::unsupported,
                "batches cannot be transferred as uint8: " + pipeline.why_no_table(),
                "transfer.dtype", "use float32");
  }
  return {};
}

Result<std::vector<std::vector<float>>> room_to_assemble(const LoaderSettings& settings,
                                                         const Pipeline& pipeline) {
  std::vector<std::vector<float>> assembled;
  if (!pipeline.has_batch_stages(settings.pixel_type)) return assembled;
  const std::size_t bytes =
      static_cast<std::size_t>(settings.batch_size) * pipeline.written_bytes(settings.pixel_type);
  try {
    for (std::size_t i = 0; i < settings.ring.size(); ++i)
      assembled.emplace_back((bytes + sizeof(float) - 1) / sizeof(float));
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::out_of_memory, "no memory to assemble batches", "loader",
                "use smaller batches, or input.point_ops: fused");
  }
  return assembled;
}

}  // namespace autotuned::input
