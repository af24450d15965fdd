// SPDX-License-Identifier: Apache-2.0
#include "trainer/job/job_prediction.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "base/file.hpp"
#include "profiler/spans.hpp"
#include "recipes/knobs.hpp"
#include "recipes/targets.hpp"
#include "trainer/common/guarded.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/input/datasets/damage.hpp"
#include "trainer/input/datasets/damage_search.hpp"
#include "trainer/input/datasets/unlabelled_pictures.hpp"
#include "trainer/input/decode/png_encoder.hpp"
#include "trainer/input/transforms/evaluation_transforms.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"
#include "trainer/state/training_length.hpp"

namespace autotuned::trainer {
namespace {

using recipes::Target;

constexpr const char* kInPyTorch =
    "load the model in PyTorch instead (docs/recipe.md, Use the trained model)";

// How the outputs of a model are read.
struct Reading {
  Target target = Target::classes;
  bool are_shares = false;                 // softmax: the outputs of a picture make 1 together
  bool are_apart = false;                  // sigmoid: each output by itself
  std::vector<std::uint8_t> numbers = {};  // of masks, that the pixels of each class have
};

Reading reading_of(const recipes::Recipe& recipe) {
  Reading reading{.target = recipes::target_of(recipe.data.type)};
  reading.numbers.resize(256);
  std::iota(reading.numbers.begin(), reading.numbers.end(), std::uint8_t{0});
  if (reading.target == Target::tags) reading.are_apart = true;
  if (reading.target == Target::classes) {
    reading.are_shares = recipe.loss == "cross_entropy";
    reading.are_apart = recipe.loss == "bce";
  }
  if (reading.target != Target::masks) return reading;
  const Json& values = member(recipe.data.parameters, "values");
  for (std::size_t i = 0; values.is_array() && i < std::min<std::size_t>(values.size(), 256); ++i)
    if (values[i].is_number_integer()) reading.numbers[i] = values[i].get<std::uint8_t>();
  return reading;
}

// The name of the figure that is told for an output.
const char* value_name(const Reading& reading) {
  if (reading.target == Target::masks) return "share";
  return reading.are_shares || reading.are_apart ? "probability" : "value";
}

// The number of channels of the training's arrays, for a model that was trained on arrays and gets pictures.
Result<std::int64_t> channels_of(const recipes::Recipe& recipe, const PredictRequest& request) {
  if (request.stored_as == "float32" || recipe.data.type == "synthetic_normal") {
    return fail(ErrorKind::unsupported,
                "the model was trained on arrays of floats, which picture files do not hold",
                recipe.data.type, kInPyTorch);
  }
  if (request.sample_shape.size() == 3) {
    const std::int64_t channels = request.sample_shape.front();
    if (channels == 1 || channels == input::kRgb) return channels;
    return fail(
        ErrorKind::unsupported,
        "the model takes " + std::to_string(channels) + " channels, and picture files have 1 or 3",
        recipe.data.type, kInPyTorch);
  }
  return recipe.data.type == "idx" ? 1 : input::kRgb;
}

// The recipe of a training as one whose data are the pictures, under the transforms of its evaluation, and whose model
// begins with the trained weights.
Result<recipes::Recipe> recipe_to_predict(recipes::Recipe recipe, const PredictRequest& request) {
  if (recipes::target_of(recipe.data.type) == Target::tokens) {
    return fail(ErrorKind::unsupported, "the model takes tokens, and not pictures", "model",
                kInPyTorch);
  }
  std::vector<input::Transform> transforms;
  const auto listed = recipe.evaluation ? recipe.evaluation->input : std::nullopt;
  for (const recipes::Component& one : listed ? *listed : recipe.input)
    transforms.push_back({one.type, one.parameters});
  if (!listed) transforms = input::evaluation_transforms(transforms);
  Json data = {{"files", request.pictures}, {"shuffle", false}};
  const auto* const first =
      transforms.empty() ? nullptr : input::find_transform(transforms.front().type);
  if (first != nullptr && first->takes_encoded) {
    transforms.front().type = "decode";  // decode_jpeg, which does the same, refuses PNG files
  } else {
    const auto channels = channels_of(recipe, request);
    if (!channels) return tl::unexpected(channels.error());
    data["channels"] = *channels;
  }
  recipe.data = {input::kUnlabelledPictures, std::move(data)};
  recipe.input.clear();
  for (input::Transform& one : transforms)
    recipe.input.push_back({std::move(one.type), std::move(one.parameters)});
  recipe.evaluation.reset();
  recipe.model.parameters["weights"] = request.weights.string();
  recipe.model.parameters.erase("weights_except");
  recipe.model.parameters.erase("freeze");
  recipe.loss = "cross_entropy";
  recipe.loss_parameters = Json::object();
  recipe.step_rules = {};
  recipe.train.ranks = 1;
  recipe.train.drop_last = false;
  return recipe;
}

// Before a model is made of a wrong shape, whose weights would be said not to fit.
Result<void> check_pictures(const recipes::Recipe& recipe, const PredictRequest& request) {
  const auto data = input::open_unlabelled_pictures(recipe.data.parameters);
  if (!data) return tl::unexpected(data.error());
  auto pipeline = pipeline_of(recipe, **data, {});
  if (!pipeline) {
    pipeline.error().remedy = "use pictures of the kind and size of the training data";
    return tl::unexpected(pipeline.error());
  }
  const input::SampleShape shape = pipeline->shape();
  const std::vector<std::int64_t> made = {shape.channels, shape.height, shape.width};
  if (request.sample_shape.empty() || request.sample_shape == made) return {};
  const auto text_of = [](const std::vector<std::int64_t>& sizes) {
    std::string text;
    for (const std::int64_t size : sizes)
      text += (text.empty() ? "" : " x ") + std::to_string(size);
    return text;
  };
  return fail(ErrorKind::invalid,
              "the transforms make " + text_of(made) +
                  " of the pictures, and the model was trained on " + text_of(request.sample_shape),
              (*data)->name(0), "resize the pictures to the size of the training data");
}

// The part of a configuration that affects predictions. Left out are exact knobs, the knobs of steps, ranks and
// loading, and allocators and variables, which may no longer exist.
Configuration as_evaluated(const Configuration& trained, const Machine& machine,
                           const PredictRequest& request) {
  Configuration configuration;
  for (const auto& [name, value] : trained.values())
    if (!name.starts_with("env.")) configuration.set(name, value);
  for (const recipes::Knob& knob : recipes::knobs_of(machine)) {
    const bool decides = knob.risk != recipes::RiskClass::exact &&
                         !recipes::is_of_ranks(knob.name) && !knob.name.starts_with("input.") &&
                         knob.name != "cuda.graph";
    if (!decides) configuration.set(knob.name, knob.default_value);
  }
  const KnobValue* const batch = configuration.find("batch_size");
  if (batch != nullptr && std::holds_alternative<std::int64_t>(*batch)) {
    // A batch that is larger than the pictures would only take memory.
    configuration.set("batch_size",
                      std::min(std::get<std::int64_t>(*batch), std::ssize(request.pictures)));
  }
  return configuration;
}

// The positions of the largest values, the first of equal ones first.
std::vector<std::size_t> best_first(std::span<const double> values, std::size_t most) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [values](std::size_t i) {
    return std::isnan(values[i]) ? -std::numeric_limits<double>::infinity() : values[i];
  };
  const std::size_t count = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&rank](std::size_t a, std::size_t b) {
                      return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
                    });
  order.resize(count);
  return order;
}

