// SPDX-License-Identifier: Apache-2.0
// The model in training: forward, loss, backward, optimizer, and its whole state. Private to trainer/.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "profiler/recorder/torch_timeline.hpp"
#include "recipes/recipe.hpp"
#include "trainer/common/precision.hpp"
#include "trainer/feed/feed.hpp"
#include "trainer/models/loss.hpp"
#include "trainer/ranks/gradient_reducer.hpp"
#include "trainer/ranks/rank_group.hpp"
#include "trainer/state/checkpoint.hpp"
#include "trainer/step/graph_step.hpp"
#include "trainer/step/kept_modules.hpp"
#include "trainer/step/parameter_groups.hpp"
#include "trainer/step/weight_average.hpp"

namespace autotuned::trainer {

class Model;
class Workloads;

struct LearnerSettings {
  std::optional<at::ScalarType> autocast;
  KeptModules kept;  // out of autocast; of this learner's model
  bool set_to_none = false;
  bool is_fused = false;  // the optimizer
  bool is_channels_last = false;
  bool is_graph = false;  // a step is recorded and replayed; REQUIRES: set_recorder()
  // What others obey, of the whole process: a recorded step keeps to what was set when it was recorded.
  bool is_tf32 = false;
  bool is_indexing = false;  // gathers of whole rows
  ReducerSettings reducer;   // of several ranks

  friend bool operator==(const LearnerSettings&, const LearnerSettings&) = default;
};

enum class HostMemory { pageable, page_locked };

// One thread. Functions throw c10::Error.
class Learner {
 public:
  // Seeds LibTorch's generators with the recipe's seed and builds the model from them. A model or loss of a
  // plugin comes from `workloads`.
  [[nodiscard]] static Result<std::unique_ptr<Learner>> create(const recipes::Recipe& recipe,
                                                               input::SampleShape sample,
                                                               at::Device device,
                                                               Workloads* workloads = nullptr);

  void configure(const LearnerSettings& settings);
  [[nodiscard]] const LearnerSettings& settings() const { return settings_; }

  // Called with the input of the model in steps: once with the labels, at the beginning; then with the images
  // of every call of its forward, by any caller. Without gradients and autocast. An empty function is not
  // called.
  struct InputWatch {
    std::function<void(const at::Tensor& labels)> labels;
    std::function<void(const at::Tensor& images)> images;
  };
  void watch_inputs(InputWatch watch) { input_watch_ = std::move(watch); }
  // For code that calls the model's forward in the place of the learner: tells the watch of these images.
  void tell_images(const at::Tensor& images) const;

  // What runs instead of the model's forward from now on; null: that again.
  using Forward = std::function<at::Tensor(const at::Tensor& images)>;
  void set_forward(Forward forward);
  void set_recorder(std::unique_ptr<GraphRecorder> recorder);
  [[nodiscard]] bool has_recorder() const { return graph_ != nullptr; }
  // Device memory that a recorded step holds for its replays, and that LibTorch counts as free.
  [[nodiscard]] std::int64_t recorded_bytes() const {
    return graph_ != nullptr ? graph_->held_bytes() : 0;
  }
  [[nodiscard]] Model& model() { return *model_; }

  // From now on every rank of the group makes the same steps, each on batches of its own, with the mean of their
  // gradients; the buffers of the leader are those of all. REQUIRES: no graph. The group must outlive the learner.
  void join(RankGroup& group);
  // The leader's parameters and buffers replace those of the other ranks. REQUIRES: join().
  void take_state_from_leader();

  // Of the last step of several ranks: how long its backward pass waited for gradients of others, once its own were
  // there.
  [[nodiscard]] std::int64_t rank_wait_ns() const {
    return reducer_ != nullptr ? reducer_->waited_ns() : 0;
  }

  // One step on a batch; the loss as a scalar on the device, not yet waited for.
  [[nodiscard]] at::Tensor step(const DeviceBatch& batch, double learning_rate);

  struct Score {
    at::Tensor loss_sum;  // over samples
    at::Tensor counted;  // samples in it; not defined: all. Of masks those with a pixel that counts
    // Number of samples, or of tokens; defined if targets are classes or tokens.
    at::Tensor correct;
    at::Tensor logits;  // of each
  };
  // While one lives, steps run as they are, operator by operator, for who looks at them; with the arithmetic
  // of recorded ones.
  class PlainSteps {
   public:
    explicit PlainSteps(Learner& learner) : learner_(learner) { learner_.has_plain_steps_ = true; }
    ~PlainSteps() { learner_.has_plain_steps_ = false; }
    PlainSteps(const PlainSteps&) = delete;
    PlainSteps& operator=(const PlainSteps&) = delete;

   private:
    Learner& learner_;
  };

