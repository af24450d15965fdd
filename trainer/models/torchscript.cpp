// SPDX-License-Identifier: Apache-2.0
// A model from a file that Python wrote with torch.jit.script(model).save(file).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "trainer/common/archive_check.hpp"
#include "trainer/common/generator_kept.hpp"
#include "trainer/models/families.hpp"
#include "trainer/models/model_file.hpp"
#include "trainer/models/scripted.hpp"
#include "trainer/models/shape_text.hpp"

namespace autotuned::trainer {
namespace {

constexpr std::size_t kMaxScriptBytes = std::size_t{1} << 40U;
constexpr const char* kHowToSave = "save it in Python with torch.jit.script(model).save(FILE)";
constexpr const char* kHowToSaveOtherwise =
    "build the model in Python, load its state_dict, and save it with "
    "torch.jit.script(model).save(FILE), or "
    "torch.jit.trace(model, images).save(FILE)";

// The first sentence of a message's last line: what went wrong, below a trace of the model's source and
// without general advice.
std::string essence(const std::string& message) {
  const std::size_t end = message.find_last_not_of(" \n");
  if (end == std::string::npos) return "no reason given";
  const std::size_t before = message.rfind('\n', end);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  return message.substr(start, std::min(message.find(". ", start), end + 1) - start);
}

template <class Work>
Result<std::invoke_result_t<Work>> explained(const std::string& what, const std::string& file,
                                             const std::string& remedy, Work&& work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return fail(ErrorKind::invalid, what + ": " + essence(message), file, remedy);
  } catch (const std::exception& error) {
    return fail(ErrorKind::invalid, what + ": " + essence(error.what()), file, remedy);
  }
}

// Where a script keeps a tensor.
struct Place {
  c10::intrusive_ptr<c10::ivalue::Object> owner;
  std::size_t slot = 0;
  at::Tensor tensor;
  std::string name;
  bool is_trained = false;
};

// The places in this module alone, without its submodules.
std::vector<Place> own_places(const torch::jit::Module& script) {
  std::vector<Place> places;
  const auto object = script._ivalue();
  const auto type = object->type();
  for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const c10::IValue& value = object->getSlot(slot);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    places.push_back({object, slot, tensor, type->getAttributeName(slot),
                      type->is_parameter(slot) && tensor.requires_grad()});
  }
  return places;
}

std::vector<Place> places_of(const torch::jit::Module& script) {
  std::vector<Place> places = own_places(script);
  for (const auto& child : script.named_children()) {
    for (Place& place : places_of(child.value)) {
      place.name = child.name + "." + place.name;
      places.push_back(std::move(place));
    }
  }
  return places;
}

// The first tensor that is not where it was, as a clause; empty: none.
std::string difference(const std::vector<Place>& before, const std::vector<Place>& after) {
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    if (i >= after.size()) return before[i].name + " is missing";
    if (i >= before.size() || after[i].name != before[i].name)
      return after[i].name + " was not there before";
    if (!after[i].tensor.is_same(before[i].tensor))
      return after[i].name + " is another tensor than before";
  }
  return {};
}

// Its parameters and buffers are the script's own tensors, under the same names; a parameter that the
// script does not train counts as a buffer.
class TorchScriptModel final : public Model, public Scripted {
 public:
  TorchScriptModel(torch::jit::Module script, const OutputForm& form)
      : Model(form.classes, form.gives_maps),
        original_(script),
        script_(std::move(script)),
        places_(places_of(script_)) {
    std::set<const void*> seen;
    mirror(script_, *this, seen);
    train(true);
  }

  [[nodiscard]] const torch::jit::Module& original() const override { return original_; }
  [[nodiscard]] const torch::jit::Module& running() const override { return script_; }

  Result<void> run(torch::jit::Module script) override {
    auto places = places_of(script);
    const std::string wrong = difference(places_of(original_), places);
    if (!wrong.empty()) {
      return fail(ErrorKind::invalid, wrong, "the rewritten script",
                  "leave parameters and buffers where they are: the optimizer holds them");
    }
    const auto forward = script.find_method("forward");
    if (!forward)
      return fail(ErrorKind::invalid, "it has no method forward", "the rewritten script");
    auto sound = explained("its graph is malformed", "the rewritten script", "", [&] {
      forward->graph()->lint();
      return true;
    });
    if (!sound) return tl::unexpected(sound.error());
    script.train(is_training());
    script_ = std::move(script);
    places_ = std::move(places);
    return {};
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor logits = script_.forward({images}).toTensor();
    // Checkpoints hold on to a buffer's tensor, so it must stay where it is.
    for (const Place& place : places_) {
      if (place.is_trained) continue;
      TORCH_CHECK(place.owner->getSlot(place.slot).toTensor().is_same(place.tensor),
                  "the TorchScript model gives its buffer ", place.name,
                  " another tensor in forward; change it in place, with copy_()");
    }
    return logits;
  }

