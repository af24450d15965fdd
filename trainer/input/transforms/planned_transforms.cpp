// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/planned_transforms.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "trainer/input/transforms/transform_types.hpp"

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
      return refuse("needs decoded pixels", "put decode before it");
    case Element::uint8:
      if (kind.takes_uint8) return std::nullopt;
      return refuse("the pixels are already decoded", "remove " + name + "");
    case Element::token:
      return refuse("is for pictures, and the samples are tokens", "remove " + name);
    case Element::float32:
      break;
  }
  if (kind.takes_float32) return std::nullopt;
  if (kind.is_point_wise) return refuse("the values are already floats", "use scale");
  if (before.empty()) return refuse("does not accept data of floats", "remove " + name + "");
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

Error at_transform(Error error, const PlannedTransform& one) {
  error.where = "input[" + std::to_string(one.index) + "]." + one.transform->type;
  return error;
}

// A cut that runs before a mirroring transform: it takes the pixels that it would take after it, at their positions
// before.
class MirroredCut final : public CutStage {
 public:
  struct Mirror {
    double probability = 0;
    std::uint64_t seed = 0;  // of its draws
  };

  MirroredCut(std::unique_ptr<Stage> cut, std::vector<Mirror> mirrors)
      : cut_(std::move(cut)), mirrors_(std::move(mirrors)) {}

  SampleType output() const override { return cut_->output(); }

  Result<Window> window(const SampleShape& from, const RandomStream& draws) const override {
    auto part = static_cast<const CutStage&>(*cut_).window(from, draws);
    if (!part) return part;
    bool is_mirrored = false;
    for (const Mirror& mirror : mirrors_) {
      if (is_mirroring(mirror.probability, draws.of_seed(mirror.seed))) is_mirrored = !is_mirrored;
    }
    if (is_mirrored) part->left = from.width - part->width - part->left;
    return part;
  }

 private:
  std::unique_ptr<Stage> cut_;
  std::vector<Mirror> mirrors_;
};

// The cut at `at`, with all that it was moved ahead of.
std::unique_ptr<Stage> mirrored(std::unique_ptr<Stage> cut,
                                const std::vector<PlannedTransform>& planned, std::size_t at,
                                const std::vector<std::unique_ptr<Stage>>& stages) {
  std::vector<MirroredCut::Mirror> mirrors;
  for (const std::size_t index : planned[at].mirrors) {
    const auto one = std::ranges::find(planned, index, &PlannedTransform::index);
    const Stage& stage = *stages[static_cast<std::size_t>(one - planned.begin())];
    mirrors.push_back({static_cast<const MirrorStage&>(stage).probability(), one->seed});
  }
  return std::make_unique<MirroredCut>(std::move(cut), std::move(mirrors));
}

}  // namespace

Result<std::vector<PlannedTransform>> planned_as_written(std::span<const Transform> transforms,
                                                         std::uint64_t seed) {
  std::vector<PlannedTransform> planned;
  std::map<std::string_view, std::uint64_t> drawing;  // how many of a name
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    const TransformKind* const kind = find_transform(transforms[i].type);
    if (kind == nullptr) {
      return fail(ErrorKind::unsupported, "the transform `" + transforms[i].type + "` is not known",
                  "input[" + std::to_string(i) + "]", "known are " + transform_names());
    }
    std::uint64_t draws_seed = 0;
    if (kind->draws != Draws::none) {
      const std::uint64_t ordinal = drawing[kind->name]++;
      draws_seed = mix64(seed + kGoldenGamma) + hash_of(kind->name) + ordinal;
    }
    planned.push_back({&transforms[i], kind, i, draws_seed});
    if (!kind->then.empty()) planned.push_back({&transforms[i], find_transform(kind->then), i, 0});
  }
  return planned;
}

bool move_cuts_first(std::vector<PlannedTransform>& planned) {
  bool has_moved = false;
  for (std::size_t i = 1; i < planned.size(); ++i) {
    if (planned[i].kind->geometry != Geometry::cuts) continue;
    for (std::size_t at = i; at > 0 && lets_cuts_pass(*planned[at - 1].kind); --at) {
      if (planned[at - 1].kind->geometry == Geometry::mirrors)
        planned[at].mirrors.push_back(planned[at - 1].index);
      std::swap(planned[at - 1], planned[at]);
      has_moved = true;
    }
  }
  return has_moved;
}

