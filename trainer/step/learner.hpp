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
  // Settings of the whole process that others apply. They are here because a recorded step keeps the values of its
  // recording.
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

  // Called with the input of the model in each step: first once with the labels, then with the images of every call of
  // its forward, by any caller; of those that an extension makes in a step, only of those with gradients, which train.
  // Called without gradients and autocast. Empty functions are not called.
  struct InputWatch {
    std::function<void(const at::Tensor& labels)> labels;
    std::function<void(const at::Tensor& images)> images;
  };
  void watch_inputs(InputWatch watch) { input_watch_ = std::move(watch); }
  // Passes these images to the watch. For code that calls the model's forward instead of the learner.
  void tell_images(const at::Tensor& images) const;

  // Sets a function that runs instead of the model's forward; null: the model's own again.
  using Forward = std::function<at::Tensor(const at::Tensor& images)>;
  void set_forward(Forward forward);
  // Sets what is called in each step when all gradients are there, before the optimizer moves anything; null: nothing.
  // Not called where a recorded step is replayed.
  void set_before_update(std::function<void()> work) { before_update_ = std::move(work); }
  void set_recorder(std::unique_ptr<GraphRecorder> recorder);
  [[nodiscard]] bool has_recorder() const { return graph_ != nullptr; }
  // Device memory that a recorded step holds for its replays, and that LibTorch counts as free.
  [[nodiscard]] std::int64_t recorded_bytes() const {
    return graph_ != nullptr ? graph_->held_bytes() : 0;
  }
  [[nodiscard]] Model& model() { return *model_; }

  // Joins a group of ranks: from now on each makes the same steps on batches of its own, with the mean of all gradients
  // and the buffers of the leader. REQUIRES: no graph. The group must outlive the learner.
  void join(RankGroup& group);
  // The leader's parameters and buffers replace those of the other ranks. REQUIRES: join().
  void take_state_from_leader();

  // How long the backward pass of the last step waited for gradients of other ranks after its own were complete; 0
  // without other ranks.
  [[nodiscard]] std::int64_t rank_wait_ns() const {
    return reducer_ != nullptr ? reducer_->waited_ns() : 0;
  }

  // Makes one step on a batch. Returns the loss as a scalar on the device, without waiting for it.
  [[nodiscard]] at::Tensor step(const DeviceBatch& batch, double learning_rate);
  // The gradients of such a step from the present weights, before the optimizer moves anything and scaled as there, by
  // the model's own forward and without hooks of parameters: one for each parameter, not defined where there is none.
  // Buffers and generators move as in a step; nothing else changes, and no watch is called. REQUIRES: no join(), no
  // graph.
  [[nodiscard]] std::vector<at::Tensor> own_gradients(const DeviceBatch& batch);

  struct Score {
    at::Tensor loss_sum;  // over samples
    at::Tensor counted;  // samples in it; not defined: all. Of masks those with a pixel that counts
    // Number of samples, or of tokens; defined if targets are classes or tokens.
    at::Tensor correct;
    at::Tensor logits;  // of each
  };
  // While one lives, steps run operator by operator instead of from a recording, so that they can be observed; their
  // arithmetic is that of recorded steps.
  class PlainSteps {
   public:
    explicit PlainSteps(Learner& learner) : learner_(learner) { learner_.has_plain_steps_ = true; }
    ~PlainSteps() { learner_.has_plain_steps_ = false; }
    PlainSteps(const PlainSteps&) = delete;
    PlainSteps& operator=(const PlainSteps&) = delete;

   private:
    Learner& learner_;
  };

  // While one lives, steps are plain, and the optimizer is given gradients of zero and this learning rate. Such a
  // step shows what the optimizer does by itself: weight decay and momentum.
  class StepsWithoutGradients {
   public:
    StepsWithoutGradients(Learner& learner, double learning_rate)
        : plain_(learner), learner_(learner) {
      learner_.rate_without_gradients_ = learning_rate;
    }
    ~StepsWithoutGradients() { learner_.rate_without_gradients_.reset(); }
    StepsWithoutGradients(const StepsWithoutGradients&) = delete;
    StepsWithoutGradients& operator=(const StepsWithoutGradients&) = delete;

   private:
    PlainSteps plain_;
    Learner& learner_;
  };

  // While one lives, the averages of the parameters are copied once, if code of others runs in the forward pass, and not
  // for each batch. There must be no steps meanwhile.
  class Evaluation {
   public:
    explicit Evaluation(Learner& learner) : average_(learner.average_.get()) {
      if (average_ != nullptr) average_->keep_copies(true);
    }
    ~Evaluation() {
      if (average_ != nullptr) average_->keep_copies(false);
    }
    Evaluation(const Evaluation&) = delete;
    Evaluation& operator=(const Evaluation&) = delete;

   private:
    WeightAverage* average_;
  };

  // Evaluates a batch: without gradients, in evaluation mode, with the averages of the parameters if the recipe has
  // them, and with the loss without smoothing and class weights. Scalars are on the device.
  [[nodiscard]] Score score(const DeviceBatch& batch);
  // The model's whole output in the same way, in 32 bits on the host.
  [[nodiscard]] at::Tensor logits(const DeviceBatch& batch);
  // The output without the averages, in 32 bits on the host. Of an output for every pixel, a grid of at most 64 x 64
  // pixels; of tokens, the last position.
  [[nodiscard]] at::Tensor outputs(const DeviceBatch& batch);

  // Calls `on_gradient(i)` whenever trained parameter i gets a gradient, as long as the returned object lives.
  class GradientWatch;
  [[nodiscard]] std::unique_ptr<GradientWatch> watch_gradients(
      std::function<void(std::size_t)> on_gradient);

  // Copies the whole state except position and counts to host memory: GPU memory is for the training. Page-locked
  // memory is filled faster, but takes longer to allocate the first time.
  [[nodiscard]] Checkpoint capture(HostMemory memory = HostMemory::pageable);
  // The parameters alone.
  [[nodiscard]] NamedTensors capture_parameters() const;
  // Adds the parameters and averages that have a second name in PyTorch (Model::tied_names()).
  void add_tied_names(Checkpoint& checkpoint) const;
  // ErrorKind::invalid when the checkpoint is of another model; then nothing has changed.
  [[nodiscard]] Result<void> restore(const Checkpoint& checkpoint);

  // How often restore() or take_state_from_leader() has set parameters and buffers.
  [[nodiscard]] std::int64_t times_set() const { return times_set_; }

  // The loss scale of fp16; nothing in other arithmetic. Waits for the device.
  [[nodiscard]] std::optional<double> loss_scale();
  void set_loss_scale(double scale);

  void drop_gradients();
  // Drops the gradients and the recorded step.
  void drop_step();

  // The number of parameter tensors that are not frozen.
  [[nodiscard]] std::size_t parameter_tensors() const { return trained_parameters().size(); }
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] std::int64_t parameter_bytes() const;
  // Whether a parameter has four dimensions, so that `set_memory_format()` changes its order.
  [[nodiscard]] bool has_filters() const;
  [[nodiscard]] std::int64_t classes() const;
  // The names of modules, "model" and below, by the addresses of modules and of parameters, for a recording.
  [[nodiscard]] profiler::ModulePaths module_paths() const;

 private:
  Learner(std::shared_ptr<Model> model, LossFunction loss, at::Device device);

  [[nodiscard]] at::Tensor forward(const at::Tensor& images);
  [[nodiscard]] at::Tensor compute_loss(const LossFunction& loss, const at::Tensor& logits,
                                        const at::Tensor& labels) const;
  [[nodiscard]] std::vector<at::Tensor> trained_parameters() const;
  [[nodiscard]] at::Tensor plain_or_recorded_step(const DeviceBatch& batch, double learning_rate);
  // With several ranks: the work before the forward pass of a step.
  void begin_shared_step();
  [[nodiscard]] std::vector<at::Tensor> buffer_tensors() const;
  // Forward and backward pass. Returns the loss. With a share, adds that share of the gradients. After the last call of
  // a step, the gradients are the mean of all ranks.
  [[nodiscard]] at::Tensor add_gradients(const at::Tensor& images, const at::Tensor& labels,
                                         std::optional<double> share, bool is_last);
  // The same part by part, each with its share of the samples. Returns the mean loss.
  [[nodiscard]] at::Tensor add_gradients_of_parts(const DeviceBatch& batch);
  // Views of the parts of a batch that a step processes one after the other.
  [[nodiscard]] std::vector<at::Tensor> parts_of(const at::Tensor& batch) const;
  // `learning_rate` is used for steps whose learning rate is not on the device.
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
  std::function<void()> before_update_;
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
  std::optional<double> rate_without_gradients_;  // of StepsWithoutGradients
  RankGroup* ranks_ = nullptr;                    // null: it trains alone
  std::unique_ptr<GradientReducer> reducer_;      // null: until the next step of several ranks
  std::int64_t times_set_ = 0;
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
