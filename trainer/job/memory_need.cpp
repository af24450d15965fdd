// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/memory_need.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "recipes/targets.hpp"

namespace autotuned::trainer {
namespace {

constexpr double kBytesPerParameter = 4.0;
constexpr double kBytesPerSample = 4.0;  // its number in the order of an epoch
// Less is made in a moment, and fails in a moment.
constexpr double kMinBytes = 256.0 * 1024 * 1024;

double model_number(const recipes::Component& model, const char* key, double otherwise) {
  return get_number(model.parameters, key).value_or(otherwise);
}

double parameters_of_vit(const recipes::Component& model, input::SampleShape sample) {
  const std::string size = get_string(model.parameters, "size").value_or("");
  const double usual = size == "tiny" ? 192 : size == "small" ? 384 : 768;
  const double embed = model_number(model, "embed", usual);
  const double patch = std::max(1.0, model_number(model, "patch", 16));
  const double tokens = sample.height / patch * (sample.width / patch);
  return 12 * model_number(model, "depth", 12) * embed * embed + tokens * embed +
         embed * sample.channels * patch * patch + embed * model_number(model, "classes", 1);
}

double parameters_of_gpt(const recipes::Component& model) {
  const double width = model_number(model, "width", 0);
  const bool is_tied = get_bool(model.parameters, "tied").value_or(true);
  const double tables = is_tied ? 1 : 2;
  const double words = tables * model_number(model, "vocabulary", 0);
  return width * (12 * model_number(model, "layers", 0) * width + words +
                  model_number(model, "context", 0));
}

// The convolutions of the lowest level, which has more than all others on the way down.
double parameters_of_unet(const recipes::Component& model) {
  const double channels =
      model_number(model, "width", 0) * std::exp2(model_number(model, "depth", 0));
  return 9 * 1.5 * channels * channels;
}

std::string bytes_text(double bytes) {
  constexpr double kMax = 9e18;
  return format_bytes(static_cast<std::int64_t>(std::min(bytes, kMax)));
}

tl::unexpected<Error> too_large(std::string what, double room, const char* of, const char* key,
                                const char* remedy) {
  return fail(ErrorKind::invalid, std::move(what) + ", and " + of + " has " + bytes_text(room), key,
              remedy);
}

}  // namespace

double least_parameters(const recipes::Component& model, input::SampleShape sample) {
  if (model.type == "mlp") {
    const double hidden = model_number(model, "hidden", 0);
    return hidden * (static_cast<double>(sample.elements()) + model_number(model, "classes", 0));
  }
  if (model.type == "vit") return parameters_of_vit(model, sample);
  if (model.type == recipes::kTokenModel) return parameters_of_gpt(model);
  if (model.type == "unet") return parameters_of_unet(model);
  return 0.0;
}

Result<void> check_memory_of_samples(std::int64_t samples, int ranks, const MemoryRoom& room) {
  const double needed = static_cast<double>(samples) * kBytesPerSample * ranks;
  if (room.host_bytes <= 0 || needed < kMinBytes ||
      needed <= static_cast<double>(room.host_bytes)) {
    return {};
  }
  return too_large("the order of " + format_count(samples) + " samples takes " +
                       bytes_text(needed) + " of memory",
                   static_cast<double>(room.host_bytes), "this machine", "data",
                   "use fewer samples in an epoch and more epochs");
}

Result<void> check_memory_of_model(const recipes::Recipe& recipe, input::SampleShape sample,
                                   const MemoryRoom& room) {
  constexpr const char* kRemedy = "make the model smaller, or train where there is more memory";
  const double parameters = least_parameters(recipe.model, sample);
  const double bytes = parameters * kBytesPerParameter;
  if (bytes < kMinBytes) return {};
  // Frozen parameters have neither gradients nor states, and how many are frozen is not known here.
  const bool is_part_frozen = !member(recipe.model.parameters, "freeze").is_null();
  const double trained =
      (is_part_frozen ? 0.0
                      : 1.0 + static_cast<double>(recipes::optimizer_states(recipe.optimizer))) +
      (recipe.step_rules.ema_decay ? 1.0 : 0.0);
  const std::string text =
      "at least " + format_count(static_cast<std::int64_t>(parameters)) + " parameters take ";
  const std::string with =
      " of memory with their gradients and the state of " + recipe.optimizer.type;
  // The initial state is kept beside the model that is trained.
  const double on_host = bytes * (room.trains_on_cpu ? 2.0 + trained : 1.0) * recipe.train.ranks;
  if (room.host_bytes > 0 && on_host > static_cast<double>(room.host_bytes)) {
    return too_large(text + bytes_text(on_host) +
                         (room.trains_on_cpu ? with + " and the initial weights" : " of memory"),
                     static_cast<double>(room.host_bytes), "this machine", "model", kRemedy);
  }
  const double on_device = bytes * (1.0 + trained);
  if (room.device_bytes > 0 && on_device > static_cast<double>(room.device_bytes)) {
    return too_large(text + bytes_text(on_device) + with, static_cast<double>(room.device_bytes),
                     "the GPU", "model", kRemedy);
  }
  return {};
}

}  // namespace autotuned::trainer
