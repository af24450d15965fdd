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
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/pixels/part_span.hpp"
#include "trainer/input/transforms/pipeline_form.hpp"
#include "trainer/input/transforms/pixel_pass.hpp"
#include "trainer/input/transforms/pixel_table.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// Properties of a pipeline that decide whether another form is worth a trial.
struct PipelineChances {
  bool can_move_crop = false;
  bool can_decode_crop = false;
  int pixel_stages = 0;  // at the end, without those in a table
  int decode_scale = 1;  // the largest PipelineForm::decode_scale that makes a picture smaller
  bool dilates = false;  // masks
  bool can_finish_on_device = false;  // PointOps::device, if that is more than a table
};

// Stages that run one after the other. The longest run of point-wise transforms of bytes at the end becomes a table
// instead, so that bytes can be transferred and converted on the device, with the same bits.
//
// A stage that draws random numbers has a stream for every sample. It depends on the seed, the sample's position in the
// sequence, the transform's name, and the number of transforms of that name before it. So the draws do not depend on
// workers, batch size, or the stage's position.
//
// Const: any number of threads at once, each with a scratch of its own.
class Pipeline {
 public:
  // No stages and no table: samples are the stored ones. Only a value to assign to.
  Pipeline() = default;

  // `has_masks`: class masks are moved as the pictures are.
  // ErrorKind::invalid or unsupported: a transform at a wrong position or with wrong parameters, and what to do.
  [[nodiscard]] static Result<Pipeline> compile(const SampleType& stored,
                                                std::span<const Transform> transforms,
                                                std::uint64_t seed, PipelineForm form = {},
                                                bool has_masks = false);

  [[nodiscard]] const SampleType& stored() const { return stored_; }
  // The shape of samples for the model.
  [[nodiscard]] SampleShape shape() const { return shape_; }
  // Null: the last stage gives floats.
  [[nodiscard]] const PixelTable* table() const { return table_ ? &*table_ : nullptr; }
  // Why there is no table, for messages.
  [[nodiscard]] const std::string& why_no_table() const { return why_no_table_; }
  // Whether there are stages besides the table.
  [[nodiscard]] bool has_stages() const { return !steps_.empty() || pass_.size() > table_stages(); }
  [[nodiscard]] const PipelineForm& form() const { return form_; }
  [[nodiscard]] const PipelineChances& chances() const { return chances_; }

  // The parts of the pipeline in order, for people: "decode_jpeg + random_crop". The last one is "masks" if there are
  // such.
  [[nodiscard]] const std::vector<std::string>& parts() const { return parts_; }

  // The size of a class mask in a batch; 0: there are none.
  [[nodiscard]] std::size_t mask_bytes() const {
    return has_masks_
               ? static_cast<std::size_t>(shape_.height) * static_cast<std::size_t>(shape_.width)
               : 0;
  }

  // Whether samples are kept, by form().cache, in their form before run_rest().
  [[nodiscard]] bool is_cached() const { return !cached_key_.empty(); }
  // The number of parts before that; 0: stored samples are kept.
  [[nodiscard]] std::size_t cached_parts() const { return cached_parts_; }
  // The type of kept samples, as far as it is known.
  [[nodiscard]] const SampleType& cached_type() const { return cached_type_; }
  // Pipelines of one recipe with the same key keep the same bytes.
  [[nodiscard]] const std::string& cached_key() const { return cached_key_; }
  // The number of parts that a cache of that kind would save, entirely or nearly.
  [[nodiscard]] std::size_t parts_saved_by(CacheKind kind) const;

  // Whether an index of files is used, by form().indexes_jpegs: parts of pictures are decoded at full scale.
  [[nodiscard]] bool is_indexed() const {
    return form_.indexes_jpegs && !steps_.empty() && decodes_ && !shrinks_ &&
           (steps_[0].cut != nullptr || cuts_uncached_);
  }

  // The type that run() writes: samples for the model, or their form before finish_batch().
  [[nodiscard]] bool has_batch_stages(PixelType type) const {
    return form_.point_ops == PointOps::per_batch && pass_stages(type) > 0;
  }
  [[nodiscard]] Element written_element(PixelType type) const;
  // The arithmetic to do after the transfer, in this order, with PointOps::device. Batches then consist of bytes,
  // whatever their type.
  [[nodiscard]] const std::vector<PixelFormula>& device_formulas() const {
    return device_formulas_;
  }
  // The size of a sample in a batch that is finished on the host.
  [[nodiscard]] std::size_t made_bytes(PixelType type) const {
    return static_cast<std::size_t>(shape_.elements()) *
           (device_formulas_.empty() ? bytes_of(type) : 1);
  }
  [[nodiscard]] std::size_t written_bytes(PixelType type) const {
    return static_cast<std::size_t>(shape_.elements()) * bytes_of(written_element(type));
  }

