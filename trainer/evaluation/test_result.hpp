// SPDX-License-Identifier: Apache-2.0
// The figures of an evaluation on the test data. Values without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotuned::trainer {

// The errors of the outputs for targets that are numbers.
struct NumberFigures {
  struct Value {
    double mae = 0.0;          // mean absolute error
    std::optional<double> r2;  // coefficient of determination; nothing if the targets are all equal
  };
  double mae = 0.0;           // mean over the values of a target
  std::optional<double> r2;   // the same over those that have one
  std::vector<Value> values;  // in the order of the target
};

// How well tags were found. Counts are of samples, and for all tags together of pairs of sample and tag.
struct TagFigures {
  struct Tag {
    std::int64_t true_positives = 0;  // samples that have it and in which it was found
    std::int64_t found = 0;           // samples in which it was found
    std::int64_t there = 0;           // samples that have it

    // 2 TP / (2 TP + FP + FN); nothing if no sample has it and it was never found.
    [[nodiscard]] std::optional<double> f1() const {
      if (found + there == 0) return std::nullopt;
      return 2.0 * static_cast<double>(true_positives) / static_cast<double>(found + there);
    }
  };
  Tag all;  // its f1() is micro-F1
  std::vector<Tag> tags;
};

// How well class masks were found, over the pixels that count.
struct MaskFigures {
  std::int64_t pixels = 0;
  std::optional<double> miou;  // mean over the classes that have one
  // Intersection over union of each class; nothing if it is nowhere and was never found.
  std::vector<std::optional<double>> ious;
};

// The figures of a language model.
struct TokenFigures {
  double perplexity = 0.0;              // e to the power of the loss
  std::optional<double> bits_per_byte;  // nothing if a token is no byte
};

struct TestResult {
  std::int64_t samples = 0;
  double accuracy = 0.0;  // of classes, or of the next tokens; with masks of pixels
  double loss = 0.0;      // mean over samples, without masks in which no pixel counts
  // The share of samples whose class is among the five with the highest logits; nothing with five classes or less.
  std::optional<double> top5_accuracy;
  // confusion[i][j]: samples of class i that were taken for class j, with masks pixels. Empty with more than 1000
  // classes.
  std::vector<std::vector<std::int64_t>> confusion;
  std::optional<NumberFigures> numbers;  // of targets that are numbers
  std::optional<TagFigures> tags;        // of targets that are tags
  std::optional<MaskFigures> masks;      // of targets that are class masks
  std::optional<TokenFigures> tokens;    // of targets that are tokens, with the loss cross_entropy
  // The names of classes, of the values of a target, or of tags; empty: they have only numbers.
  std::vector<std::string> class_names;
  bool was_cancelled = false;
};

}  // namespace autotuned::trainer
