// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pipeline.hpp"

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "trainer/input/transforms/planned_transforms.hpp"

namespace autotuned::input {
namespace {

std::uint64_t place_of(Position position) {
  return (static_cast<std::uint64_t>(position.epoch) << 32U) |
         static_cast<std::uint64_t>(position.sample);
}

// Adds the time from its beginning to its end, where somebody asked for it.
class PartClock {
 public:
  PartClock(Pipeline::Scratch& scratch, std::size_t part)
      : scratch_(part < scratch.part_ns.size() ? &scratch : nullptr), part_(part) {
    if (scratch_ != nullptr) start_ns_ = now_ns();
  }
  ~PartClock() {
    if (scratch_ == nullptr) return;
    const std::int64_t end_ns = now_ns();
    scratch_->part_ns[part_] += end_ns - start_ns_;
    if (scratch_->keeps_spans) {
      scratch_->spans.push_back(
          {.part = static_cast<int>(part_), .start_ns = start_ns_, .end_ns = end_ns});
    }
  }
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;

 private:
  static std::int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  Pipeline::Scratch* scratch_;
  std::size_t part_;
  std::int64_t start_ns_ = 0;
};

void count_bytes(Pipeline::Scratch& scratch, std::size_t part, std::size_t taken,
                 std::size_t given) {
  if (part < scratch.part_bytes.size())
    scratch.part_bytes[part] += static_cast<std::int64_t>(taken + given);
}

// The part of a picture that the cut leaves, without the rest of it.
Result<Sample> apply_part(const Stage& stage, const Stage& cut, const RandomStream& cut_draws,
                          const Sample& sample, StageMemory* memory, OutputBuffer& room) {
  return static_cast<const PartStage&>(stage).apply_part(sample, static_cast<const CutStage&>(cut),
                                                         cut_draws, memory, room);
}

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

Result<Pipeline> Pipeline::compile(const SampleType& stored, std::span<const Transform> transforms,
                                   std::uint64_t seed, PipelineForm form, bool has_masks) {
  auto planned = planned_as_written(transforms, seed);
  if (!planned) return tl::unexpected(planned.error());
  auto built = make_stages(stored, *planned, form);  // also for the errors of what is written
  if (!built) return tl::unexpected(built.error());
  if (auto checked = check_end(built->types.back()); !checked) {
    return tl::unexpected(checked.error());
  }
  Pipeline pipeline;
  if (has_masks) {
    auto stages = make_mask_stages(stored, *planned);
    if (!stages) return tl::unexpected(stages.error());
    for (MaskStage& one : *stages)
      pipeline.mask_steps_.push_back({std::move(one.stage), one.seed, nullptr, 0});
    pipeline.has_masks_ = true;
  }
  pipeline.stored_ = stored;
  pipeline.form_ = form;
  pipeline.shape_ = built->types.back().shape();
  pipeline.chances_.dilates = built->dilates;
  std::vector<PlannedTransform> moved = *planned;
  pipeline.chances_.can_move_crop = move_cuts_first(moved);
  for (std::size_t i = 0; i < moved.size(); ++i)
    pipeline.chances_.can_decode_crop |= is_cut_of_part(moved, i);
  if (pipeline.chances_.can_move_crop && (form.crops_first || form.decodes_crop)) {
    planned = moved;
    built = make_stages(stored, *planned, form);
    if (!built) return tl::unexpected(built.error());
  }

  const auto resize_at = resize_of_decoded(*planned);
  if (resize_at) {
    const SampleType& from = built->types[*resize_at];
    const SampleShape to = built->types[*resize_at + 1].shape();
    Shrink shrink{.most = 8, .height = to.height, .width = to.width};
    pipeline.chances_.decode_scale = shrink.of(from.height.most, from.width.most);
    shrink.most = form.decode_scale;
    pipeline.shrinks_ = shrink.most > 1;
    if (pipeline.shrinks_) static_cast<PartStage&>(*built->stages[0]).shrink(shrink);
  }
  const bool cuts_shrunk = pipeline.shrinks_ && *resize_at == 2;

  // From the end: point-wise transforms on bytes are the table, what is pixel-wise before it the pass.
  const std::size_t end = planned->size();
  std::size_t table_at = end;
  if (const auto begin = table_begin(*planned, *built)) {
    table_at = *begin;
    std::vector<Transform> tail;
    for (std::size_t i = table_at; i < end; ++i)
      tail.push_back(*(*planned)[i].transform);
    auto table = make_pixel_table(tail, pipeline.shape_.channels);
    if (!table) return tl::unexpected(table.error());
    pipeline.table_ = std::move(*table);
  } else {
    pipeline.why_no_table_ =
        stored.element == Element::token ? "the samples are tokens"
        : built->makes_floats.empty()
            ? "the data consists of floats"
            : "`" + built->makes_floats + "` makes floats that do not come from one byte each";
    const auto earlier = make_stages(stored, moved, form);
    if (earlier && table_begin(moved, *earlier)) {
      pipeline.why_no_table_ = "a crop follows `" + built->makes_floats +
                               "`, which input.order: crop_first moves ahead of it";
    }
  }
  std::size_t pass_at = first_of_run(*planned, table_at, &TransformKind::is_pixel_wise);
  pipeline.chances_.pixel_stages = static_cast<int>(table_at - pass_at);
  pipeline.before_pass_ = built->types[pass_at].element;
  std::vector<PixelFormula> formulas;
  const std::size_t device_at = device_begin(*planned, *built, formulas);
  pipeline.chances_.can_finish_on_device = device_at < end && !pipeline.table_;
  const bool is_on_device = form.point_ops == PointOps::device;
  const bool has_pass = form.point_ops != PointOps::per_sample && !is_on_device;
  if (!has_pass) pass_at = table_at;
  if (is_on_device) {
    if (device_at == end) {
      return fail(
          ErrorKind::unsupported,
          "the input does not end with arithmetic on single pixels that converts bytes to floats",
          "input.point_ops", "use per_sample or fused");
    }
    pass_at = table_at = device_at;
    pipeline.device_formulas_ = std::move(formulas);
    pipeline.table_.reset();
    pipeline.why_no_table_ = "input.point_ops: device already transfers bytes";
  }

  const std::size_t steady = steady_prefix(*planned);
  pipeline.decodes_ = !planned->empty() && (*planned)[0].kind->takes_encoded;
  // How many transforms make what is kept; a stage is not cut in two, nor the pass.
  std::size_t cached = 0;
  if (form.cache == CacheKind::decoded) cached = pipeline.decodes_ ? 1 : 0;
  if (form.cache == CacheKind::prefix) cached = std::min(steady, pass_at);
  // How small a picture becomes follows from its cut: none that is kept would do for all of them.
  if (cuts_shrunk && cached == 1) cached = 0;
  pipeline.cached_type_ = built->types[cached];
  if (pipeline.shrinks_ && cached == 1) {
    pipeline.cached_type_.height.least = pipeline.cached_type_.width.least = 1;
    pipeline.cached_type_.is_complete = false;
  }
  const bool is_cached = form.cache == CacheKind::raw ||
                         (form.cache == CacheKind::prefix && !cuts_shrunk) || cached > 0;
  if (is_cached) pipeline.cached_key_ = "stored";
  if (pipeline.shrinks_ && cached > 0)
    pipeline.cached_key_ += " 1/" + std::to_string(form.decode_scale);
  for (std::size_t i = 0; i < cached; ++i)
    pipeline.cached_key_ +=
        " " + std::to_string((*planned)[i].index) + std::string((*planned)[i].kind->name);

  for (std::size_t i = 0; i < pass_at; ++i) {
    const std::size_t first = i;
    Step step{std::move(built->stages[i]), (*planned)[i].seed, nullptr, 0};
    const bool is_kept = i + 1 == cached;
    if ((form.decodes_crop || cuts_shrunk) && is_cut_of_part(*planned, i)) {
      // Pictures are decoded first, since nothing else takes files.
      assert(i == 0);
      pipeline.cuts_uncached_ = is_kept;
      if (!is_kept) {
        ++i;
        step.cut = std::move(built->stages[i]);
        step.cut_seed = (*planned)[i].seed;
      }
    }
    pipeline.parts_.push_back(names_of(*planned, first, i + 1));
    pipeline.steps_.push_back(std::move(step));
    if (first < cached) pipeline.cached_parts_ = pipeline.steps_.size();
    if (first < steady) pipeline.steady_parts_ = pipeline.steps_.size();
  }
  if (pass_at < end && !is_on_device) pipeline.parts_.push_back(names_of(*planned, pass_at, end));
  for (std::size_t i = pass_at; i < table_at; ++i)
    pipeline.pass_.append(std::move(built->stages[i]), (*planned)[i].seed);
  if (has_pass && pipeline.table_) {
    pipeline.pass_.append(
        std::make_unique<TableStage>(*pipeline.table_, type_of(Element::float32, pipeline.shape_)),
        0);
  }
  if (has_masks) pipeline.parts_.emplace_back("masks");
  return pipeline;
}

Pipeline::Scratch Pipeline::make_scratch() const {
  Scratch scratch;
  for (const Step& step : steps_)
    scratch.memories.push_back(step.stage->make_memory());
  scratch.pass = pass_.make_scratch();
  return scratch;
}

Element Pipeline::written_element(PixelType type) const {
  if (has_batch_stages(type)) return before_pass_;
  if (stored_.element == Element::token) return Element::token;
  if (!device_formulas_.empty()) return Element::uint8;
  return type == PixelType::uint8 ? Element::uint8 : Element::float32;
}

Result<Sample> Pipeline::apply(const Step& step, const Sample& sample, std::uint64_t place,
                               StageMemory* memory, OutputBuffer& room) {
  if (step.cut != nullptr) {
    return apply_part(*step.stage, *step.cut, RandomStream(step.cut_seed, place), sample, memory,
                      room);
  }
  return step.stage->apply(sample, RandomStream(step.seed, place), memory, room);
}

std::size_t Pipeline::parts_saved_by(CacheKind kind) const {
  if (kind == CacheKind::decoded) return decodes_ ? 1 : 0;
  return kind == CacheKind::prefix ? steady_parts_ : 0;
}

void Pipeline::index(const Sample& stored, Scratch& scratch) const {
  assert(is_indexed());
  static_cast<const PartStage&>(*steps_[0].stage).index(stored, scratch.memories[0].get());
}

Result<Sample> Pipeline::run_cached_parts(const Sample& stored, Scratch& scratch) const {
  assert(is_cached());
  Sample sample = stored;
  for (std::size_t i = 0; i < cached_parts_; ++i) {
    OutputBuffer& room = scratch.rooms[i % 2];
    room.write_to(nullptr);
    const PartClock clock(scratch, i);
    // Nothing is drawn here, so that the place does not matter.
    auto made = apply(steps_[i], sample, 0, scratch.memories[i].get(), room);
    if (!made) return made;
    sample = *made;
  }
  return sample;
}

Result<void> Pipeline::run_from(std::size_t first_step, const Sample& begin, Position position,
                                PixelType type, void* out, Scratch& scratch) const {
  assert(table_ || type == PixelType::float32);
  const std::size_t pass_stages_now = form_.point_ops == PointOps::fused ? pass_stages(type) : 0;
  const bool is_table_last = pass_.size() == 0 && table_ && type == PixelType::float32;
  const bool is_step_last = pass_stages_now == 0 && !is_table_last;
  const std::uint64_t place = place_of(position);
  Sample sample = begin;
  // A sample lies in one room while the next is made in the other.
  std::size_t room_at = first_step;
  for (std::size_t i = first_step; i < steps_.size(); ++room_at) {
    const std::size_t part = i;
    const bool cuts = i == 0 && cuts_uncached_;
    i += cuts ? 2 : 1;
    OutputBuffer& room = scratch.rooms[room_at % 2];
    room.write_to(i == steps_.size() && is_step_last ? out : nullptr);
    const PartClock clock(scratch, part);
    StageMemory* const memory = scratch.memories[part].get();
    auto made = cuts ? apply_part(*steps_[0].stage, *steps_[1].stage,
                                  RandomStream(steps_[1].seed, place), sample, memory, room)
                     : apply(steps_[part], sample, place, memory, room);
    if (!made) return tl::unexpected(std::move(made.error()));
    count_bytes(scratch, part, sample.bytes.size(), made->bytes.size());
    sample = *made;
  }
  count_bytes(scratch, tail_part(), sample.bytes.size(), written_bytes(type));
  const PartClock clock(scratch, tail_part());
  if (pass_stages_now > 0) {
    pass_.run(sample, place, pass_stages_now, out, scratch.pass);
  } else if (is_table_last) {
    convert_sample(*table_, sample.bytes, static_cast<float*>(out));
  } else if (first_step == steps_.size()) {
    std::memcpy(out, sample.bytes.data(), sample.bytes.size());
  }
  return {};
}

Result<void> Pipeline::run_mask(const Sample& mask, Position position, std::uint8_t* out,
                                Scratch& scratch) const {
  assert(has_masks_);
  const auto size_text = [](const SampleShape& shape) {
    return std::to_string(shape.height) + " x " + std::to_string(shape.width);
  };
  if (stored_.is_complete &&
      !(stored_.height.contains(mask.shape.height) && stored_.width.contains(mask.shape.width))) {
    return fail(
        ErrorKind::invalid,
        "the mask has " + size_text(mask.shape) + " pixels, which it had not when training began",
        {}, "do not change the data during training");
  }
  const std::uint64_t place = place_of(position);
  Sample moved = mask;
  for (std::size_t i = 0; i < mask_steps_.size(); ++i) {
    // Not straight to `out`, which has room for a mask of the right size alone.
    OutputBuffer& room = scratch.rooms[i % 2];
    room.write_to(nullptr);
    auto made = apply(mask_steps_[i], moved, place, nullptr, room);
    if (!made) return tl::unexpected(std::move(made.error()));
    moved = *made;
  }
  if (moved.shape.height != shape_.height || moved.shape.width != shape_.width) {
    return fail(ErrorKind::invalid,
                "the mask has " + size_text(mask.shape) + " pixels, other than its picture", {},
                "make the mask as large as its picture");
  }
  std::memcpy(out, moved.bytes.data(), moved.bytes.size());
  return {};
}

void Pipeline::finish_batch(void* assembled, std::int64_t samples, Position first, PixelType type,
                            void* batch, Scratch& scratch) const {
  assert(has_batch_stages(type));
  const PartClock clock(scratch, tail_part());
  pass_.run_over_batch({before_pass_, shape_, assembled, samples, place_of(first)},
                       pass_stages(type), batch, scratch.pass);
}

}  // namespace autotuned::input
