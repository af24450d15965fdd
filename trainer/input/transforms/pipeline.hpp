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
#include "trainer/input/transforms/part_span.hpp"
#include "trainer/input/transforms/pipeline_form.hpp"
#include "trainer/input/transforms/pixel_pass.hpp"
#include "trainer/input/transforms/pixel_table.hpp"
#include "trainer/input/transforms/transform.hpp"

namespace autotuned::input {

// What another form would change.
struct PipelineChances {
  bool can_move_crop = false;
  bool can_decode_crop = false;
  int pixel_stages = 0;  // at the end, those in a table not counted
  int decode_scale = 1;  // the largest PipelineForm::decode_scale that makes a picture smaller
  bool dilates = false;  // masks
  bool can_finish_on_device = false;  // PointOps::device, where it is more than a table
};

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
                                                std::uint64_t seed, PipelineForm form = {});

  [[nodiscard]] const SampleType& stored() const { return stored_; }
  // Of what the model sees.
  [[nodiscard]] SampleShape shape() const { return shape_; }
  // Null when numbers leave the last stage.
  [[nodiscard]] const PixelTable* table() const { return table_ ? &*table_ : nullptr; }
  // Without a table: why there is none, for people.
  [[nodiscard]] const std::string& why_no_table() const { return why_no_table_; }
  // Whether a sample is more than what is stored and a look into the table.
  [[nodiscard]] bool has_stages() const { return !steps_.empty() || pass_.size() > table_stages(); }
  [[nodiscard]] const PipelineForm& form() const { return form_; }
  [[nodiscard]] const PipelineChances& chances() const { return chances_; }

  // What runs one after the other, for people: "decode_jpeg + random_crop".
  [[nodiscard]] const std::vector<std::string>& parts() const { return parts_; }

  // Whether something of a sample is to be kept in memory, by form().cache: what it is before rest().
  [[nodiscard]] bool is_cached() const { return !cached_key_.empty(); }
  // How many of the parts come before that: 0 where what is stored is kept.
  [[nodiscard]] std::size_t cached_parts() const { return cached_parts_; }
  // What is kept of every sample, as far as it is known.
  [[nodiscard]] const SampleType& cached_type() const { return cached_type_; }
  // Pipelines of one recipe with the same key keep the same.
  [[nodiscard]] const std::string& cached_key() const { return cached_key_; }
  // How many of the parts a cache of that kind would save, wholly or nearly so.
  [[nodiscard]] std::size_t parts_saved_by(CacheKind kind) const;

  // Whether an index of files is of use, by form().indexes_jpegs: parts of pictures are decoded, in their own
  // size.
  [[nodiscard]] bool is_indexed() const {
    return form_.indexes_jpegs && !steps_.empty() && decodes_ && !shrinks_ &&
           (steps_[0].cut != nullptr || cuts_uncached_);
  }

  // What run() writes of a sample: what the model sees, or the step before that if finish_batch() makes
  // the rest.
  [[nodiscard]] bool has_batch_stages(PixelType type) const {
    return form_.point_ops == PointOps::per_batch && pass_stages(type) > 0;
  }
  [[nodiscard]] Element written_element(PixelType type) const;
  // What is left for bytes behind the transfer, in this order: with PointOps::device, and then batches are of
  // bytes whatever their type.
  [[nodiscard]] const std::vector<PixelFormula>& device_formulas() const {
    return device_formulas_;
  }
  // Of a sample in a batch that is finished on the host.
  [[nodiscard]] std::size_t made_bytes(PixelType type) const {
    return static_cast<std::size_t>(shape_.elements()) *
           (device_formulas_.empty() ? bytes_of(type) : 1);
  }
  [[nodiscard]] std::size_t written_bytes(PixelType type) const {
    return static_cast<std::size_t>(shape_.elements()) * bytes_of(written_element(type));
  }

  struct Scratch {
    std::vector<std::uint8_t> stored;  // of the caller, for what it reads
    std::vector<std::uint8_t> cached;  // and out of a cache
    std::array<SampleRoom, 2> rooms;
    std::vector<std::unique_ptr<StageMemory>> memories;
    PixelPass::Scratch pass;
    // As many as there are parts(), or none: what each took is then added.
    std::vector<std::int64_t> part_ns;
    std::vector<std::int64_t> part_bytes;  // the same: what each took in and gave
    std::int64_t stored_ns = 0;            // of the caller, for the time that reading took
    // Where part_ns is there: also when that was. Threads are left to the caller.
    bool keeps_spans = false;
    std::vector<PartSpan> spans;
  };
  [[nodiscard]] Scratch make_scratch() const;

  // Puts a sample into the index of its origin. REQUIRES: is_indexed().
  void index(const Sample& stored, Scratch& scratch) const;

  // Writes written_bytes(type) to `out`. Errors lack `where` where a sample is at fault. With a cache that
  // would keep whole pictures: the way of a sample that it does not keep, of which only the crop is decoded.
  // REQUIRES: for PixelType::uint8 a table.
  [[nodiscard]] Result<void> run(const Sample& sample, Position position, PixelType type, void* out,
                                 Scratch& scratch) const {
    return run_from(0, sample, position, type, out, scratch);
  }
  // The same in two: what a cache keeps, valid until the scratch is used otherwise, and the rest.
  // REQUIRES: is_cached().
  [[nodiscard]] Result<Sample> run_cached_parts(const Sample& stored, Scratch& scratch) const;
  [[nodiscard]] Result<void> run_rest(const Sample& cached, Position position, PixelType type,
                                      void* out, Scratch& scratch) const {
    return run_from(cached_parts_, cached, position, type, out, scratch);
  }
  // From `samples` samples that run() wrote to `assembled`, one after the other, the batch: what the model
  // sees of them. `assembled` is used up. REQUIRES: has_batch_stages(type).
  void finish_batch(void* assembled, std::int64_t samples, Position first, PixelType type,
                    void* batch, Scratch& scratch) const;

 private:
  struct Step {
    std::unique_ptr<const Stage> stage;
    std::uint64_t seed = 0;            // of its draws
    std::unique_ptr<const Stage> cut;  // of which the stage makes just that part, or null
    std::uint64_t cut_seed = 0;
  };

  [[nodiscard]] std::size_t table_stages() const { return table_ ? 1 : 0; }
  // How many stages of the pass lead to that type.
  [[nodiscard]] std::size_t pass_stages(PixelType type) const {
    return pass_.size() == 0 || type == PixelType::float32 ? pass_.size()
                                                           : pass_.size() - table_stages();
  }
  [[nodiscard]] Result<void> run_from(std::size_t first_step, const Sample& sample,
                                      Position position, PixelType type, void* out,
                                      Scratch& scratch) const;
  [[nodiscard]] static Result<Sample> apply(const Step& step, const Sample& sample,
                                            std::uint64_t place, StageMemory* memory,
                                            SampleRoom& room);

  SampleType stored_;
  SampleShape shape_;
  PipelineForm form_;
  PipelineChances chances_;
  std::vector<Step> steps_;
  PixelPass pass_;  // the pixel-wise stages at the end and the table, unless per_sample
  Element before_pass_ = Element::uint8;  // what it takes
  std::vector<PixelFormula> device_formulas_;
  std::optional<PixelTable> table_;
  std::string why_no_table_;
  std::vector<std::string> parts_;  // of the steps, then of the pass or the table
  std::size_t cached_parts_ = 0;    // all of them steps
  SampleType cached_type_;
  std::string cached_key_;        // empty: nothing
  bool decodes_ = false;          // the first part
  bool shrinks_ = false;          // and may make a picture smaller than it is
  bool cuts_uncached_ = false;    // a sample that is not kept: steps 0 and 1 in one
  std::size_t steady_parts_ = 0;  // those that begin with a transform before any that draws
};

}  // namespace autotuned::input
