// SPDX-License-Identifier: Apache-2.0
// Makes a pipeline of the transforms of a recipe.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/input/transforms/pipeline.hpp"
#include "trainer/input/transforms/planned_transforms.hpp"

namespace autotuned::input {
namespace {

// The table as the last of the stages.
class TableStage final : public PixelStage {
 public:
  TableStage(PixelTable table, SampleType output) : table_(std::move(table)), output_(output) {}

  SampleType output() const override { return output_; }
  void apply_rows(const PixelRows& rows, const StageMemory* /*memory*/) const override {
    for (int channel = 0; channel < rows.channels; ++channel) {
      convert_channel(table_, channel, {rows.from_channel<std::uint8_t>(channel), rows.count()},
                      rows.to_channel<float>(channel));
    }
  }

 private:
  PixelTable table_;
  SampleType output_;
};

Result<void> check_end(const SampleType& end) {
  if (end.element == Element::encoded) {
    return fail(ErrorKind::invalid, "the samples are picture files", "input", "put decode first");
  }
  if (!end.has_one_shape()) {
    return fail(ErrorKind::invalid,
                "pictures of different sizes (" + end.text() + ") cannot form one batch", "input",
                "add resize, random_crop or center_crop");
  }
  return {};
}

}  // namespace

// Its functions run in this order; each uses what those before it have found.
class Pipeline::Compiler {
 public:
  Compiler(const SampleType& stored, const PipelineForm& form, bool has_masks)
      : stored_(stored), form_(form), has_masks_(has_masks) {}

  Result<Pipeline> compile(std::span<const Transform> transforms, std::uint64_t seed) {
    if (auto taken = take_as_written(transforms, seed); !taken)
      return tl::unexpected(taken.error());
    if (auto moved = move_cuts(); !moved) return tl::unexpected(moved.error());
    shrink_decoded();
    if (auto found = find_table(); !found) return tl::unexpected(found.error());
    if (auto placed = place_pass(); !placed) return tl::unexpected(placed.error());
    choose_kept();
    add_steps();
    add_pass();
    if (has_masks_) pipeline_.parts_.emplace_back("masks");
    return std::move(pipeline_);
  }

 private:
  // The transforms in the recipe's order, also for the errors of what is written.
  Result<void> take_as_written(std::span<const Transform> transforms, std::uint64_t seed) {
    auto planned = planned_as_written(transforms, seed);
    if (!planned) return tl::unexpected(planned.error());
    planned_ = *std::move(planned);
    if (auto built = build(); !built) return built;
    if (auto checked = check_end(built_.types.back()); !checked) return checked;
    if (has_masks_) {
      auto stages = make_mask_stages(stored_, planned_);
      if (!stages) return tl::unexpected(stages.error());
      for (MaskStage& one : *stages)
        pipeline_.mask_steps_.push_back({std::move(one.stage), one.seed, nullptr, 0});
      pipeline_.has_masks_ = true;
    }
    pipeline_.stored_ = stored_;
    pipeline_.form_ = form_;
    pipeline_.shape_ = built_.types.back().shape();
    pipeline_.chances_.dilates = built_.dilates;
    return {};
  }

  Result<void> build() {
    auto built = make_stages(stored_, planned_, form_);
    if (!built) return tl::unexpected(built.error());
    built_ = *std::move(built);
    return {};
  }

  // Cuts ahead of what permits it, if the form asks for that.
  Result<void> move_cuts() {
    moved_ = planned_;
    PipelineChances& chances = pipeline_.chances_;
    chances.can_move_crop = move_cuts_first(moved_);
    for (std::size_t i = 0; i < moved_.size(); ++i)
      chances.can_decode_crop |= is_cut_of_part(moved_, i);
    if (!chances.can_move_crop || (!form_.crops_first && !form_.decodes_crop)) return {};
    planned_ = moved_;
    return build();
  }

  // Pictures are decoded at a smaller scale, if a resize makes them small all the same.
  void shrink_decoded() {
    const auto resize_at = resize_of_decoded(planned_);
    if (!resize_at) return;
    const SampleType& from = built_.types[*resize_at];
    const SampleShape to = built_.types[*resize_at + 1].shape();
    Shrink shrink{.most = 8, .height = to.height, .width = to.width};
    pipeline_.chances_.decode_scale = shrink.of(from.height.most, from.width.most);
    shrink.most = form_.decode_scale;
    pipeline_.shrinks_ = shrink.most > 1;
    if (pipeline_.shrinks_) static_cast<PartStage&>(*built_.stages[0]).shrink(shrink);
    cuts_shrunk_ = pipeline_.shrinks_ && *resize_at == 2;
  }

  // From the end: point-wise transforms on bytes are the table.
  Result<void> find_table() {
    table_at_ = planned_.size();
    const auto begin = table_begin(planned_, built_);
    if (!begin) {
      pipeline_.why_no_table_ = why_no_table();
      return {};
    }
    table_at_ = *begin;
    std::vector<Transform> tail;
    for (std::size_t i = table_at_; i < planned_.size(); ++i)
      tail.push_back(*planned_[i].transform);
    auto table = make_pixel_table(tail, pipeline_.shape_.channels);
    if (!table) return tl::unexpected(table.error());
    pipeline_.table_ = std::move(*table);
    return {};
  }

  [[nodiscard]] std::string why_no_table() const {
    const auto earlier = make_stages(stored_, moved_, form_);
    if (earlier && table_begin(moved_, *earlier)) {
      return "a crop follows `" + built_.makes_floats +
             "`, which input.order: crop_first moves ahead of it";
    }
    if (stored_.element == Element::token) return "the samples are tokens";
    if (built_.makes_floats.empty()) return "the data consists of floats";
    return "`" + built_.makes_floats + "` makes floats that do not come from one byte each";
  }

