// SPDX-License-Identifier: Apache-2.0
// What an extension must leave of a model when it is applied, and restore when it is undone. Private to trainer/: includes
// LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace autotuned::trainer {

// Without numbers: WeightWatch compares those.
struct ModelState {
  struct Tensor {
    std::string name;
    const void* tensor = nullptr;  // its identity
    std::vector<std::int64_t> sizes;
    bool is_trained = false;

    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  // Where the numbers of a tensor lie. It may change: another order of dimensions, or another storage.
  struct Memory {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;  // begin: nowhere
    bool is_folded = false;  // some of its numbers may share memory
  };

  std::vector<Tensor> tensors;  // parameters, then buffers
  std::vector<Memory> memory;   // of each
  std::map<std::string, bool>
      modes;  // of each module, whether it trains; the model itself has no name
};

[[nodiscard]] ModelState model_state_of(const torch::nn::Module& model);

// Of parameters. Where it is allowed, so is memory that comes to be shared.
enum class Freezing { allowed, refused };

// The first tensor that differs, as a clause; empty: none. Memory that tensors shared before they may share.
[[nodiscard]] std::string tensor_difference(const ModelState& before, const ModelState& after,
                                            Freezing freezing);
// The first module that is still there and in another mode, likewise.
[[nodiscard]] std::string mode_difference(const ModelState& before, const ModelState& after);
// The same around an undo: `before` is that before apply(), `found` that before undo(). Modules may have got another
// mode in between by the model's own forward, an evaluation or another extension, so one that is left as it was found
// does not count. Of an extension that may switch modes itself this holds for training mode alone, to which evaluations
// put all modules back.
[[nodiscard]] std::string mode_difference_of_undo(const ModelState& before, const ModelState& found,
                                                  const ModelState& after, bool may_switch);

}  // namespace autotuned::trainer
