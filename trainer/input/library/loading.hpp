// SPDX-License-Identifier: Apache-2.0
// A data set, its transforms and a loader over them, whose batches the caller takes over. Behind autotuned_loader.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/library/block_pool.hpp"
#include "trainer/input/library/loading_settings.hpp"
#include "trainer/input/loader/loader.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace autotuned::input {

// One thread at a time.
class Loading {
 public:
  // ErrorKind::unsupported: tokens. Other errors are those of read_loading_settings(), open_dataset(),
  // Pipeline::compile() and Loader::create().
  [[nodiscard]] static Result<std::unique_ptr<Loading>> open(std::string_view settings);
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() = default;

  // As autotuned_loader.h says.
  [[nodiscard]] std::string description() const;

  // ErrorKind::invalid: there is no such position.
  [[nodiscard]] Result<void> start(Position position);

  // ErrorKind::unsupported: batches are not given. ErrorKind::invalid: no samples or too many, or one that is not there.
  [[nodiscard]] Result<void> give(Position position, std::span<const std::uint32_t> indices);

  // Memory of a batch; its blocks go back to image_blocks() and target_blocks().
  struct Taken {
    std::int64_t samples = 0;
    Block images;
    Block targets;
  };
  // Errors as Loader::next(), ErrorKind::out_of_memory, after which the same batch comes next, and ErrorKind::invalid: all
  // batches that were given have been taken.
  [[nodiscard]] Result<Taken> next();

  [[nodiscard]] SampleShape shape() const { return pipeline_.shape(); }
  [[nodiscard]] PixelType pixel_type() const { return pixel_type_; }
  [[nodiscard]] TargetType target() const { return data_->target(); }
  [[nodiscard]] const std::shared_ptr<BlockPool>& image_blocks() const { return image_blocks_; }
  [[nodiscard]] const std::shared_ptr<BlockPool>& target_blocks() const { return target_blocks_; }

 private:
  struct Slot {
    Block images;
    Block targets;
  };

  explicit Loading(LoadingSettings settings) : settings_(std::move(settings)) {}
  [[nodiscard]] Result<void> open_data();
  [[nodiscard]] Result<void> make_kept();
  [[nodiscard]] Result<void> make_loader();
  [[nodiscard]] Result<Slot> take_slot();
  [[nodiscard]] BatchBuffer buffer_of(const Slot& slot) const;
  [[nodiscard]] bool is_epoch_over_at(std::int64_t sample) const;
  [[nodiscard]] std::int64_t batches() const;

  LoadingSettings settings_;
  std::unique_ptr<const Dataset> data_;
  Pipeline pipeline_;
  PixelType pixel_type_ = PixelType::float32;
  std::int64_t samples_ = 0;  // of an epoch
  std::unique_ptr<SampleCache> cache_;
  std::unique_ptr<JpegIndex> index_;
  std::shared_ptr<BlockPool> image_blocks_;
  std::shared_ptr<BlockPool> target_blocks_;
  std::vector<Slot> slots_;
  bool has_failed_ = false;         // until it is started again
  std::int64_t given_ = 0;          // batches, and not taken
  std::unique_ptr<Loader> loader_;  // last: its threads use all of these
};

}  // namespace autotuned::input