bool is_cut_of_part(const std::vector<PlannedTransform>& planned, std::size_t at) {
  return planned[at].kind->gives_parts && at + 1 < planned.size() &&
         planned[at + 1].kind->geometry == Geometry::cuts;
}

std::optional<std::size_t> resize_of_decoded(const std::vector<PlannedTransform>& planned) {
  if (planned.empty() || !planned[0].kind->gives_parts) return std::nullopt;
  const std::size_t at = is_cut_of_part(planned, 0) ? 2 : 1;
  if (at < planned.size() && planned[at].kind->geometry == Geometry::resizes) return at;
  return std::nullopt;
}

std::size_t first_of_run(const std::vector<PlannedTransform>& planned, std::size_t end,
                         bool TransformKind::*property) {
  while (end > 0 && planned[end - 1].kind->*property)
    --end;
  return end;
}

std::size_t steady_prefix(const std::vector<PlannedTransform>& planned) {
  return static_cast<std::size_t>(std::ranges::find_if(planned, &PlannedTransform::draws) -
                                  planned.begin());
}

std::optional<std::size_t> table_begin(const std::vector<PlannedTransform>& planned,
                                       const BuiltStages& built) {
  const std::size_t at = first_of_run(planned, planned.size(), &TransformKind::is_point_wise);
  const Element element = built.types[at].element;
  if (element == Element::float32 || element == Element::token) return std::nullopt;
  return at;
}

std::size_t device_begin(const std::vector<PlannedTransform>& planned, const BuiltStages& built,
                         std::vector<PixelFormula>& formulas) {
  std::size_t at = 0;
  while (at < planned.size() && (built.types[at].element != Element::uint8 ||
                                 built.types[at + 1].element != Element::float32))
    ++at;
  for (std::size_t i = at; i < planned.size(); ++i) {
    std::optional<PixelFormula> formula;
    if (planned[i].kind->is_pixel_wise)
      formula = static_cast<const PixelStage&>(*built.stages[i]).formula();
    if (!formula) return planned.size();
    formulas.push_back(std::move(*formula));
  }
  return at;
}

std::string names_of(const std::vector<PlannedTransform>& planned, std::size_t first,
                     std::size_t end) {
  std::string names;
  for (std::size_t i = first; i < end; ++i)
    names += (names.empty() ? "" : " + ") + std::string(planned[i].kind->name);
  return names;
}

Result<BuiltStages> make_stages(const SampleType& stored,
                                const std::vector<PlannedTransform>& planned,
                                const PipelineForm& form) {
  BuiltStages built;
  built.types.push_back(stored);
  for (const PlannedTransform& one : planned) {
    const SampleType& type = built.types.back();
    if (auto error = misplaced(*one.kind, type, built.makes_floats)) {
      return tl::unexpected(at_transform(std::move(*error), one));
    }
    auto stage = one.kind->make(*one.transform, type);
    if (!stage) return tl::unexpected(at_transform(stage.error(), one));
    (*stage)->set_dilation(form.dilation);
    built.dilates |= (*stage)->dilates();
    const SampleType output = (*stage)->output();
    if (type.element != Element::float32 && output.element == Element::float32) {
      built.makes_floats = one.kind->name;
    }
    built.stages.push_back(std::move(*stage));
    built.types.push_back(output);
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (!planned[i].mirrors.empty())
      built.stages[i] = mirrored(std::move(built.stages[i]), planned, i, built.stages);
  }
  return built;
}

Result<std::vector<MaskStage>> make_mask_stages(const SampleType& stored,
                                                const std::vector<PlannedTransform>& planned) {
  SampleType type = stored;
  type.element = Element::uint8;
  type.channels = 1;
  type.skips_damaged = false;
  std::vector<MaskStage> stages;
  for (const PlannedTransform& one : planned) {
    if (one.kind->make_for_mask == nullptr) {
      if (one.kind->geometry == Geometry::keeps) continue;
      return tl::unexpected(at_transform({ErrorKind::unsupported,
                                          "moves pixels in ways that masks cannot follow",
                                          {},
                                          "use random_flip, random_rotation and color_jitter"},
                                         one));
    }
    auto stage = one.kind->make_for_mask(*one.transform, type);
    if (!stage) return tl::unexpected(at_transform(stage.error(), one));
    type = (*stage)->output();
    stages.push_back({std::move(*stage), one.seed});
  }
  return stages;
}

}  // namespace autotuned::input