  struct Scratch {
    std::vector<std::uint8_t> stored;  // for the caller's reads
    std::vector<std::uint8_t> cached;  // for the caller's reads from a cache
    MaskRoom mask;                     // for the caller's reads of class masks
    std::array<OutputBuffer, 2> rooms;
    std::vector<std::unique_ptr<StageMemory>> memories;
    PixelPass::Scratch pass;
    // One per part, or empty. run() adds the time of each part.
    std::vector<std::int64_t> part_ns;
    std::vector<std::int64_t> part_bytes;  // the same for the bytes that each part reads and writes
    std::int64_t stored_ns = 0;            // for the caller: the time of reading
    // With part_ns: also the spans. The caller sets the threads.
    bool keeps_spans = false;
    std::vector<PartSpan> spans;
  };
  [[nodiscard]] Scratch make_scratch() const;

  // Adds a sample to the index of its origin. REQUIRES: is_indexed().
  void index(const Sample& stored, Scratch& scratch) const;

  // Writes written_bytes(type) to `out`. Errors of a sample lack `where`. With a cache of whole pictures this is for
  // samples that the cache does not keep: only their crops are decoded.
  // REQUIRES: for PixelType::uint8 a table.
  [[nodiscard]] Result<void> run(const Sample& sample, Position position, PixelType type, void* out,
                                 Scratch& scratch) const {
    return run_from(0, sample, position, type, out, scratch);
  }
  // The same in two steps: the kept form of a sample, valid until the scratch is used again, and the rest.
  // REQUIRES: is_cached().
  [[nodiscard]] Result<Sample> run_cached_parts(const Sample& stored, Scratch& scratch) const;
  [[nodiscard]] Result<void> run_rest(const Sample& cached, Position position, PixelType type,
                                      void* out, Scratch& scratch) const {
    return run_from(cached_parts_, cached, position, type, out, scratch);
  }
  // Writes mask_bytes() to `out`: the stored class mask of the sample at this position, moved as run() moves the
  // picture, whatever the form. For the caller's times, this is the last of parts(). Errors lack `where`.
  // ErrorKind::invalid: the mask has not the size of its picture. REQUIRES: compiled with masks; `mask` does not lie in
  // scratch.rooms.
  [[nodiscard]] Result<void> run_mask(const Sample& mask, Position position, std::uint8_t* out,
                                      Scratch& scratch) const;
  // Makes a batch for the model from `samples` samples that run() wrote to `assembled` one after the other. Overwrites
  // `assembled`. REQUIRES: has_batch_stages(type).
  void finish_batch(void* assembled, std::int64_t samples, Position first, PixelType type,
                    void* batch, Scratch& scratch) const;

 private:
  class Compiler;  // pipeline_compile.cpp
  struct Step {
    std::unique_ptr<const Stage> stage;
    std::uint64_t seed = 0;  // of its draws
    std::unique_ptr<const Stage>
        cut;  // the stage makes only the part that this cut keeps; null: all
    std::uint64_t cut_seed = 0;
  };

  // The part of the pass or the table; none: beyond all parts.
  [[nodiscard]] std::size_t tail_part() const {
    return steps_.size() < parts_.size() - (has_masks_ ? 1U : 0U) ? steps_.size() : parts_.size();
  }

  [[nodiscard]] std::size_t table_stages() const { return table_ ? 1 : 0; }
  // The number of stages of the pass that make this type.
  [[nodiscard]] std::size_t pass_stages(PixelType type) const {
    return pass_.size() == 0 || type == PixelType::float32 ? pass_.size()
                                                           : pass_.size() - table_stages();
  }
  [[nodiscard]] Result<void> run_from(std::size_t first_step, const Sample& sample,
                                      Position position, PixelType type, void* out,
                                      Scratch& scratch) const;
  [[nodiscard]] static Result<Sample> apply(const Step& step, const Sample& sample,
                                            std::uint64_t place, StageMemory* memory,
                                            OutputBuffer& room);

  SampleType stored_;
  SampleShape shape_;
  PipelineForm form_;
  PipelineChances chances_;
  std::vector<Step> steps_;
  std::vector<Step> mask_steps_;  // in the recipe's order
  bool has_masks_ = false;
  PixelPass pass_;  // the pixel-wise stages at the end and the table, unless per_sample
  Element before_pass_ = Element::uint8;  // the input of the pass
  std::vector<PixelFormula> device_formulas_;
  std::optional<PixelTable> table_;
  std::string why_no_table_;
  std::vector<std::string> parts_;  // names of the steps, then of the pass or the table
  std::size_t cached_parts_ = 0;    // all of them steps
  SampleType cached_type_;
  std::string cached_key_;        // empty: nothing is kept
  bool decodes_ = false;          // the first part
  bool shrinks_ = false;          // and at a smaller scale
  bool cuts_uncached_ = false;    // samples that are not kept: steps 0 and 1 in one
  std::size_t steady_parts_ = 0;  // those that begin before the first random transform
};

}  // namespace autotuned::input
