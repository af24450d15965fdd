// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/loader/stand_in.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autotuned::input {
namespace {

// A data set of which every sample is one of a few that lie in memory.
class FewSamples final : public Dataset {
 public:
  FewSamples(const Dataset& dataset, std::vector<std::int64_t> indices,
             std::vector<std::vector<std::uint8_t>> bytes)
      : dataset_(dataset), indices_(std::move(indices)), bytes_(std::move(bytes)) {}

  [[nodiscard]] std::int64_t size() const override { return dataset_.size(); }
  [[nodiscard]] SampleType type() const override { return dataset_.type(); }
  [[nodiscard]] int classes() const override { return dataset_.classes(); }
  [[nodiscard]] TargetType target() const override { return dataset_.target(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override {
    return dataset_.label(original(index));
  }
  void read_target(std::int64_t index, std::span<float> out) const override {
    dataset_.read_target(original(index), out);
  }
  [[nodiscard]] Result<SampleShape> read_mask(std::int64_t index, MaskRoom& room) const override {
    return dataset_.read_mask(original(index), room);
  }
  [[nodiscard]] std::span<const std::uint8_t> view(std::int64_t index) const override {
    return bytes_[place(index)];
  }
  [[nodiscard]] Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    std::ranges::copy(view(index), out.begin());
    return {};
  }
  [[nodiscard]] std::int64_t stored_index(std::int64_t index) const override {
    return dataset_.stored_index(original(index));
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return dataset_.name(original(index));
  }
  [[nodiscard]] Damage* damage() const override { return dataset_.damage(); }

 private:
  [[nodiscard]] std::size_t place(std::int64_t index) const {
    return static_cast<std::size_t>(index) % indices_.size();
  }
  [[nodiscard]] std::int64_t original(std::int64_t index) const { return indices_[place(index)]; }

  const Dataset& dataset_;
  std::vector<std::int64_t> indices_;
  std::vector<std::vector<std::uint8_t>> bytes_;
};

class StoredSamples final : public StandIn {
 public:
  StoredSamples(std::unique_ptr<const FewSamples> samples, const Pipeline& pipeline)
      : samples_(std::move(samples)), writer_(*samples_, pipeline) {}

  [[nodiscard]] Result<void> write(const BatchRing::Chunk& chunk, PixelType type,
                                   SampleWriter::Scratch& scratch) const override {
    return writer_.write(chunk, type, scratch);
  }
  [[nodiscard]] bool makes_whole_batches() const override { return false; }

 private:
  std::unique_ptr<const FewSamples> samples_;
  SampleWriter writer_;
};

class MadeSamples final : public StandIn {
 public:
  MadeSamples(const BatchBuffer& batch, std::int64_t samples, std::size_t sample_bytes,
              TargetSize target)
      : sample_bytes_(sample_bytes),
        target_(target),
        kept_(std::min(static_cast<std::size_t>(samples),
                       std::max<std::size_t>(1, kMaxBytes / sample_bytes))) {
    const auto* const images = static_cast<const std::uint8_t*>(batch.images);
    images_.assign(images, images + kept_ * sample_bytes);
    if (target.floats > 0) {
      values_.assign(batch.values, batch.values + kept_ * target.floats);
    } else if (target.mask_bytes > 0) {
      masks_.assign(batch.masks, batch.masks + kept_ * target.mask_bytes);
    } else {
      labels_.assign(batch.labels, batch.labels + kept_);
    }
  }

  [[nodiscard]] Result<void> write(const BatchRing::Chunk& chunk, PixelType /*type*/,
                                   SampleWriter::Scratch& /*scratch*/) const override {
    auto* const images = static_cast<std::uint8_t*>(chunk.buffer.images);
    for (std::size_t i = 0; i < chunk.indices.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(chunk.begin) + i;
      const std::size_t kept = at % kept_;
      std::memcpy(images + at * sample_bytes_, images_.data() + kept * sample_bytes_,
                  sample_bytes_);
      if (target_.floats > 0) {
        std::memcpy(chunk.buffer.values + at * target_.floats,
                    values_.data() + kept * target_.floats, target_.floats * sizeof(float));
      } else if (target_.mask_bytes > 0) {
        std::memcpy(chunk.buffer.masks + at * target_.mask_bytes,
                    masks_.data() + kept * target_.mask_bytes, target_.mask_bytes);
      } else {
        chunk.buffer.labels[at] = labels_[kept];
      }
    }
    return {};
  }
  [[nodiscard]] bool makes_whole_batches() const override { return true; }

 private:
  std::size_t sample_bytes_;
  TargetSize target_;
  std::size_t kept_;  // samples
  std::vector<std::uint8_t> images_;
  std::vector<std::int64_t> labels_;  // of classes
  std::vector<float> values_;         // of numbers and tags
  std::vector<std::uint8_t> masks_;   // of class masks
};

Result<std::vector<std::uint8_t>> read_sample(const Dataset& dataset, std::int64_t index) {
  std::vector<std::uint8_t> bytes;
  const SampleType type = dataset.type();
  if (type.element == Element::encoded) {
    if (auto read = dataset.read_encoded(index, bytes); !read) return tl::unexpected(read.error());
    return bytes;
  }
  bytes.resize(static_cast<std::size_t>(type.shape().elements()) * bytes_of(type.element));
  if (auto read = dataset.read(index, bytes); !read) return tl::unexpected(read.error());
  return bytes;
}

}  // namespace

Result<std::unique_ptr<const StandIn>> stored_samples(const Dataset& dataset,
                                                      const Pipeline& pipeline, EpochOrder& order,
                                                      Position from, std::int64_t most_samples) {
  auto indices = order.of_epoch(from.epoch).subspan(static_cast<std::size_t>(from.sample));
  if (indices.empty()) indices = order.of_epoch(from.epoch + 1);
  indices = indices.first(std::min(indices.size(), static_cast<std::size_t>(most_samples)));
  std::vector<std::int64_t> kept;
  std::vector<std::vector<std::uint8_t>> all;
  std::optional<Error> first_error;
  std::size_t bytes = 0;
  for (const std::uint32_t index : indices) {
    auto sample = read_sample(dataset, index);
    if (!sample) {
      if (!first_error) first_error = sample.error();
      continue;
    }
    bytes += sample->size();
    kept.push_back(index);
    all.push_back(std::move(*sample));
    if (bytes > StandIn::kMaxBytes) break;
  }
  if (kept.empty()) return tl::unexpected(*first_error);
  return std::make_unique<StoredSamples>(
      std::make_unique<FewSamples>(dataset, std::move(kept), std::move(all)), pipeline);
}

std::unique_ptr<const StandIn> made_samples(const BatchBuffer& batch, std::int64_t samples,
                                            std::size_t sample_bytes, TargetSize target) {
  assert(samples >= 1);
  return std::make_unique<MadeSamples>(batch, samples, sample_bytes, target);
}

}  // namespace autotuned::input
