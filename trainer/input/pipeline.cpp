// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/pipeline.hpp"

#include <cassert>
#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace autotuned::input {
namespace {

// Why a transform cannot take what stands before it, and what to do; nothing when it can.
std::optional<Error> misplaced(const TransformKind& kind, const SampleType& input,
                               std::string_view before) {
  const auto refuse = [](std::string what, std::string remedy) {
    return Error{ErrorKind::unsupported, std::move(what), {}, std::move(remedy)};
  };
  const std::string name(kind.name);
  switch (input.element) {
    case Element::encoded:
      if (kind.takes_encoded) return std::nullopt;
      return refuse("needs decoded pixels", "put decode_jpeg before it");
    case Element::uint8:
      if (kind.takes_uint8) return std::nullopt;
      return refuse("the pixels are decoded already", "leave " + name + " out");
    case Element::float32:
      break;
  }
  if (kind.takes_float32) return std::nullopt;
  if (kind.is_point_wise) return refuse("the values are floats already", "use scale");
  if (before.empty()) return refuse("is not for data of floats", "leave " + name + " out");
  return refuse(name + " after " + std::string(before) + " is not supported: it takes bytes",
                "put " + name + " before " + std::string(before));
}

// FNV-1a, to tell the streams of transforms apart by their names.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return hash;
}

std::uint64_t place_of(Position position) {
  return (static_cast<std::uint64_t>(position.epoch) << 32U) |
         static_cast<std::uint64_t>(position.sample);
}

Error at_transform(Error error, std::size_t index, const std::string& type) {
  error.where = "input[" + std::to_string(index) + "]." + type;
  return error;
}

Result<void> check_end(const SampleType& end) {
  if (end.element == Element::encoded) {
    return fail(ErrorKind::invalid, "the samples are picture files", "input",
                "put decode_jpeg first");
  }
  if (!end.has_one_shape()) {
    return fail(ErrorKind::invalid,
                "pictures of different sizes (" + end.text() + ") cannot stand in one batch",
                "input", "add resize, random_crop or center_crop");
  }
  return {};
}

}  // namespace

Result<Pipeline> Pipeline::compile(const SampleType& stored, std::span<const Transform> transforms,
                                   std::uint64_t seed) {
  Pipeline pipeline;
  pipeline.stored_ = stored;
  SampleType type = stored;
  std::string_view makes_floats;  // the transform that does
  std::size_t first_of_tail = 0;  // of the point-wise transforms at the end
  SampleType before_tail = stored;
  std::map<std::string_view, std::uint64_t> drawing;  // how many of a name
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    const Transform& transform = transforms[i];
    const TransformKind* const kind = find_transform(transform.type);
    if (kind == nullptr) {
      return fail(ErrorKind::unsupported, "the transform `" + transform.type + "` is not known",
                  "input[" + std::to_string(i) + "]", "known are " + transform_names());
    }
    if (auto error = misplaced(*kind, type, makes_floats)) {
      return tl::unexpected(at_transform(std::move(*error), i, transform.type));
    }
    auto stage = kind->make(transform, type);
    if (!stage) return tl::unexpected(at_transform(stage.error(), i, transform.type));
    const SampleType output = (*stage)->output();
    if (type.element != Element::float32 && output.element == Element::float32) {
      makes_floats = kind->name;
    }
    std::uint64_t draws_seed = 0;
    if (kind->draws) {
      const std::uint64_t ordinal = drawing[kind->name]++;
      draws_seed = mix64(seed + kGoldenGamma) + hash_of(kind->name) + ordinal;
    }
    type = output;
    pipeline.steps_.push_back({std::move(*stage), draws_seed});
    if (!kind->is_point_wise) {
      first_of_tail = i + 1;
      before_tail = type;
    }
  }
  if (auto checked = check_end(type); !checked) return tl::unexpected(checked.error());
  pipeline.shape_ = type.shape();
  if (before_tail.element == Element::float32) {
    pipeline.why_no_table_ = makes_floats.empty()
                                 ? "the data consists of floats"
                                 : "`" + std::string(makes_floats) +
                                       "` makes floats that do not come from one byte each";
    return pipeline;
  }
  auto table = make_pixel_table(transforms.subspan(first_of_tail), type.channels);
  if (!table) return tl::unexpected(table.error());
  pipeline.table_ = std::move(*table);
  pipeline.steps_.resize(first_of_tail);
  return pipeline;
}

Pipeline::Scratch Pipeline::make_scratch() const {
  Scratch scratch;
  for (const Step& step : steps_)
    scratch.memories.push_back(step.stage->make_memory());
  return scratch;
}

Result<void> Pipeline::run(const Sample& stored, Position position, PixelType type, void* out,
                           Scratch& scratch) const {
  assert(table_ || type == PixelType::float32);
  const bool is_table_last = table_ && type == PixelType::float32;
  Sample sample = stored;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    SampleRoom& room = scratch.rooms[i % 2];
    room.lend(i + 1 == steps_.size() && !is_table_last ? out : nullptr);
    const RandomStream draws(steps_[i].seed, place_of(position));
    auto made = steps_[i].stage->apply(sample, draws, scratch.memories[i].get(), room);
    if (!made) return tl::unexpected(std::move(made.error()));
    sample = *made;
  }
  if (is_table_last) {
    convert_sample(*table_, sample.bytes, static_cast<float*>(out));
  } else if (steps_.empty()) {
    std::memcpy(out, sample.bytes.data(), sample.bytes.size());
  }
  return {};
}

}  // namespace autotuned::input