// The outputs for one picture, from its logits (outputs).
Json outputs_of(const at::Tensor& logits, const Reading& reading, std::size_t most) {
  const at::Tensor raw = logits.to(at::kDouble).contiguous();
  at::Tensor values = raw;
  if (reading.are_shares) values = values.softmax(0);
  if (reading.are_apart) values = values.sigmoid();
  values = values.contiguous();
  const auto count = static_cast<std::size_t>(raw.numel());
  const auto* const first = values.const_data_ptr<double>();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (reading.target == Target::classes) {
    order = best_first({raw.const_data_ptr<double>(), count}, most);
  }
  Json outputs = Json::array();
  for (const std::size_t i : order)
    outputs.push_back({{"output", i}, {value_name(reading), first[i]}});
  return outputs;
}

// Tells the mask of one picture, from its logits (classes, rows, columns), and writes it.
Result<void> tell_mask(const at::Tensor& logits, const Reading& reading, const std::string& file,
                       std::size_t most, Json& prediction) {
  const at::Tensor classes = logits.argmax(0).to(at::kByte).contiguous();
  const std::span<const std::uint8_t> pixels(classes.const_data_ptr<std::uint8_t>(),
                                             static_cast<std::size_t>(classes.numel()));
  std::array<double, 256> counts{};
  for (const std::uint8_t pixel : pixels)
    counts[pixel] += 1.0;
  Json outputs = Json::array();
  for (const std::size_t i : best_first(counts, most)) {
    if (counts[i] <= 0.0) break;
    const double share = counts[i] / static_cast<double>(pixels.size());
    outputs.push_back({{"output", i}, {value_name(reading), share}});
  }
  prediction["outputs"] = std::move(outputs);
  prediction["height"] = classes.size(0);
  prediction["width"] = classes.size(1);
  if (file.empty()) return {};
  std::vector<std::uint8_t> numbers;
  numbers.reserve(pixels.size());
  for (const std::uint8_t pixel : pixels)
    numbers.push_back(reading.numbers[pixel]);
  const auto png = input::encode_png(numbers, static_cast<int>(classes.size(0)),
                                     static_cast<int>(classes.size(1)));
  if (!png) return tl::unexpected(png.error());
  prediction["mask"] = file;
  return write_file_atomically(file, *png);
}

