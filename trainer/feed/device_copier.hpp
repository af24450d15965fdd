// SPDX-License-Identifier: Apache-2.0
// Copies batches from the loader's slots to a device, by LibTorch's device-generic interface. Part of feed.cpp:
// includes LibTorch.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <optional>

#include "trainer/feed/device_flow.hpp"
#include "trainer/feed/feed_buffers.hpp"

namespace autotuned::trainer {

// The stream on which this process copies to that device beside its steps. It is the same for the life of the process:
// LibTorch hands out 32 streams in turn, and a new one could be the one on which steps are recorded. Called by the
// thread that trains.
[[nodiscard]] c10::Stream copy_stream(at::Device device);

class DeviceCopier final : public Copier {
 public:
  // `ring` outlives it and has at least one slot, whose targets have the type and shape of all. `sizes` and `type` are
  // those of the images of a whole batch.
  DeviceCopier(at::Device device, const HostSlot* ring, at::IntArrayRef sizes, at::ScalarType type,
               bool is_beside);

  void copy(const TakenBatch& batch) override;
  void copy_beside(const TakenBatch& batch) override;
  void let_copies_wait(int landing) override;
  void mark_copied(int landing) override;
  void let_steps_wait(int landing) override;
  void mark_used(int landing) override;
  void wait_for_copy(int landing) override;
  void wait_for_device() override;

  // The tensors of a batch that was copied to the device.
  [[nodiscard]] at::Tensor images(const TakenBatch& batch) const;
  [[nodiscard]] at::Tensor labels(const TakenBatch& batch) const;

 private:
  struct Landing {
    at::Tensor images;
    at::Tensor labels;
    std::optional<c10::Event> copied;  // only where copies run beside the steps
    std::optional<c10::Event> used;
  };

  [[nodiscard]] Landing& at(int landing) { return landings_[static_cast<std::size_t>(landing)]; }
  [[nodiscard]] c10::Stream steps() const;
  void copy(const TakenBatch& batch, bool is_asynchronous);

  at::Device device_;
  const HostSlot* ring_;
  std::array<Landing, DeviceFlow::kLandings> landings_;
  std::optional<c10::Stream> copies_;
};

}  // namespace autotuned::trainer
