// SPDX-License-Identifier: Apache-2.0
// Checkpoints in memory, and what they cost a training.
#include <algorithm>
#include <system_error>
#include <utility>

#include "profiler/spans.hpp"
#include "trainer/common/process_memory.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/state/data_identity.hpp"

namespace autotuned::trainer {

using profiler::now_ns;
using profiler::Span;

Result<std::int64_t> Job::State::keep(const std::string& name) {
  Checkpoint checkpoint = capture();
  checkpoint.outputs = std::exchange(outputs_, {});
  const std::int64_t bytes = checkpoint.bytes();
  checkpoints_[name] = std::move(checkpoint);
  return bytes;
}

Result<const Checkpoint*> Job::State::find(const std::string& name) const {
  const auto found = checkpoints_.find(name);
  if (found == checkpoints_.end()) {
    return fail(ErrorKind::not_found, "there is no checkpoint of this name", name);
  }
  return &found->second;
}

void Job::State::put(const std::string& name, Checkpoint checkpoint) {
  checkpoints_[name] = std::move(checkpoint);
}

Json Job::State::data_identity() const {
  Json identity = {{"train", data_identity_of(*train_data_)}};
  if (test_data_ != nullptr) identity["test"] = data_identity_of(*test_data_);
  return identity;
}

std::vector<std::string> Job::State::damaged_names() const {
  std::vector<std::string> names;
  for (const input::Dataset* data : {train_data_.get(), test_data_.get()}) {
    if (data == nullptr || data->damage() == nullptr) continue;
    for (Error& error : data->damage()->found(0))
      names.push_back(std::move(error.where));
  }
  return names;
}

Result<void> Job::State::time_checkpoint(const std::filesystem::path& file) {
  if (checkpoint_copy_ns_ > 0) return {};
  // Parameters and up to two moments of each, as copy and as file, which grows by doubling.
  if (available_memory_bytes(memory_allowed_bytes_) < 12 * facts_.parameter_bytes) {
    return fail(ErrorKind::out_of_memory, "too little memory to time a checkpoint");
  }
  synchronize();
  const std::int64_t start = now_ns();
  const Checkpoint checkpoint = capture();
  synchronize();
  const std::int64_t copied = now_ns();
  const auto written = write_checkpoint(file, checkpoint, "");
  const std::int64_t end = now_ns();
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  if (!written) return tl::unexpected(written.error());
  checkpoint_copy_ns_ = std::max<std::int64_t>(copied - start, 1);
  checkpoint_write_ns_ = end - copied;
  return {};
}

Result<void> Job::State::begin_block_checkpoint(const std::filesystem::path& file) {
  if (writer_.is_busy()) {  // the block has started over
    if (const auto written = writer_.finish(); !written) return tl::unexpected(written.error());
  }
  const Span span(profiler::span::kCheckpoint);
  const bool is_async = configuration_.flag("checkpoint.async");
  Checkpoint checkpoint = [&] {
    const Span copying(profiler::span::kCheckpointCopy);
    return capture(is_async ? HostMemory::page_locked : HostMemory::pageable);
  }();
  if (is_async) {
    writer_.begin(file, std::move(checkpoint), "");
    return {};
  }
  const Span writing(profiler::span::kCheckpointWrite);
  const auto written = write_checkpoint(file, checkpoint, "");
  if (!written) return tl::unexpected(written.error());
  return {};
}

Result<void> Job::State::end_block_checkpoint(const std::filesystem::path& file) {
  Result<void> result;
  if (writer_.is_busy()) {
    if (const auto written = writer_.finish(); !written) result = tl::unexpected(written.error());
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return result;
}

}  // namespace autotuned::trainer