  [[nodiscard]] std::string why_opaque() const override {
    return "TorchScript's interpreter calls the modules of this model";
  }

  void train(bool on) override {
    Model::train(on);
    script_.train(on);
  }

 private:
  // A tensor that has two names gets the first.
  static void mirror(const torch::jit::Module& from, torch::nn::Module& into,
                     std::set<const void*>& seen) {
    for (const Place& place : own_places(from)) {
      if (!seen.insert(place.tensor.unsafeGetTensorImpl()).second) continue;
      if (place.is_trained) {
        into.register_parameter(place.name, place.tensor);
      } else {
        into.register_buffer(place.name, place.tensor);
      }
    }
    for (const auto& child : from.named_children()) {
      const auto copy = into.register_module(child.name, std::make_shared<torch::nn::Module>());
      mirror(child.value, *copy, seen);
    }
  }

  torch::jit::Module original_;
  torch::jit::Module script_;
  std::vector<Place> places_;
};

bool has_trained_parameter(const torch::jit::Module& script) {
  for (const at::Tensor& parameter : script.parameters()) {
    if (parameter.requires_grad()) return true;
  }
  return false;
}

// How many classes the script tells apart, and where, found by letting it look at black images.
Result<OutputForm> form_of(torch::jit::Module& script, input::SampleShape sample,
                           const std::string& file) {
  constexpr std::int64_t kSamples = 2;
  const GeneratorKept generator_kept;
  const at::NoGradGuard no_grad;
  script.eval();
  const auto output =
      explained("forward fails on two samples of " + std::to_string(sample.channels) + " x " +
                    std::to_string(sample.height) + " x " + std::to_string(sample.width),
                file, "give the model samples of the shape that it was made for", [&] {
                  return script.forward(
                      {at::zeros({kSamples, sample.channels, sample.height, sample.width})});
                });
  if (!output) return tl::unexpected(output.error());
  constexpr const char* kRemedy =
      "let forward(images) return logits of shape (samples, classes), or for masks (samples, "
      "classes, rows, columns)";
  if (!output->isTensor()) {
    return fail(ErrorKind::invalid, "forward returns a " + output->tagKind() + " and not a tensor",
                file, kRemedy);
  }
  const at::Tensor& logits = output->toTensor();
  const auto form = output_form(logits, kSamples, sample);
  if (!form) {
    return fail(ErrorKind::invalid, "forward returns " + shape_text(logits) + " for two samples",
                file, kRemedy);
  }
  return *form;
}

}  // namespace

MadeModel make_torchscript(const recipes::Component& spec, input::SampleShape sample) {
  ModelParameters parameters(spec);
  const std::string file = parameters.text("file");
  const std::int64_t expected = parameters.has("classes") ? parameters.integer("classes") : 0;
  if (parameters.error()) return tl::unexpected(*parameters.error());

  // The default executor computes wrong gradients from the third call on; this one calls operator by
  // operator, with LibTorch's own gradients.
  torch::jit::getExecutorMode() = true;
  torch::jit::getProfilingMode() = false;

  // LibTorch refuses an unreadable file below.
  if (const auto bytes = read_file(file, kMaxScriptBytes)) {
    if (auto whole = check_archive(*bytes, file, "copy the file from its origin again"); !whole)
      return forward_error(whole);
  }
  auto script = explained("this is no TorchScript model", file, kHowToSave,
                          [&] { return torch::jit::load(file, at::kCPU); });
  if (!script) {
    const std::string instead = what_instead_of_torchscript(file);
    if (instead.empty() && is_no_archive(script.error().what)) {
      return fail(script.error().kind, std::string("this is no TorchScript model: ") + kNoArchive,
                  file, kHowToSave);
    }
    if (instead.empty()) return tl::unexpected(script.error());
    return fail(ErrorKind::invalid, "this is no TorchScript model: " + instead, file,
                kHowToSaveOtherwise);
  }
  if (!script->find_method("forward")) {
    return fail(ErrorKind::invalid, "the TorchScript model has no method forward", file,
                kHowToSave);
  }
  if (!has_trained_parameter(*script)) {
    return fail(ErrorKind::invalid, "the TorchScript model has no parameters to train", file,
                std::string(kHowToSave) + ", without freezing it");
  }
  const auto form = form_of(*script, sample, file);
  if (!form) return tl::unexpected(form.error());
  if (expected != 0 && expected != form->classes) {
    return fail(ErrorKind::invalid,
                "the TorchScript model tells " + std::to_string(form->classes) +
                    " classes apart, the recipe says " + std::to_string(expected),
                file, "leave classes out of the recipe's model");
  }
  return std::make_shared<TorchScriptModel>(std::move(*script), *form);
}

}  // namespace autotuned::trainer