  // Without gradients, in evaluation mode, with the averages of the parameters where the recipe has these averaged, and
  // with the loss as it is without smoothing and class weights. Scalars on the device.
  [[nodiscard]] Score score(const DeviceBatch& batch);
  // The same way: the model's whole answer alone, in 32 bit on the host.
  [[nodiscard]] at::Tensor logits(const DeviceBatch& batch);
  // The answer without the averages, in 32 bit on the host; of one for every pixel a grid of at most 64 x 64 pixels, of
  // tokens at the last position.
  [[nodiscard]] at::Tensor outputs(const DeviceBatch& batch);

  // Calls `on_gradient(i)` whenever trained parameter i gets a gradient, as long as the returned object lives.
  class GradientWatch;
  [[nodiscard]] std::unique_ptr<GradientWatch> watch_gradients(
      std::function<void(std::size_t)> on_gradient);

  // Copies of everything but position and counts, in the memory of the host: that of a GPU is for the training.
  // Page-locked memory is filled faster, and takes longer to get the first time.
  [[nodiscard]] Checkpoint capture(HostMemory memory = HostMemory::pageable);
  // Adds the parameters and averages that have a second name in PyTorch (Model::tied_names()).
  void add_tied_names(Checkpoint& checkpoint) const;
  // ErrorKind::invalid when the checkpoint is of another model; then nothing has changed.
  [[nodiscard]] Result<void> restore(const Checkpoint& checkpoint);

  // What fp16 multiplies the loss by; nothing in other arithmetic. Waits for the device.
  [[nodiscard]] std::optional<double> loss_scale();
  void set_loss_scale(double scale);

  void drop_gradients();
  // And what was recorded.
  void drop_step();

  // Those that are not frozen.
  [[nodiscard]] std::size_t parameter_tensors() const { return trained_parameters().size(); }
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] std::int64_t parameter_bytes() const;
  [[nodiscard]] std::int64_t classes() const;
  // "model" and below, by the addresses of modules and of parameters, for a recording.
  [[nodiscard]] profiler::ModulePaths module_paths() const;

 private:
  Learner(std::shared_ptr<Model> model, LossFunction loss, at::Device device);

  [[nodiscard]] at::Tensor forward(const at::Tensor& images);
  [[nodiscard]] at::Tensor compute_loss(const LossFunction& loss, const at::Tensor& logits,
                                        const at::Tensor& labels) const;
  [[nodiscard]] std::vector<at::Tensor> trained_parameters() const;
  [[nodiscard]] at::Tensor plain_or_recorded_step(const DeviceBatch& batch, double learning_rate);
  // Of several ranks: what goes before the forward pass of a step.
  void begin_shared_step();
  [[nodiscard]] std::vector<at::Tensor> buffer_tensors() const;
  // Forward and backward. Returns the loss; with a share, that share of its gradients is added. After the last ones of a
  // step, gradients are those of all ranks.
  [[nodiscard]] at::Tensor add_gradients(const at::Tensor& images, const at::Tensor& labels,
                                         std::optional<double> share, bool is_last);
  // The same part by part, each with its share of the samples; the mean loss of them.
  [[nodiscard]] at::Tensor add_gradients_of_parts(const DeviceBatch& batch);
  // Views of the parts that a step goes through, in order.
  [[nodiscard]] std::vector<at::Tensor> parts_of(const at::Tensor& batch) const;
  // `learning_rate` goes for steps that are not on the device.
  [[nodiscard]] at::Tensor whole_step(const DeviceBatch& batch, double learning_rate);
  void tell_labels(const at::Tensor& labels) const;
  void zero_gradients();
  void step_optimizer(double learning_rate);
  void clip_gradients();
  [[nodiscard]] std::vector<const void*> memory();
  void set_memory_format(bool is_channels_last);
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  std::shared_ptr<Model> model_;
  LossFunction loss_;
  LossFunction test_loss_;
  recipes::StepRules rules_;
  InputWatch input_watch_;
  Forward forward_;  // empty: the model's own
  at::Device device_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  NamedTensors buffers_;
  std::vector<ParameterGroup> groups_;
  std::unique_ptr<WeightAverage> average_;  // null: none
  LossScaler scaler_;
  LearnerSettings settings_;
  std::unique_ptr<GraphStep> graph_;
  bool has_plain_steps_ = false;
  RankGroup* ranks_ = nullptr;                // null: it trains alone
  std::unique_ptr<GradientReducer> reducer_;  // null: until the next step of several ranks
};

class Learner::GradientWatch {
 public:
  GradientWatch(std::vector<at::Tensor> parameters, std::function<void(std::size_t)> on_gradient);
  ~GradientWatch();
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<unsigned> hooks_;
};

}  // namespace autotuned::trainer
