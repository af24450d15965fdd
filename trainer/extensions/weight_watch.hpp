// SPDX-License-Identifier: Apache-2.0
// Sees whether code changes the parameters, buffers and modes of a model. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/extensions/draws.hpp"

namespace torch::nn {
class Module;
}

namespace autotuned::trainer {

// Compares every tensor by what costs nothing to read: its count of changes in place, where its numbers lie, and whether
// it is trained. A write through a pointer changes none of these. So a few numbers are compared as well; their places are
// drawn anew at each look, and the tensors have their turns. A change of all weights is seen at once by its numbers
// alone, one of a single number hardly ever. To read numbers on a GPU waits for it: there they are compared in a few
// steps only, which nobody can know beforehand. Besides, hashes can show whether any number has changed: they take about
// as long as a copy of the model. One thread.
class WeightWatch {
 public:
  static constexpr std::size_t kPlaces = 10;  // numbers of one look
  static constexpr std::size_t kPlacesOnDevice = 2;
  static constexpr std::uint64_t kStepsForOneOnDevice = 64;  // on average
  static constexpr std::uint64_t kStepsForAllNumbers = 1024;
  static constexpr std::size_t kBuffers =
      64;  // that are compared around the model, one number of each
  enum class Of { parameters, all };

  // Watches the tensors and modules of this model from now on, and keeps them alive, but not the model itself.
  void watch(const torch::nn::Module& model);
  // A step begins: draws whether numbers on a GPU are compared in it, and whether it is one of those in which all are.
  void begin_step();
  // Whether all numbers are to be compared in this step; on a GPU never.
  [[nodiscard]] bool is_drawn_for_all() const { return is_drawn_for_all_; }
  // Notes the present state, and that of the gradients of parameters.
  void take();
  void take_gradients();
  // Notes all numbers, until begin_step() or drop_all_numbers().
  void take_all_numbers();
  void drop_all_numbers() { hashes_.clear(); }
  // What has changed since take(), as a clause; empty: nothing that is visible. The modes of modules always count.
  [[nodiscard]] std::string difference(Of of) const;
  // What has changed in the gradients since take_gradients(), in place or for others, as a clause. Their numbers are not
  // compared.
  [[nodiscard]] std::string difference_of_gradients() const;
  // Whether a parameter has got a gradient since then.
  [[nodiscard]] bool has_new_gradient() const;
  // The same as difference() of parameters, by numbers alone: they may have been elsewhere in between.
  [[nodiscard]] std::string difference_in_numbers() const;
  // The buffers in a forward pass of a step: their numbers at its begin, and each time that the model has returned, since
  // only the model may move them.
  void begin_buffers();
  void add_buffers();
  // How often it has returned.
  [[nodiscard]] std::size_t model_calls() const {
    return buffer_numbers_.empty() ? 0 : buffer_numbers_.size() - 1;
  }
  // Where numbers of buffers are none that they had at one of these times, as a clause. Who calls the model more often
  // than once puts back what further calls have moved. `may_be_as_at_begin`: the model may yet be called.
  [[nodiscard]] std::string difference_of_buffers(bool may_be_as_at_begin) const;
  // What has changed since take_all_numbers(); empty also if they are not noted.
  [[nodiscard]] std::string difference_in_all_numbers(Of of) const;

 private:
  struct Watched {
    std::string name;
    at::Tensor tensor;
  };
  struct WatchedModule {
    std::string name;  // empty: the model itself
    const torch::nn::Module* module = nullptr;
    std::shared_ptr<const torch::nn::Module> kept;  // null for the model itself
    bool is_training = false;
  };
  struct State {
    std::uint32_t changes = 0;  // in place, counted by LibTorch
    const void* data = nullptr;
    bool is_trained = false;

    friend bool operator==(const State&, const State&) = default;
  };
  struct Gradient {
    std::uint32_t changes = 0;
    const void* data = nullptr;  // null: there is none

    friend bool operator==(const Gradient&, const Gradient&) = default;
  };
  using Number = std::array<std::byte, 16>;  // of any type
  struct Sample {
    std::size_t tensor = 0;
    std::int64_t place = 0;
    Number number{};
  };

  [[nodiscard]] static State state_of(const at::Tensor& tensor);
  [[nodiscard]] static Gradient gradient_of(const at::Tensor& parameter);
  struct Place {
    std::size_t tensor = 0;
    std::int64_t place = 0;
  };
  // `waits`: for a device, too.
  [[nodiscard]] static bool has_numbers(const at::Tensor& tensor, bool waits);
  [[nodiscard]] static Number number_at(const at::Tensor& tensor, std::int64_t place);
  [[nodiscard]] std::string difference_of_modes() const;
  [[nodiscard]] std::string difference_in_numbers(std::size_t count) const;
  [[nodiscard]] std::size_t count_of(Of of) const {
    return of == Of::all ? watched_.size() : parameters_;
  }
  [[nodiscard]] std::string name_of(std::size_t tensor) const;
  // Whether there is still a number, and it is this one.
  [[nodiscard]] bool is_at(std::size_t tensor, std::int64_t place, const Number& number) const;
  [[nodiscard]] std::int64_t draw_place_in(const at::Tensor& tensor);

  std::vector<Watched> watched_;  // first the parameters
  std::size_t parameters_ = 0;
  std::vector<State> states_;        // of each
  std::vector<Gradient> gradients_;  // of each parameter, once they are noted
  std::vector<Sample> samples_;
  std::vector<Place> buffer_places_;
  std::vector<std::vector<Number>> buffer_numbers_;  // at these places, at each time
  std::vector<std::uint64_t> hashes_;                // of each tensor; empty: not noted
  std::vector<WatchedModule> modules_;
  std::size_t next_parameter_ = 0;  // whose turn it is
  std::size_t next_buffer_ = 0;
  Draws draws_;
  bool reads_device_ = false;
  bool is_drawn_for_all_ = false;
};

// "module hidden in evaluation mode"; without a name, "the model in ...".
[[nodiscard]] std::string module_in_mode(const std::string& name, bool is_training);

}  // namespace autotuned::trainer
