// SPDX-License-Identifier: Apache-2.0
// The transforms of a recipe in the order in which they run, and their stages. Part of pipeline.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/pixels/pixel_formula.hpp"
#include "trainer/input/transforms/pipeline_form.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// A transform of the recipe at its position in the pipeline.
struct PlannedTransform {
  const Transform* transform = nullptr;
  const TransformKind* kind = nullptr;
  std::size_t index = 0;   // in the recipe
  std::uint64_t seed = 0;  // of its draws
  // For a cut: the recipe's indices of the mirroring transforms that it was moved ahead of.
  std::vector<std::size_t> mirrors = {};

  // Whether its output depends on random draws.
  [[nodiscard]] bool draws() const { return kind->draws != Draws::none || !mirrors.empty(); }
};

// The transforms in the recipe's order. ErrorKind::unsupported: an unknown transform. `transforms` must outlive
// the result.
[[nodiscard]] Result<std::vector<PlannedTransform>> planned_as_written(
    std::span<const Transform> transforms, std::uint64_t seed);

// Moves every cut ahead of the transforms that permit it. True if a cut was moved.
bool move_cuts_first(std::vector<PlannedTransform>& planned);

// Whether the stage at `at` can make only the part that the following cut keeps.
[[nodiscard]] bool is_cut_of_part(const std::vector<PlannedTransform>& planned, std::size_t at);

// The index of a resize whose input is the decoded picture, or a cut of it.
[[nodiscard]] std::optional<std::size_t> resize_of_decoded(
    const std::vector<PlannedTransform>& planned);

// The begin of the longest run before `end` in which all transforms have the property.
[[nodiscard]] std::size_t first_of_run(const std::vector<PlannedTransform>& planned,
                                       std::size_t end, bool TransformKind::*property);

// The number of transforms before the first random one.
[[nodiscard]] std::size_t steady_prefix(const std::vector<PlannedTransform>& planned);

[[nodiscard]] std::string names_of(const std::vector<PlannedTransform>& planned, std::size_t first,
                                   std::size_t end);

// The stages of a pipeline, with the types of samples between them.
struct BuiltStages {
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<SampleType> types;  // before each stage, and after the last
  std::string makes_floats;       // the transform that makes floats; empty: none
  bool dilates = false;
};

// ErrorKind::invalid or unsupported, named by the transform's place in the recipe.
[[nodiscard]] Result<BuiltStages> make_stages(const SampleType& stored,
                                              const std::vector<PlannedTransform>& planned,
                                              const PipelineForm& form);

// A stage that transforms a class mask.
struct MaskStage {
  std::unique_ptr<Stage> stage;
  std::uint64_t seed = 0;  // of its draws, which are those of the picture
};

// The stages that move class masks as the transforms move their pictures. REQUIRES: make_stages() accepts the
// transforms, which are in the recipe's order. ErrorKind::unsupported: masks cannot follow a transform.
[[nodiscard]] Result<std::vector<MaskStage>> make_mask_stages(
    const SampleType& stored, const std::vector<PlannedTransform>& planned);

// The begin of the longest point-wise run at the end, if its input is bytes: one table can replace it.
[[nodiscard]] std::optional<std::size_t> table_begin(const std::vector<PlannedTransform>& planned,
                                                     const BuiltStages& built);

// The index from which the device can go on: the transform that converts bytes to floats, if it and all that follow
// are arithmetic on single pixels, which `formulas` then holds. Otherwise the number of transforms.
[[nodiscard]] std::size_t device_begin(const std::vector<PlannedTransform>& planned,
                                       const BuiltStages& built,
                                       std::vector<PixelFormula>& formulas);

}  // namespace autotuned::input
