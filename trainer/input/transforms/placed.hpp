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
#include "trainer/input/transforms/pipeline_form.hpp"
#include "trainer/input/transforms/pixel_formula.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// One transform, where it runs.
struct Placed {
  const Transform* transform = nullptr;
  const TransformKind* kind = nullptr;
  std::size_t index = 0;   // in the recipe
  std::uint64_t seed = 0;  // of its draws
  // Of a cut: those in the recipe that mirror the picture and that it was moved ahead of.
  std::vector<std::size_t> mirrors = {};

  // Whether something random decides about what it gives.
  [[nodiscard]] bool draws() const { return kind->draws != Draws::none || !mirrors.empty(); }
};

// As they are written. ErrorKind::unsupported: one is not known. `transforms` must outlive the result.
[[nodiscard]] Result<std::vector<Placed>> placed_as_written(std::span<const Transform> transforms,
                                                            std::uint64_t seed);

// Moves every cut ahead of what lets it pass. Whether there was any such.
bool move_cuts_first(std::vector<Placed>& placed);

// Whether a stage there may make just what a cut behind it leaves.
[[nodiscard]] bool is_cut_of_part(const std::vector<Placed>& placed, std::size_t at);

// Where a resize stands to which all pixels come that are decoded, or all of a cut out of them.
[[nodiscard]] std::optional<std::size_t> resize_of_decoded(const std::vector<Placed>& placed);

// Where those begin that end at `end` and all have the property.
[[nodiscard]] std::size_t first_of_run(const std::vector<Placed>& placed, std::size_t end,
                                       bool TransformKind::*property);

// How many come before the first that draws.
[[nodiscard]] std::size_t steady_prefix(const std::vector<Placed>& placed);

[[nodiscard]] std::string names_of(const std::vector<Placed>& placed, std::size_t first,
                                   std::size_t end);

struct Made {
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<SampleType> types;  // before each, and behind the last
  std::string makes_floats;       // the transform that does
  bool dilates = false;
};

// ErrorKind::invalid or unsupported, named by the transform's place in the recipe.
[[nodiscard]] Result<Made> make_stages(const SampleType& stored, const std::vector<Placed>& placed,
                                       const PipelineForm& form);

// Where the table begins that ends them: the longest point-wise run at the end, if bytes come to it.
[[nodiscard]] std::optional<std::size_t> table_begin(const std::vector<Placed>& placed,
                                                     const Made& made);

// Where bytes become floats, if all from there on is arithmetic, which it then gives; the end otherwise.
[[nodiscard]] std::size_t device_begin(const std::vector<Placed>& placed, const Made& made,
                                       std::vector<PixelFormula>& formulas);

}  // namespace autotuned::input
