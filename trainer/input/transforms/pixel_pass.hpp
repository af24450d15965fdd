// SPDX-License-Identifier: Apache-2.0
// Successive pixel-wise stages that run together: over one sample a few rows at a time, so that values between stages
// stay in the nearest cache, or one after the other over a whole batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// Does the arithmetic of its stages in their order: the same bits as one stage after the other. Const: any number of
// threads at once, each with a scratch of its own.
class PixelPass {
 public:
  // REQUIRES: a PixelStage whose input is the output of the stage before.
  void append(std::unique_ptr<const Stage> stage, std::uint64_t draws_seed);
  [[nodiscard]] std::size_t size() const { return steps_.size(); }

  struct Scratch {
    std::vector<std::unique_ptr<StageMemory>> memories;
    std::array<std::vector<float>, 2> rows;  // between two stages
  };
  [[nodiscard]] Scratch make_scratch() const;

  // Runs the first `stages` over one sample. `place` is the position of its draws.
  // REQUIRES: 1 <= stages <= size(); `out` does not overlap the sample.
  void run(const Sample& sample, std::uint64_t place, std::size_t stages, void* out,
           Scratch& scratch) const;

  // Samples of one shape, one after the other, in writable memory.
  struct Assembled {
    Element element = Element::uint8;
    SampleShape shape;
    void* bytes = nullptr;
    std::int64_t samples = 0;
    std::uint64_t first_place = 0;  // of the first sample; the others follow
  };
  // The same for a batch, each stage over all samples before the next one begins.
  void run_over_batch(const Assembled& batch, std::size_t stages, void* out,
                      Scratch& scratch) const;

 private:
  struct Step {
    std::unique_ptr<const Stage> stage;
    std::uint64_t seed = 0;  // of its draws
  };
  struct Planes {  // a picture's channels, one after the other
    Element element = Element::uint8;
    void* data = nullptr;
  };

  [[nodiscard]] const PixelStage& stage(std::size_t i) const {
    return static_cast<const PixelStage&>(*steps_[i].stage);
  }
  [[nodiscard]] Element output_of(std::size_t i) const { return stage(i).output().element; }
  // Stages from `first` to before `last` over one picture. REQUIRES: its draws are made.
  void run_stages(std::size_t first, std::size_t last, const SampleShape& shape, Planes from,
                  void* to, Scratch& scratch) const;

  std::vector<Step> steps_;
};

}  // namespace autotuned::input
