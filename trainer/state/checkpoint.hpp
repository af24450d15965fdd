// SPDX-License-Identifier: Apache-2.0
// The state of a training: kept in memory, compared, written to files. Private to trainer/: LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "trainer/input/common/epoch_order.hpp"
#include "trainer/state/comparison.hpp"

namespace autotuned::trainer {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

inline constexpr const char* kOutputsBefore = "before";
inline constexpr const char* kOutputsAfter = "after";
// Before the name of a parameter: its values after one step with gradients of zero.
inline constexpr const char* kWithoutGradients = "without gradients: ";

struct Checkpoint {
  NamedTensors parameters;  // copies, in whatever memory format
  NamedTensors buffers;
  NamedTensors optimizer;  // only what is defined
  NamedTensors averages;   // of the parameters, where the recipe has these averaged
  NamedTensors others;     // loss scaler and random generators
  // Of a check: the model's outputs in evaluation mode, kOutputsBefore and kOutputsAfter its steps, and the parameters
  // kWithoutGradients.
  NamedTensors outputs;
  input::Position position;
  std::int64_t steps = 0;  // trained since the initial state
  std::int64_t samples = 0;

  [[nodiscard]] std::int64_t bytes() const;
};

// Functions below throw c10::Error when memory runs out.

// Writes one archive, which PyTorch's `torch.load` reads as a dictionary of tensors. read_checkpoint() returns `note`
// again. Writes a file beside `file` and renames it. Returns the number of bytes.
[[nodiscard]] Result<std::int64_t> write_checkpoint(const std::filesystem::path& file,
                                                    const Checkpoint& checkpoint,
                                                    const std::string& note);
struct CheckpointFile {
  Checkpoint checkpoint;
  std::string note;
};
// ErrorKind::corrupt when it is not such a file, or a checksum in it is wrong; ErrorKind::not_found when it is not there.
[[nodiscard]] Result<CheckpointFile> read_checkpoint(const std::filesystem::path& file);

// Writes only parameters and buffers: a state dictionary for `torch.load` and `load_state_dict`.
[[nodiscard]] Result<std::int64_t> write_model(const std::filesystem::path& file,
                                               const Checkpoint& checkpoint);

// The same with the averages instead of the parameters.
[[nodiscard]] Result<std::int64_t> write_averaged_model(const std::filesystem::path& file,
                                                        const Checkpoint& checkpoint);
// Reads a file of write_model(), or of PyTorch's torch.save(dict(model.state_dict()), file). ErrorKind::corrupt when it
// is no dictionary of tensors, or a checksum in it is wrong; ErrorKind::not_found when it is not there.
[[nodiscard]] Result<NamedTensors> read_model(const std::filesystem::path& file);

// SHA-256 over names, shapes and values of parameters, buffers and averages; -0 counts as +0.
[[nodiscard]] std::string digest_of(const Checkpoint& checkpoint);

// The checkpoint with every parameter rounded to 16 bits (bfloat16): a start that 16-bit arithmetic cannot tell from
// the original.
[[nodiscard]] Checkpoint rounded(const Checkpoint& checkpoint);

// The checkpoint with the optimizer's state and the loss scale of `initial`, a checkpoint of the same training.
[[nodiscard]] Checkpoint renewed(Checkpoint checkpoint, const Checkpoint& initial);

// Compares the updates reference - base and candidate - candidate_base (null: base). ErrorKind::invalid: they are not
// of the same model.
[[nodiscard]] Result<Comparison> compare(const Checkpoint& base, const Checkpoint& reference,
                                         const Checkpoint& candidate,
                                         const Checkpoint* candidate_base = nullptr);

}  // namespace autotuned::trainer