// How far the pictures of a request have been answered.
struct Progress {
  std::map<std::size_t, Error> unreadable;  // by position in the request
  std::size_t told = 0;                     // so many of the first ones
  bool is_reading = false;                  // whether an error may be one of a picture
};

// Tells the unreadable pictures that come next, up to the position `end`.
void tell_unreadable(const PredictRequest& request, std::size_t end,
                     const PredictionSink& on_prediction, Progress& progress) {
  for (; progress.told < end; ++progress.told) {
    const auto found = progress.unreadable.find(progress.told);
    if (found == progress.unreadable.end()) continue;
    const Error& error = found->second;
    const Json told = {
        {"kind", to_string(error.kind)}, {"what", error.what}, {"remedy", error.remedy}};
    on_prediction(Json{{"file", request.pictures[progress.told]}, {"error", told}});
  }
}

std::vector<std::size_t> positions_left(const PredictRequest& request, const Progress& progress) {
  std::vector<std::size_t> positions;
  for (std::size_t i = progress.told; i < request.pictures.size(); ++i)
    if (!progress.unreadable.contains(i)) positions.push_back(i);
  return positions;
}

PredictRequest part_of(const PredictRequest& request, std::span<const std::size_t> positions) {
  PredictRequest part = request;
  part.pictures.clear();
  part.masks.clear();
  for (const std::size_t i : positions) {
    part.pictures.push_back(request.pictures[i]);
    if (!request.masks.empty()) part.masks.push_back(request.masks[i]);
  }
  return part;
}

// Why this picture cannot be read; nothing if it can.
std::optional<Error> unreadable(const recipes::Recipe& asked, const std::string& picture) {
  Json parameters = asked.data.parameters;
  parameters["files"] = Json::array({picture});
  const auto data = input::open_unlabelled_pictures(parameters);
  Result<void> read;
  if (!data) {
    read = tl::unexpected(data.error());
  } else if ((*data)->type().element != input::Element::encoded) {
    const auto bytes = static_cast<std::size_t>((*data)->type().shape().elements());
    std::vector<std::uint8_t> room(bytes);
    read = (*data)->read(0, room);
  } else if (!asked.input.empty()) {
    const recipes::Component& first = asked.input.front();
    input::DamageFound found = input::search_damage(**data, {first.type, first.parameters}, 1,
                                                    std::chrono::minutes(1), [] { return false; });
    if (!found.errors.empty()) read = tl::unexpected(std::move(found.errors.front()));
  }
  if (read || !input::is_damage(read.error())) return std::nullopt;
  return std::move(read.error());
}

// Looks at the pictures that have not been answered yet. ErrorKind::cancelled.
Result<void> find_unreadable(const recipes::Recipe& asked, const PredictRequest& request,
                             const CancelCheck& is_cancelled, Progress& progress) {
  for (std::size_t i = progress.told; i < request.pictures.size(); ++i) {
    if (is_cancelled && is_cancelled()) return tl::unexpected(cancelled_error());
    if (auto error = unreadable(asked, request.pictures[i]))
      progress.unreadable.emplace(i, *std::move(error));
  }
  return {};
}

}  // namespace

