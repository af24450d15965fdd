// SPDX-License-Identifier: Apache-2.0
// The transforms of a recipe, checked against each other and against the data, ready to run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/epoch_order.hpp"
#include "trainer/input/pixel_table.hpp"
#include "trainer/input/transform.hpp"

namespace autotuned::input {

// Stages that run one after the other. The longest point-wise tail on bytes is not among them: it is a
// table, so that bytes can also travel to the device and become numbers there, with the same bits.
//
// A stage that draws random numbers has a stream for every sample, which depends on the seed, the
// sample's place in the sequence, the transform's name, and how many of that name stand before it.
// So the numbers are the same whatever the workers or the batch size, and wherever it is moved to.
//
// Const: any number of threads at once, each with a scratch of its own.
class Pipeline {
 public:
  // Without stages or table: a sample is what is stored. Useless but as a place to move one to.
  Pipeline() = default;

  // ErrorKind::invalid or unsupported says which transform cannot stand where it stands, or cannot do
  // what it is asked for, and what to do.
  [[nodiscard]] static Result<Pipeline> compile(const SampleType& stored,
                                                std::span<const Transform> transforms,
                                                std::uint64_t seed);

  [[nodiscard]] const SampleType& stored() const { return stored_; }
  // Of what the model sees.
  [[nodiscard]] SampleShape shape() const { return shape_; }
  // Null when numbers leave the last stage.
  [[nodiscard]] const PixelTable* table() const { return table_ ? &*table_ : nullptr; }
  // Without a table: why there is none, for people.
  [[nodiscard]] const std::string& why_no_table() const { return why_no_table_; }
  [[nodiscard]] bool has_stages() const { return !steps_.empty(); }

  struct Scratch {
    std::vector<std::uint8_t> stored;  // of the caller, for what it reads
    std::array<SampleRoom, 2> rooms;
    std::vector<std::unique_ptr<StageMemory>> memories;
  };
  [[nodiscard]] Scratch make_scratch() const;

  // Writes shape().elements() bytes or floats to `out`. Errors lack `where` where a sample is at fault.
  // REQUIRES: for PixelType::uint8 a table.
  [[nodiscard]] Result<void> run(const Sample& sample, Position position, PixelType type, void* out,
                                 Scratch& scratch) const;

 private:
  struct Step {
    std::unique_ptr<const Stage> stage;
    std::uint64_t seed = 0;  // of its draws
  };

  SampleType stored_;
  SampleShape shape_;
  std::vector<Step> steps_;
  std::optional<PixelTable> table_;
  std::string why_no_table_;
};

}  // namespace autotuned::input
