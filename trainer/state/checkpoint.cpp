// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/checkpoint.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Dict.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <span>
#include <string_view>

#include "base/digest.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "trainer/common/archive_check.hpp"
#include "trainer/common/precision.hpp"

namespace autotuned::trainer {
namespace {

// Keys of a file: a group and the tensor's own name.
constexpr std::string_view kParameters = "parameters/";
constexpr std::string_view kBuffers = "buffers/";
constexpr std::string_view kOptimizer = "optimizer/";
constexpr std::string_view kAverages = "averages/";
constexpr std::string_view kOthers = "others/";
constexpr std::string_view kOutputs = "outputs/";
constexpr const char* kDelete = "delete the file";
constexpr const char* kNote = "note";
constexpr const char* kNumbers = "numbers";  // epoch, sample, steps, samples
constexpr std::size_t kMaxCheckpointBytes = std::size_t{1} << 40U;

using Dictionary = c10::Dict<std::string, at::Tensor>;

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU).contiguous();
}

at::Tensor bytes_of(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, bytes.mutable_data_ptr<std::uint8_t>());
  return bytes;
}

void insert_all(Dictionary& dictionary, std::string_view group, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    dictionary.insert(std::string(group) + name, to_host(tensor));
  }
}

// Writes the form of Python's torch.save. torch::pickle_save would tag the dictionary with its type, which torch.load
// refuses unless it is told to trust the file.
std::string archive_of(const Dictionary& dictionary) {
  std::string pickled;
  torch::jit::Pickler pickler(
      [&pickled](const char* data, std::size_t size) { pickled.append(data, size); }, nullptr,
      nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dictionary);
  pickler.stop();

  std::string archive;
  caffe2::serialize::PyTorchStreamWriter writer([&archive](const void* data, std::size_t size) {
    archive.append(static_cast<const char*>(data), size);
    return size;
  });
  for (std::size_t i = 0; i < pickler.tensorData().size(); ++i) {
    const c10::Storage& storage = pickler.tensorData()[i].storage();
    writer.writeRecord("data/" + std::to_string(i), storage.data(), storage.nbytes());
  }
  writer.writeRecord("data.pkl", pickled.data(), pickled.size());
  writer.writeEndOfFile();
  return archive;
}

Result<std::int64_t> write_dictionary(const std::filesystem::path& file,
                                      const Dictionary& dictionary) {
  const std::string archive = archive_of(dictionary);
  if (auto written = write_file_atomically(file, archive); !written) {
    return tl::unexpected(written.error());
  }
  return static_cast<std::int64_t>(archive.size());
}

tl::unexpected<Error> corrupt(const std::filesystem::path& file, const std::string& what) {
  return fail(ErrorKind::corrupt, what, file.string(), kDelete);
}

bool are_alike(const NamedTensors& some, const NamedTensors& others) {
  return std::ranges::equal(some, others, [](const auto& left, const auto& right) {
    return left.first == right.first && left.second.sizes() == right.second.sizes() &&
           left.second.scalar_type() == right.second.scalar_type();
  });
}

double norm_of(const at::Tensor& update) {
  return update.norm().item<double>();
}

ParameterComparison compare_updates(const std::string& name, const at::Tensor& reference,
                                    const at::Tensor& candidate) {
  ParameterComparison result{
      .name = name, .reference_norm = norm_of(reference), .candidate_norm = norm_of(candidate)};
  const bool is_reference_zero = result.reference_norm == 0.0;
  const bool is_candidate_zero = result.candidate_norm == 0.0;
  if (is_reference_zero && is_candidate_zero) return result;
  if (is_reference_zero || is_candidate_zero) {
    result.norm_ratio = is_reference_zero ? std::numeric_limits<double>::infinity() : 0.0;
    result.cosine = 0.0;
    return result;
  }
  result.norm_ratio = result.candidate_norm / result.reference_norm;
  result.cosine = (reference * candidate).sum().item<double>() /
                  (result.reference_norm * result.candidate_norm);
  return result;
}

at::Tensor find_output(const Checkpoint& checkpoint, std::string_view name) {
  for (const auto& [one, tensor] : checkpoint.outputs) {
    if (one == name) return to_host(tensor).to(at::kDouble);
  }
  return {};
}

}  // namespace

std::int64_t Checkpoint::bytes() const {
  std::int64_t total = 0;
  for (const NamedTensors* group :
       {&parameters, &buffers, &optimizer, &averages, &others, &outputs}) {
    for (const auto& [name, tensor] : *group)
      total += static_cast<std::int64_t>(tensor.nbytes());
  }
  return total;
}

