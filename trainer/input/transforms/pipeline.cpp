// SPDX-License-Identifier: Apache-2.0
#include "trainer/input/transforms/pipeline.hpp"

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

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

}  // namespace

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
    // The mask is not written straight to `out`, which has room for a mask of the right size alone.
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
