// SPDX-License-Identifier: Apache-2.0
// One step on the way of a sample: what a transform says about itself, and what it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/random.hpp"
#include "trainer/input/sample.hpp"

namespace autotuned::input {

// A per-sample transform as the recipe names it.
struct Transform {
  std::string type;
  Json parameters = Json::object();
};

// Where a stage writes: memory of its own that grows, or a place in a batch.
class SampleRoom {
 public:
  // The next take() gives `memory`, or its own if null.
  void lend(void* memory) { lent_ = memory; }
  // Room for a sample. REQUIRES: what was lent is as large.
  [[nodiscard]] std::uint8_t* take(std::size_t bytes) {
    if (lent_ != nullptr) return static_cast<std::uint8_t*>(lent_);
    if (own_.size() < bytes) own_.resize(bytes);
    return own_.data();
  }
  // The same as a sample of this shape, not yet written.
  [[nodiscard]] Sample take(Element element, SampleShape shape, std::uint8_t*& bytes) {
    const std::size_t size = static_cast<std::size_t>(shape.elements()) * bytes_of(element);
    bytes = take(size);
    return {element, shape, {bytes, size}};
  }

 private:
  void* lent_ = nullptr;
  std::vector<std::uint8_t> own_;
};

// What a thread keeps for a stage between samples.
class StageMemory {
 public:
  StageMemory() = default;
  StageMemory(const StageMemory&) = delete;
  StageMemory& operator=(const StageMemory&) = delete;
  virtual ~StageMemory() = default;
};

// A transform that has been given its parameters and the type of what it gets. Const: any number of
// threads at once, each with a memory of its own.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  [[nodiscard]] virtual SampleType output() const = 0;

  // Null when it needs none.
  [[nodiscard]] virtual std::unique_ptr<StageMemory> make_memory() const { return nullptr; }

  // Gives what it wrote to `room`. `draws` is the stream of this stage for this sample. Errors need not
  // say where: the caller knows the sample.
  [[nodiscard]] virtual Result<Sample> apply(const Sample& sample, const RandomStream& draws,
                                             StageMemory* memory, SampleRoom& room) const = 0;
};

// What a transform is, whatever its parameters. Where it may stand follows from this.
struct TransformKind {
  std::string_view name;
  // What it takes; a refusal says why not in its own words.
  bool takes_encoded = false;
  bool takes_uint8 = true;
  bool takes_float32 = true;
  bool is_point_wise = false;  // every number depends on its own byte or number and channel alone
  bool draws = false;          // random numbers
  // ErrorKind::invalid or unsupported, named by the parameter.
  Result<std::unique_ptr<Stage>> (*make)(const Transform& transform,
                                         const SampleType& input) = nullptr;
};

// Null for a name that is not known.
[[nodiscard]] const TransformKind* find_transform(std::string_view name);
[[nodiscard]] std::string transform_names();  // "a, b, c"

}  // namespace autotuned::input