Result<std::int64_t> write_checkpoint(const std::filesystem::path& file,
                                      const Checkpoint& checkpoint, const std::string& note) {
  Dictionary dictionary;
  insert_all(dictionary, kParameters, checkpoint.parameters);
  insert_all(dictionary, kBuffers, checkpoint.buffers);
  insert_all(dictionary, kOptimizer, checkpoint.optimizer);
  insert_all(dictionary, kAverages, checkpoint.averages);
  insert_all(dictionary, kOthers, checkpoint.others);
  insert_all(dictionary, kOutputs, checkpoint.outputs);
  const at::Tensor numbers = at::empty({4}, at::kLong);
  auto* const number = numbers.mutable_data_ptr<std::int64_t>();
  number[0] = checkpoint.position.epoch;
  number[1] = checkpoint.position.sample;
  number[2] = checkpoint.steps;
  number[3] = checkpoint.samples;
  dictionary.insert(kNumbers, numbers);
  dictionary.insert(kNote, bytes_of(note));
  return write_dictionary(file, dictionary);
}

Result<CheckpointFile> read_checkpoint(const std::filesystem::path& file) {
  const auto bytes = read_file(file, kMaxCheckpointBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  if (auto whole = check_archive(*bytes, file, kDelete); !whole) return forward_error(whole);
  CheckpointFile result;
  bool has_numbers = false;
  try {
    const c10::IValue value = torch::jit::pickle_load({bytes->begin(), bytes->end()});
    if (!value.isGenericDict()) return corrupt(file, "is not a checkpoint");
    for (const auto& entry : value.toGenericDict()) {
      if (!entry.key().isString() || !entry.value().isTensor()) {
        return corrupt(file, "is not a checkpoint");
      }
      const std::string& key = entry.key().toStringRef();
      const at::Tensor& tensor = entry.value().toTensor();
      const auto put = [&](std::string_view group, NamedTensors& into) {
        if (!key.starts_with(group)) return;
        into.emplace_back(key.substr(group.size()), tensor);
      };
      put(kParameters, result.checkpoint.parameters);
      put(kBuffers, result.checkpoint.buffers);
      put(kOptimizer, result.checkpoint.optimizer);
      put(kAverages, result.checkpoint.averages);
      put(kOthers, result.checkpoint.others);
      put(kOutputs, result.checkpoint.outputs);
      if (key == kNote && tensor.scalar_type() == at::kByte) {
        const auto* const text = reinterpret_cast<const char*>(tensor.const_data_ptr());
        result.note.assign(text, tensor.nbytes());
      }
      if (key == kNumbers && tensor.scalar_type() == at::kLong && tensor.numel() == 4) {
        const auto* const number = tensor.const_data_ptr<std::int64_t>();
        result.checkpoint.position = {.epoch = number[0], .sample = number[1]};
        result.checkpoint.steps = number[2];
        result.checkpoint.samples = number[3];
        has_numbers = number[0] >= 0 && number[1] >= 0;
      }
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    if (is_no_archive(error.what())) {
      return corrupt(file, std::string("the checkpoint is damaged: ") + kNoArchive);
    }
    return corrupt(file, "cannot be read: " + first_line(error.what()));
  }
  if (!has_numbers) return corrupt(file, "is not a checkpoint");
  return result;
}

Result<std::int64_t> write_model(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  Dictionary dictionary;
  insert_all(dictionary, "", checkpoint.parameters);
  insert_all(dictionary, "", checkpoint.buffers);
  return write_dictionary(file, dictionary);
}

Result<std::int64_t> write_averaged_model(const std::filesystem::path& file,
                                          const Checkpoint& checkpoint) {
  Dictionary dictionary;
  insert_all(dictionary, "", checkpoint.averages);
  insert_all(dictionary, "", checkpoint.buffers);
  return write_dictionary(file, dictionary);
}

Result<NamedTensors> read_model(const std::filesystem::path& file) {
  constexpr const char* kRemedy =
      "give a file that torch.save(dict(model.state_dict()), FILE) or a run has written";
  const auto not_one = [&](const std::string& what) {
    return fail(ErrorKind::corrupt, what, file.string(), kRemedy);
  };
  const auto bytes = read_file(file, kMaxCheckpointBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  if (auto whole = check_archive(*bytes, file, "copy the file from its origin again"); !whole)
    return forward_error(whole);
  NamedTensors tensors;
  try {
    const c10::IValue value = torch::jit::pickle_load({bytes->begin(), bytes->end()});
    if (!value.isGenericDict()) return not_one("is no dictionary of tensors");
    for (const auto& entry : value.toGenericDict()) {
      if (!entry.key().isString() || !entry.value().isTensor()) {
        return not_one("is no dictionary of tensors");
      }
      tensors.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string message = error.what();
    // LibTorch takes every OrderedDict for the hooks of a tensor, and makes None of it.
    if (message.find("isGenericDict()") != std::string::npos) {
      return not_one("holds an OrderedDict, which LibTorch cannot read");
    }
    if (is_no_archive(message)) return not_one(std::string("cannot be read: ") + kNoArchive);
    return not_one("cannot be read: " + first_line(error.what()));
  }
  return tensors;
}

std::string digest_of(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  Sha256 sha;
  for (const NamedTensors* group :
       {&checkpoint.parameters, &checkpoint.buffers, &checkpoint.averages}) {
    for (const auto& [name, tensor] : *group) {
      std::string header = name + " " + c10::toString(tensor.scalar_type());
      for (const std::int64_t size : tensor.sizes())
        header += " " + std::to_string(size);
      sha.update(header + "\n");
      at::Tensor values = to_host(tensor);
      if (values.is_floating_point()) values = values + 0.0;  // -0 becomes +0
      sha.update(std::as_bytes(
          std::span(static_cast<const char*>(values.const_data_ptr()), values.nbytes())));
    }
  }
  return sha.finish();
}

Checkpoint rounded(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  Checkpoint result = checkpoint;
  for (auto& [name, tensor] : result.parameters)
    tensor = rounded_to_bfloat16(tensor);
  return result;
}

Checkpoint renewed(Checkpoint checkpoint, const Checkpoint& initial) {
  checkpoint.optimizer = initial.optimizer;
  for (auto& [name, tensor] : checkpoint.others) {
    if (!name.starts_with("scaler/")) continue;
    const auto first = std::ranges::find(initial.others, name, &NamedTensors::value_type::first);
    if (first != initial.others.end()) tensor = first->second;
  }
  return checkpoint;
}

Result<Comparison> compare(const Checkpoint& base, const Checkpoint& reference,
                           const Checkpoint& candidate, const Checkpoint* candidate_base) {
  const at::NoGradGuard no_grad;
  if (candidate_base == nullptr) candidate_base = &base;
  for (const Checkpoint* other : {&reference, &candidate, candidate_base}) {
    if (!are_alike(base.parameters, other->parameters) ||
        !are_alike(base.buffers, other->buffers)) {
      return fail(ErrorKind::invalid, "the checkpoints are of different models");
    }
  }
  Comparison result{.is_equal = true, .is_finite = true};
  const auto look_at = [&result](const at::Tensor& one, const at::Tensor& two) {
    const bool is_equal = at::equal(one, two);
    result.is_equal = result.is_equal && is_equal;
    result.is_finite = result.is_finite && at::isfinite(two).all().item<bool>();
    return is_equal;
  };
  // How the i-th tensor of a list was moved. `kind`: what stands before its name.
  const auto update_of = [&](NamedTensors Checkpoint::*list, std::size_t i, const char* kind = "") {
    const auto value = [list, i](const Checkpoint& of) { return to_host((of.*list)[i].second); };
    const at::Tensor one = value(reference);
    const at::Tensor two = value(candidate);
    return BufferComparison{
        .update = compare_updates(kind + (base.*list)[i].first,
                                  one.to(at::kDouble) - value(base).to(at::kDouble),
                                  two.to(at::kDouble) - value(*candidate_base).to(at::kDouble)),
        .is_floating = one.is_floating_point(),
        .is_equal = look_at(one, two)};
  };
  for (std::size_t i = 0; i < base.buffers.size(); ++i)
    result.buffers.push_back(update_of(&Checkpoint::buffers, i));
  for (std::size_t i = 0; i < base.parameters.size(); ++i)
    result.parameters.push_back(update_of(&Checkpoint::parameters, i).update);
  // Steps that begin without averages say nothing about how these move: they are what the first of the steps made.
  const bool are_averaged_alike = are_alike(reference.averages, candidate.averages);
  const bool have_moved = are_averaged_alike && are_alike(base.averages, candidate.averages) &&
                          are_alike(base.averages, candidate_base->averages);
  result.is_equal = result.is_equal && are_averaged_alike;
  for (std::size_t i = 0; i < candidate.averages.size(); ++i) {
    if (have_moved) {
      result.buffers.push_back(update_of(&Checkpoint::averages, i, "running average of "));
      continue;
    }
    const at::Tensor two = to_host(candidate.averages[i].second);
    look_at(are_averaged_alike ? to_host(reference.averages[i].second) : two, two);
  }
  for (std::size_t i = 0; i < base.parameters.size(); ++i) {
    const std::string& name = base.parameters[i].first;
    const at::Tensor after_one = find_output(reference, kWithoutGradients + name);
    const at::Tensor after_two = find_output(candidate, kWithoutGradients + name);
    if (!after_one.defined() || !after_two.defined()) continue;
    const at::Tensor start = to_host(base.parameters[i].second).to(at::kDouble);
    const at::Tensor update = after_one - start;
    const at::Tensor other =
        after_two - to_host(candidate_base->parameters[i].second).to(at::kDouble);
    result.idle.push_back({.name = name,
                           .reference_norm = norm_of(update),
                           .difference = norm_of(other - update),
                           .parameter_norm = norm_of(start)});
  }
  const at::Tensor before = find_output(reference, kOutputsBefore);
  const at::Tensor one = find_output(reference, kOutputsAfter);
  const at::Tensor two = find_output(candidate, kOutputsAfter);
  if (before.defined() && one.defined() && two.defined()) {
    if (one.sizes() != two.sizes() || one.sizes() != before.sizes()) {
      return fail(ErrorKind::invalid, "the models' outputs differ in shape");
    }
    look_at(one, two);
    result.outputs = {.reference_change = norm_of(one - before), .difference = norm_of(two - one)};
  }
  return result;
}

}  // namespace autotuned::trainer
