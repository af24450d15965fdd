// SPDX-License-Identifier: Apache-2.0
// What LibTorch keeps beside tensors and what decides how operators compute. Private to trainer/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace autotuned::trainer {

// A snapshot of it. Of the present thread: autocast, whether gradients are recorded, hooks of saved tensors, dispatch
// keys; and the callbacks of operators, those of the process as well. Of the process: precisions, algorithms, the
// number of intra-op threads, and flushing of denormal numbers, which is known on x86 only. A value.
class ComputeState {
 public:
  static constexpr std::size_t kParts = 39;
  enum class Of : std::uint8_t {
    thread,  // and callbacks of operators
    all,
  };

  // Of the present thread and the process. Takes about a microsecond.
  [[nodiscard]] static ComputeState now();

  // The parts that are as in `from` become those of `to`.
  void take_change(const ComputeState& from, const ComputeState& to);
  // The first part that is other than in `before`, as a clause such as "changes autocast of the CPU from off to on
  // (bf16)"; empty: none.
  [[nodiscard]] std::string difference(const ComputeState& before, Of of) const;

 private:
  std::array<std::uint64_t, kParts> parts_{};
};

}  // namespace autotuned::trainer
