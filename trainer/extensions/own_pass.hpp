// SPDX-License-Identifier: Apache-2.0
// Computes a step or an answer once more by the model alone. Private to trainer/: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trainer/extensions/draws.hpp"
#include "trainer/extensions/likeness.hpp"
#include "trainer/feed/feed.hpp"

namespace autotuned::trainer {

class Learner;

// How often steps are repeated so.
enum class Repeats : std::uint8_t { never, drawn, always };

// How near what extensions compute must come to what the model computes.
enum class Closeness : std::uint8_t {
  equal,  // value for value on a CPU; on a GPU, or if the model itself does not repeat its values there, as `near`
  near,   // is_near()
};

// The code of extensions comes between the model and the optimizer, or the figures of an evaluation. What it computes
// there is compared with what the model computes by itself from the same batch, weights, buffers and random numbers.
// That is done after the code has run, in steps that it cannot know beforehand. Afterwards gradients, buffers, weights
// and random numbers are as the extensions have left them. One thread.
class OwnPass {
 public:
  static constexpr std::uint64_t kStepsForOne = 256;  // drawn, on average

  OwnPass();
  ~OwnPass();

  // Whether a step is to be repeated.
  [[nodiscard]] bool takes_step(Repeats repeats);

  // Keeps what a step on this batch begins with, or an answer to these images, until drop(). If memory lacks for that,
  // it keeps nothing, and lacks_memory().
  void begin_step(Learner& learner, const DeviceBatch& batch);
  void begin_answer(Learner& learner, const at::Tensor& images);
  void drop();
  [[nodiscard]] bool has_begun() const { return begun_ != nullptr; }
  // Whether memory has lacked for copies or for a second computation since the last drop(), so that nothing was compared.
  [[nodiscard]] bool lacks_memory() const { return lacks_memory_; }
  // In how many comparisons so far the values that extensions have left were not near, and those of a second pass by the
  // model itself were not either, so that nothing was said.
  [[nodiscard]] std::int64_t unrepeated() const { return unrepeated_; }
  // Forgets how long the gradients of compared steps were. To be called when other values of knobs are applied.
  void forget_steps() { ratios_.forget(); }

  // What is different in the gradients of parameters and in buffers, as a clause; empty: nothing, or lacks_memory(). To
  // be called before the optimizer moves anything. REQUIRES: has_begun(), by begin_step().
  [[nodiscard]] std::string difference_of_step(Learner& learner, Closeness asked);
  // The same of the answer, in the evaluation mode in which it was made. REQUIRES: has_begun(), by begin_answer().
  [[nodiscard]] std::string difference_of_answer(Learner& learner, const at::Tensor& answer,
                                                 Closeness asked);

 private:
  struct Begun;
  struct Computed {
    TensorList values;   // the gradient of each parameter, or the answer
    TensorList buffers;  // afterwards
  };
  enum class Weights : std::uint8_t {
    as_they_are,
    rounded,  // to 16 bits
    moved,  // by about a unit of 16 bits, and rounded to them: also where the job itself computes in 16 bits
  };

  void begin(Learner& learner, const DeviceBatch& batch, bool is_step);
  [[nodiscard]] std::string difference(Learner& learner, TensorList values, Closeness asked);
  [[nodiscard]] std::string judge(Learner& learner, const Computed& left, Closeness asked);
  // By the model alone.
  [[nodiscard]] Computed compute(Learner& learner, Weights weights);
  // What is different in these, as a clause.
  [[nodiscard]] std::string exact_fault(const Computed& left, const Computed& own) const;
  // `rounded`: from weights that are rounded to 16 bits; `again`: by the model once more, which excuses what is not near
  // to `own` there; null: not known.
  [[nodiscard]] std::string near_fault(const Computed& left, const Computed& own,
                                       const Computed* rounded, const Computed* again) const;
  [[nodiscard]] bool has_near_values(const Computed& left, const Computed& own,
                                     const Computed* rounded) const;
  [[nodiscard]] bool has_near_buffer(const Computed& left, const Computed& own, std::size_t buffer,
                                     const Computed* rounded) const;
  // The same of single parameters, in a step whose gradients are near as a whole. Small ones hardly count in that.
  [[nodiscard]] std::string parameter_fault(Learner& learner, const Computed& left,
                                            const Computed& own);
  // The same of all compared steps together, with this one, which is near.
  [[nodiscard]] std::string steady_fault(const Computed& left, const Computed& own);
  [[nodiscard]] Likeness likeness_of_values(const TensorList& left, const TensorList& own) const;
  [[nodiscard]] Likeness likeness_of_buffer(const Computed& left, const Computed& own,
                                            std::size_t buffer) const;
  [[nodiscard]] std::string other_values(const Computed& left, const Computed& own) const;
  // `where`: before how they differ, such as "of parameter hidden.bias: ".
  [[nodiscard]] std::string other_values(const Likeness& likeness, const std::string& where) const;
  [[nodiscard]] std::string other_values() const;
  [[nodiscard]] std::string other_buffer(std::size_t buffer) const;

  Draws draws_;
  std::unique_ptr<Begun> begun_;  // null: nothing is kept
  bool lacks_memory_ = false;
  std::int64_t unrepeated_ = 0;
  NormRatios ratios_;  // of the gradients of compared steps
};

}  // namespace autotuned::trainer