Result<void> Job::State::predict(const AnswerSink& on_answer, const CancelCheck& is_cancelled) {
  const LoadingScope loading(*feed_);
  const Learner::Evaluation evaluation(*learner_);
  const std::int64_t batch_size = feed_->settings().batch_size;
  const Extensions::Evaluation compared(extensions_, batches_of(train_data_->size(), batch_size));
  CancelPoll cancel(is_cancelled);
  for (bool is_done = false; !is_done;) {
    const auto batch = feed_->next();
    if (!batch) return tl::unexpected(batch.error());
    const at::Tensor logits = learner_->logits(*batch);
    for (std::int64_t i = 0; i < batch->samples; ++i) {
      if (auto told = on_answer(batch->position.sample + i, logits.select(0, i)); !told)
        return told;
    }
    feed_->done();
    is_done = batch->ends_epoch;
    if (cancel(profiler::now_ns())) return tl::unexpected(cancelled_error());
  }
  return {};
}

Result<Json> predict(const recipes::Recipe& recipe, const Configuration& configuration,
                     const Machine& machine, const Devices& devices,
                     std::vector<plugins::TrainerLibrary> libraries, const PredictRequest& request,
                     const PredictionSink& on_prediction, const CancelCheck& is_cancelled) {
  const auto asked = recipe_to_predict(recipe, request);
  if (!asked) return tl::unexpected(asked.error());
  const auto device = choose_device(asked->device, devices);
  if (!device) return tl::unexpected(device.error());
  Reading reading = reading_of(recipe);
  Progress progress;
  // Those that are left.
  const auto go_on = [&]() -> Result<void> {
    const std::vector<std::size_t> positions = positions_left(request, progress);
    if (positions.empty()) return {};
    const PredictRequest part = part_of(request, positions);
    const auto of_part = recipe_to_predict(recipe, part);
    if (!of_part) return tl::unexpected(of_part.error());
    progress.is_reading = true;
    if (auto checked = check_pictures(*of_part, part); !checked) return checked;
    progress.is_reading = false;
    Job::State state(*of_part, machine, *device, libraries);
    if (auto loaded = state.load(as_evaluated(configuration, machine, part)); !loaded) {
      Error& error = loaded.error();
      if (error.where.starts_with("model.weights")) {
        error.where = "model";
        error.remedy = "name the weights of the run that this recipe is from";
      }
      return tl::unexpected(error);
    }
    const auto on_answer = [&](std::int64_t sample, const at::Tensor& logits) -> Result<void> {
      const std::size_t i = positions[static_cast<std::size_t>(sample)];
      tell_unreadable(request, i, on_prediction, progress);
      // A model of the user's own may give maps with any data.
      if (logits.dim() == 3) reading.target = Target::masks;
      Json prediction = {{"file", request.pictures[i]},
                         {"target", std::string(recipes::name_of(reading.target))}};
      if (reading.target != Target::masks) {
        prediction["outputs"] = outputs_of(logits, reading, request.most_outputs);
      } else if (auto told = tell_mask(logits, reading,
                                       request.masks.empty() ? std::string() : request.masks[i],
                                       request.most_outputs, prediction);
                 !told) {
        progress.is_reading = false;
        return told;
      }
      on_prediction(prediction);
      progress.told = i + 1;
      return {};
    };
    progress.is_reading = true;
    return state.predict(on_answer, is_cancelled);
  };
  return guarded("predict", [&]() -> Result<Json> {
    auto done = go_on();
    if (!done && progress.is_reading && input::is_damage(done.error())) {
      if (auto found = find_unreadable(*asked, request, is_cancelled, progress); !found)
        return tl::unexpected(found.error());
      if (!progress.unreadable.empty()) done = go_on();
    }
    if (!done) return tl::unexpected(done.error());
    tell_unreadable(request, request.pictures.size(), on_prediction, progress);
    return Json{{"pictures", request.pictures.size()},
                {"unreadable", progress.unreadable.size()},
                {"target", std::string(recipes::name_of(reading.target))},
                {"device", *device}};
  });
}

}  // namespace autotuned::trainer
