// SPDX-License-Identifier: Apache-2.0
#include "daemon/guide/starter_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/printable.hpp"
#include "daemon/guide/folder_listing.hpp"

namespace autotuned::daemon {

namespace {

constexpr std::int64_t kUsualBatch = 32;
// Samples of a text on which five epochs without a GPU are no first try.
constexpr std::int64_t kLongText = 1'000;
// With fewer samples a test on a part of them says nothing.
constexpr std::int64_t kFewSamples = 100;
constexpr int kSmallSide = 32;
// A `unet` of the usual depth takes multiples of this.
constexpr int kUnetSide = 16;
constexpr const char* kNormalize =
    "normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}";

// The side of the training pictures, in pixels: large enough to see something, small enough for the device.
int side_for(const DataFolder& data, bool has_gpu) {
  if (data.has_masks) {
    const int most = has_gpu ? 224 : 128;
    if (data.shorter_side <= 0) return most;
    return std::clamp(data.shorter_side / kUnetSide * kUnetSide, kUnetSide, most);
  }
  if (data.shorter_side > 0 && data.shorter_side <= 48) return kSmallSide;
  if (data.shorter_side > 0 && data.shorter_side <= 100) return 64;
  return has_gpu ? 224 : 128;
}

// `text` with a comment in the column where comments stand.
std::string commented(const std::string& text, const std::string& comment) {
  return fmt::format("{:<27} # {}\n", text, comment);
}

std::string heading(const DataFolder& data, const StarterSpec& spec) {
  const std::string file = shell_word(spec.recipe.string());
  std::string text;
  if (!spec.schema.empty())
    text += "# yaml-language-server: $schema=" + printable(spec.schema.string()) + "\n";
  text += "# Written by `autotuned init` for ";
  text += data.samples == Samples::none ? std::string("a first look: the data are artificial")
                                        : printable(data.found);
  text += fmt::format(
      ".\n#\n#   autotuned check {0}    # looks at data and model, trains nothing\n"
      "#   autotuned run {0}      # tunes, then trains\n#\n"
      "# `autotuned schema` explains every key. Keys that are not written here have defaults.\n\n",
      file);
  text += commented("autotuned: 1", "version of this file's format");
  text += commented("name: " + spec.name, "name of the job in the history");
  return text + commented("device: auto", "the first GPU; without one, the CPU") + "\n";
}

// "An output for each number: age, height."; empty for classes.
std::string outputs_text(const DataFolder& data) {
  if (data.targets == TargetKind::classes) return {};
  std::string text =
      data.targets == TargetKind::numbers ? "An output for each number" : "An output for each tag";
  constexpr std::size_t kMax = 8;
  if (data.columns.empty() || data.columns.size() > kMax) return text + ". ";
  for (std::size_t i = 0; i < data.columns.size(); ++i)
    text += (i == 0 ? ": " : ", ") + printable(data.columns[i]);
  return text + ". ";
}

std::string model(const DataFolder& data, bool has_gpu) {
  if (data.samples == Samples::none) {
    return "# One hidden layer. `autotuned schema` lists the other models.\n"
           "model: {type: mlp, hidden: 256, classes: 10}\n\n";
  }
  if (data.samples == Samples::tokens) {
    return "# A small GPT: four blocks, 128 numbers for a token.\n"
           "model: {type: gpt, layers: 4, heads: 4, width: 128, dropout: 0.1}\n\n";
  }
  if (data.samples == Samples::arrays) {
    return fmt::format(
        "# Two convolutions and a linear layer, for images of any number of channels.\n"
        "model: {{type: fashion_cnn, classes: {}}}\n\n",
        data.classes);
  }
  if (data.has_masks) {
    return fmt::format(
        "# A U-Net of half the usual width: a class for every pixel.\n"
        "model: {{type: unet, width: 32, classes: {}}}\n\n",
        data.classes);
  }
  if (side_for(data, has_gpu) == kSmallSide) {
    return fmt::format(
        "# {}Four convolutions of 128 channels, for small pictures.\n"
        "model: {{type: simple_cnn, classes: {}}}\n\n",
        outputs_text(data), data.classes);
  }
  return fmt::format(
      "# {}ResNet-18 as in torchvision, with new parameters.\n"
      "model: {{type: resnet18, classes: {}}}\n\n",
      outputs_text(data), data.classes);
}

// What follows the keys of data in picture files: one damaged file must not end the job, whether it trains on it or is tested on it.
std::string skip_damaged(const DataFolder& data) {
  return data.samples == Samples::pictures ? ", on_error: skip" : "";
}

std::string source(const DataFolder& data) {
  if (data.samples == Samples::none) {
    return "# Artificial images whose labels can be learned. For your own: {type: image_files, "
           "files: "
           "photos/*/*.jpg},\n"
           "# where photos/ has a folder for each class; or another type of `autotuned schema`.\n"
           "data: {type: synthetic, samples: 10000, shape: [1, 28, 28], classes: 10}\n\n";
  }
  std::string comment = "# The order is new in every epoch.";
  if (data.samples == Samples::tokens) {
    comment =
        "# A sample is a block of `context` tokens and the one after it. The order is new in every "
        "epoch.";
  }
  if (data.samples == Samples::pictures) {
    comment = data.has_labels
                  ? "# A picture that cannot be read is replaced by the next one, and named."
                  : "# There are no classes, so labels are random: only the speed means something.";
  }
  if (!data.masks_text.empty()) comment += "\n# " + printable(data.masks_text);
  return comment + "\ndata: {" + data.data + skip_damaged(data) + "}\n\n";
}

// Whether a part of the data, or other data, is tested on.
bool has_evaluation(const DataFolder& data) {
  if (!data.test_data.empty()) return true;
  if (data.samples == Samples::tokens) return data.count >= kFewSamples;
  const bool is_few = data.count > 0 && data.count < kFewSamples;
  return data.samples != Samples::none && data.has_labels && !is_few;
}

std::string transforms(const DataFolder& data, bool has_gpu) {
  const std::string intro =
      "# Transforms of each sample before the model sees it, in this order.\ninput:\n";
  const std::string from_bytes = commented("  - to_float", "bytes 0 to 255 become 0 to 1");
  if (data.samples != Samples::pictures) {
    if (!data.are_bytes) return {};
    return intro + from_bytes +
           commented("  - normalize: {mean: 0.5, std: 0.5}", "0 to 1 become -1 to 1") + "\n";
  }
  const int side = side_for(data, has_gpu);
  const std::string flip =
      commented("  - random_flip", "leave it out where left and right differ: digits, text");
  std::string size;
  if (data.targets == TargetKind::numbers) {
    // A part of a picture may have other sizes and places than the numbers tell of.
    size = commented(fmt::format("  - resize: {{size: {}}}", side),
                     "add random_flip where left and right do not matter");
  } else if (data.has_masks && !has_evaluation(data)) {
    // Without `evaluate.input`, a crop here would be a crop in `predict`.
    size = commented(fmt::format("  - resize: {{size: {}}}", side),
                     fmt::format("the whole picture becomes {0} x {0} pixels", side)) +
           flip;
  } else {
    size = commented(fmt::format("  - random_resized_crop: {{size: {}}}", side),
                     fmt::format("a random part becomes {0} x {0} pixels", side)) +
           flip;
  }
  return intro + commented("  - decode", "JPEG or PNG into red, green and blue") + size +
         from_bytes + fmt::format("  - {}   # as for ImageNet\n\n", kNormalize);
}

// The whole of a picture, because a predicted mask is laid over it; empty for what is no mask.
std::string evaluation_input(const DataFolder& data, bool has_gpu) {
  if (!data.has_masks) return {};
  return commented("  input:", "whole pictures, in `predict` as well") +
         fmt::format("    - decode\n    - resize: {{size: {}}}\n    - to_float\n    - {}\n",
                     side_for(data, has_gpu), kNormalize);
}

// Half of the samples must fill a batch.
std::int64_t batch_for(std::int64_t samples) {
  std::int64_t batch = kUsualBatch;
  while (samples > 0 && batch > 1 && 2 * batch > samples)
    batch /= 2;
  return batch;
}

std::string loss(const DataFolder& data) {
  if (data.targets == TargetKind::numbers) {
    return "# The numbers are used as they are: scale them in the table if they are far from 0 or "
           "of different\n# magnitudes.\n" +
           commented("loss: mse", "or l1, smooth_l1, huber") + "\n";
  }
  if (data.targets == TargetKind::tags) {
    return commented("loss: bce", "each tag by itself") + "\n";
  }
  return {};
}

std::string training(const DataFolder& data, bool has_gpu) {
  const std::int64_t batch = batch_for(data.count);
  const bool is_long = data.samples == Samples::tokens && data.count >= kLongText && !has_gpu;
  const std::string epochs =
      is_long ? commented("  epochs: 1", "a start: on a CPU each more takes as long again")
              : commented("  epochs: 5", "see every sample five times");
  return loss(data) + "optimizer: {type: adamw, lr: 0.001}\n\ntrain:\n" + epochs +
         commented(fmt::format("  batch_size: {}", batch), "samples per step") + "\n";
}

// The figures of an evaluation.
std::string figures(const DataFolder& data) {
  if (data.has_masks) return "Mean IoU";
  if (data.samples == Samples::tokens) return "Loss and perplexity";
  if (data.targets == TargetKind::numbers) return "Mean absolute error and R²";
  return data.targets == TargetKind::tags ? "Micro-F1" : "Accuracy";
}

std::string evaluation(const DataFolder& data, bool has_gpu) {
  if (!has_evaluation(data)) return {};
  const std::string input = evaluation_input(data, has_gpu);
  if (!data.test_data.empty()) {
    return "# " + figures(data) +
           " on samples that are not trained on, after every epoch.\nevaluate:\n  data: {" +
           data.test_data + skip_damaged(data) + "}\n" + input + "\n";
  }
  if (data.samples == Samples::tokens) {
    return "# Loss and perplexity of the last tenth, which is then not trained on, after every "
           "epoch.\nevaluate: {split: 10%}\n\n";
  }
  return "# " + figures(data) +
         " on a tenth of the samples, which is then not trained on, after every epoch.\n" +
         (input.empty() ? "evaluate: {split: 10%}\n" : "evaluate:\n  split: 10%\n" + input) + "\n";
}

std::string tuning(const StarterSpec& spec, bool is_first_look) {
  return "tune:\n" +
         commented(is_first_look ? "  budget: 1min" : "  budget: 10min",
                   "time for tuning; what is found is kept for the next run") +
         commented("  allow: [numerics]",
                   "also what rounds differently, such as 16-bit arithmetic") +
         "\noutput:\n" +
         commented("  dir: out/" + spec.name, "the model, checkpoints and best.yaml");
}

}  // namespace

std::string starter_recipe(const DataFolder& data, const StarterSpec& spec) {
  return heading(data, spec) + model(data, spec.has_gpu) + source(data) +
         transforms(data, spec.has_gpu) + training(data, spec.has_gpu) +
         evaluation(data, spec.has_gpu) + tuning(spec, data.samples == Samples::none);
}

std::string starter_name(const std::string& text) {
  // Words that YAML takes for something else.
  static constexpr std::array<std::string_view, 9> kWords = {"true", "false", "on", "off", "yes",
                                                             "no",   "null",  "y",  "n"};
  constexpr std::size_t kLongest = 60;
  if (text.empty()) return "job";  // of the root folder
  std::string name;
  for (const char c : text.substr(0, kLongest)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_other = (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    name += is_letter || is_other ? c : '-';
  }
  const bool begins_well = !name.empty() && ((name.front() >= 'a' && name.front() <= 'z') ||
                                             (name.front() >= 'A' && name.front() <= 'Z'));
  const bool is_word = std::ranges::find(kWords, lower(name)) != kWords.end();
  return begins_well && !is_word ? name : "job-" + name;
}

}  // namespace autotuned::daemon
