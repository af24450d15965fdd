// SPDX-License-Identifier: Apache-2.0
// Data sets: stored samples and their targets, before any transform.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "trainer/input/common/sample.hpp"
#include "trainer/input/datasets/damage.hpp"

namespace autotuned::input {

// A fixed list of samples and their targets.
// Everything is const and may be called from any number of threads at once.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;  // 1 .. 2^32-1
  [[nodiscard]] virtual SampleType type() const = 0;
  // Labels, and the classes of a mask, are 0 .. classes()-1. With numbers and tags: their number, target().width. With
  // tokens: the size of the vocabulary.
  [[nodiscard]] virtual int classes() const = 0;
  [[nodiscard]] virtual TargetType target() const { return {}; }

  // The class of a sample; 0 if targets are no classes. REQUIRES (here and below): 0 <= index < size().
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;
  // Writes the target of a sample. REQUIRES: target().floats() > 0; `out` has as many values.
  virtual void read_target(std::int64_t /*index*/, std::span<float> /*out*/) const {}
  // Puts the class mask of a sample, as large as its stored picture, into `room.classes`. Errors name the file.
  // REQUIRES: target().is_mask().
  [[nodiscard]] virtual Result<SampleShape> read_mask(std::int64_t index, MaskRoom& room) const;

  // Writes the stored bytes of one sample. REQUIRES: not encoded; `out` has room for exactly the
  // elements, aligned for them. Errors name the file that could not be read.
  [[nodiscard]] virtual Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const;
  // The bytes of one encoded sample; `out` takes their size. Returns the stamp of its file right before it was read.
  // REQUIRES: encoded.
  [[nodiscard]] virtual Result<FileStamp> read_encoded(std::int64_t index,
                                                       std::vector<std::uint8_t>& out) const;

  // The same bytes without a copy, valid as long as this lives; empty when they are not in memory.
  [[nodiscard]] virtual std::span<const std::uint8_t> view(std::int64_t /*index*/) const {
    return {};
  }

  // Asks the system to read the bytes that read() or read_encoded() will need of this sample. Does not wait. Does
  // nothing if they are in memory or cannot be read.
  virtual void will_need(std::int64_t /*index*/) const {}

  // The names of the classes by their numbers, or of the values of a target; empty if the data have only numbers.
  [[nodiscard]] virtual std::span<const std::string> class_names() const { return {}; }

  // A stored sample may count as several samples (repeat_to). This is the number of a sample's stored one, below
  // stored().items: index % stored().items, because repetitions come after all stored samples.
  [[nodiscard]] virtual std::int64_t stored_index(std::int64_t index) const { return index; }
  struct Stored {
    std::int64_t items = 0;
    // The bytes of all stored samples; estimated if only some were examined.
    std::int64_t bytes = 0;
    std::int64_t decoded_bytes = 0;
  };
  [[nodiscard]] virtual Stored stored() const;

  // For samples that are blocks of one sequence, in its order: how many of the samples before one share targets with
  // it. Nothing: the samples are independent.
  [[nodiscard]] virtual std::optional<std::int64_t> overlap() const { return std::nullopt; }
  // Whether each token is a byte of a text.
  [[nodiscard]] virtual bool has_bytes() const { return false; }

  // A property of the data that is probably a mistake, with what to write in the recipe then; empty if there is none.
  [[nodiscard]] virtual std::string doubt() const { return {}; }

  // The name of this sample in errors: its file, if it has one of its own.
  [[nodiscard]] virtual std::string name(std::int64_t index) const;

  // Where samples that cannot be read are noted; the next ones of the data replace them. Null if such a sample is an
  // error: exactly if type().skips_damaged is false.
  [[nodiscard]] virtual Damage* damage() const { return nullptr; }
};

// Opens a data set by its type in the recipe. Parameters that a type does not know are ignored (the
// recipe's schema has checked them); for example `shuffle`, which belongs to the order and not to the data.
//
//   idx        images, labels: files in the format of MNIST, plain or gzipped, read whole into memory
//              limit: the number of samples to use (default: all; at most all)
//              classes: a label from here on is an error (default: the highest label + 1)
//   cifar10    files: patterns of binary files; whole in memory
//   image_files  files: patterns of JPEG and PNG files; otherwise like jpeg_files
//   image_masks  files: patterns of JPEG and PNG files, masks: patterns of PNG files of the same names
//              (pictures/mask_files.hpp); classes or names, values, ignore_index, repeat_to, on_error
//   image_index  index: a CSV file of files and labels (pictures/image_index.hpp); classes, repeat_to, on_error
//   image_tags  index: a table of files and their tags (pictures/picture_table.hpp); repeat_to, on_error
//   image_targets  index: a table of files and numbers (pictures/picture_table.hpp); repeat_to, on_error
//   jpeg_files files: patterns; read on demand, looked at when opened (the first 20,000)
//              repeat_to: number of samples, repeating the files (default: each once)
//              on_error: stop (default) or skip, see damage.hpp
//              labels: folder_names (numbered by name), or random (drawn from index and seed)
//              classes: default 10 for random labels, or the number of folders
//   npy        images, labels: patterns of .npy files (npy_header.hpp), joined in their order; images of
//              bytes or floats, read on demand; labels are integers
//              layout: nchw (default) or nhwc, of images in four dimensions; with three they have one channel
//              classes: a label from here on is an error (default: the highest label + 1)
//   synthetic  samples, shape [C, H, W], classes, seed (1): a coarse pattern per class under noise,
//              so that it can be learned; computed on every read, nothing is stored
//   synthetic_normal  the same parameters: normal floats, labels in turn
//   synthetic_targets  samples, shape, seed; targets: the numbers of a sample, from -1 to 1. A pattern per number
//              under noise
//   synthetic_tags  the same with tags: their number
//   synthetic_masks  samples, shape, classes, seed: discs of the classes above 0 on a ground of class 0, under noise
//   synthetic_tokens  samples, context, vocabulary, seed: three of four tokens follow from the one before
//   tokens     files: patterns of files of tokens, joined in their order; read on demand
//              context: tokens that the model sees; stride: from one block to the next (default: context)
//              dtype: of files without a header (default: uint16 of .bin, else uint8); vocabulary
//   tar        files: patterns of tar files with KEY.jpg (.jpeg, .png) and KEY.cls, an integer, next to each
//              other; headers are read when it is opened, samples on demand; classes, repeat_to, on_error
//
// `known_classes`: the class_names() of the training data. They number the names of these data, and any other name is
// an error. Empty: names are numbered in their order. Names of columns must be the same in both.
//
// Errors name the file, what is wrong with it and what to do.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_dataset(
    const std::string& type, const Json& parameters,
    std::span<const std::string> known_classes = {});

}  // namespace autotuned::input