  // What is pixel-wise before the table is the pass. On the device, all from the conversion to floats is neither.
  Result<void> place_pass() {
    const std::size_t end = planned_.size();
    pass_at_ = first_of_run(planned_, table_at_, &TransformKind::is_pixel_wise);
    pipeline_.chances_.pixel_stages = static_cast<int>(table_at_ - pass_at_);
    pipeline_.before_pass_ = built_.types[pass_at_].element;
    std::vector<PixelFormula> formulas;
    const std::size_t device_at = device_begin(planned_, built_, formulas);
    pipeline_.chances_.can_finish_on_device = device_at < end && !pipeline_.table_;
    is_on_device_ = form_.point_ops == PointOps::device;
    has_pass_ = form_.point_ops != PointOps::per_sample && !is_on_device_;
    if (!has_pass_) pass_at_ = table_at_;
    if (!is_on_device_) return {};
    if (device_at == end) {
      return fail(
          ErrorKind::unsupported,
          "the input does not end with arithmetic on single pixels that converts bytes to floats",
          "input.point_ops", "use per_sample or fused");
    }
    pass_at_ = table_at_ = device_at;
    pipeline_.device_formulas_ = std::move(formulas);
    pipeline_.table_.reset();
    pipeline_.why_no_table_ = "input.point_ops: device already transfers bytes";
    return {};
  }

  // How many transforms make what is kept; a stage is not cut in two, nor the pass.
  void choose_kept() {
    steady_ = steady_prefix(planned_);
    pipeline_.decodes_ = !planned_.empty() && planned_[0].kind->takes_encoded;
    if (form_.cache == CacheKind::decoded) cached_ = pipeline_.decodes_ ? 1 : 0;
    if (form_.cache == CacheKind::prefix) cached_ = std::min(steady_, pass_at_);
    // How small a picture becomes follows from its cut: none that is kept would do for all of them.
    if (cuts_shrunk_ && cached_ == 1) cached_ = 0;
    pipeline_.cached_type_ = built_.types[cached_];
    if (pipeline_.shrinks_ && cached_ == 1) {
      pipeline_.cached_type_.height.least = pipeline_.cached_type_.width.least = 1;
      pipeline_.cached_type_.is_complete = false;
    }
    const bool is_cached = form_.cache == CacheKind::raw ||
                           (form_.cache == CacheKind::prefix && !cuts_shrunk_) || cached_ > 0;
    if (is_cached) pipeline_.cached_key_ = "stored";
    if (pipeline_.shrinks_ && cached_ > 0)
      pipeline_.cached_key_ += " 1/" + std::to_string(form_.decode_scale);
    for (std::size_t i = 0; i < cached_; ++i)
      pipeline_.cached_key_ +=
          " " + std::to_string(planned_[i].index) + std::string(planned_[i].kind->name);
  }

  // A decoder and the cut behind it may be one step.
  void add_steps() {
    for (std::size_t i = 0; i < pass_at_; ++i) {
      const std::size_t first = i;
      Step step{std::move(built_.stages[i]), planned_[i].seed, nullptr, 0};
      const bool is_kept = i + 1 == cached_;
      if ((form_.decodes_crop || cuts_shrunk_) && is_cut_of_part(planned_, i)) {
        // Pictures are decoded first, since nothing else takes files.
        assert(i == 0);
        pipeline_.cuts_uncached_ = is_kept;
        if (!is_kept) {
          ++i;
          step.cut = std::move(built_.stages[i]);
          step.cut_seed = planned_[i].seed;
        }
      }
      pipeline_.parts_.push_back(names_of(planned_, first, i + 1));
      pipeline_.steps_.push_back(std::move(step));
      if (first < cached_) pipeline_.cached_parts_ = pipeline_.steps_.size();
      if (first < steady_) pipeline_.steady_parts_ = pipeline_.steps_.size();
    }
  }

  void add_pass() {
    const std::size_t end = planned_.size();
    if (pass_at_ < end && !is_on_device_)
      pipeline_.parts_.push_back(names_of(planned_, pass_at_, end));
    for (std::size_t i = pass_at_; i < table_at_; ++i)
      pipeline_.pass_.append(std::move(built_.stages[i]), planned_[i].seed);
    if (has_pass_ && pipeline_.table_) {
      pipeline_.pass_.append(std::make_unique<TableStage>(
                                 *pipeline_.table_, type_of(Element::float32, pipeline_.shape_)),
                             0);
    }
  }

  const SampleType& stored_;
  PipelineForm form_;
  bool has_masks_;
  Pipeline pipeline_;
  std::vector<PlannedTransform> planned_;  // in the order in which they run
  std::vector<PlannedTransform> moved_;    // with their cuts ahead, whatever the form
  BuiltStages built_;                      // of planned_
  bool cuts_shrunk_ =
      false;  // the cut lies between the decoder and the resize that it is shrunk for
  std::size_t table_at_ = 0;   // the begin of the table; the number of transforms: there is none
  std::size_t pass_at_ = 0;    // the begin of the pass
  bool is_on_device_ = false;  // what lies behind pass_at_
  bool has_pass_ = false;
  std::size_t steady_ = 0;  // transforms before the first random one
  std::size_t cached_ = 0;  // transforms that make what is kept
};

Result<Pipeline> Pipeline::compile(const SampleType& stored, std::span<const Transform> transforms,
                                   std::uint64_t seed, PipelineForm form, bool has_masks) {
  return Compiler(stored, form, has_masks).compile(transforms, seed);
}

}  // namespace autotuned::input
