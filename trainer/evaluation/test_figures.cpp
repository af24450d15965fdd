// SPDX-License-Identifier: Apache-2.0
#include "trainer/evaluation/test_figures.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace autotuned::trainer {
namespace {

// A matrix of more would be most of what is stored of a run.
constexpr std::size_t kMaxClassesOfMatrix = 100;
// The same goes for more values of a target.
constexpr std::size_t kMaxValues = 1000;

Json share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? Json(static_cast<double>(part) / static_cast<double>(whole)) : Json();
}

Json name_of(const TestResult& test, std::size_t number) {
  return number < test.class_names.size() ? Json(test.class_names[number]) : Json(number);
}

Json or_null(const std::optional<double>& figure) {
  return figure ? Json(*figure) : Json();
}

Json classes_of(const TestResult& test) {
  std::vector<std::int64_t> taken(test.confusion.size());  // samples that were taken for a class
  for (const std::vector<std::int64_t>& row : test.confusion) {
    for (std::size_t i = 0; i < row.size(); ++i)
      taken[i] += row[i];
  }
  Json classes = Json::array();
  for (std::size_t i = 0; i < test.confusion.size(); ++i) {
    const std::vector<std::int64_t>& row = test.confusion[i];
    const std::int64_t samples = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    Json& one = classes.emplace_back(Json{{"class", name_of(test, i)},
                                          {test.masks ? "pixels" : "samples", samples},
                                          {"precision", share_of(row[i], taken[i])},
                                          {"recall", share_of(row[i], samples)}});
    if (test.masks) one["iou"] = or_null(test.masks->ious[i]);
  }
  return classes;
}

void add_numbers(const TestResult& test, Json& json) {
  const NumberFigures& numbers = *test.numbers;
  json["test_mae"] = numbers.mae;
  json["test_r2"] = or_null(numbers.r2);
  if (numbers.values.size() > kMaxValues) return;
  Json& targets = json["test_targets"] = Json::array();
  for (std::size_t i = 0; i < numbers.values.size(); ++i) {
    targets.push_back({{"target", name_of(test, i)},
                       {"mae", numbers.values[i].mae},
                       {"r2", or_null(numbers.values[i].r2)}});
  }
}

void add_tags(const TestResult& test, Json& json) {
  const TagFigures& tags = *test.tags;
  json["test_f1"] = or_null(tags.all.f1());
  json["test_precision"] = share_of(tags.all.true_positives, tags.all.found);
  json["test_recall"] = share_of(tags.all.true_positives, tags.all.there);
  if (tags.tags.size() > kMaxValues) return;
  Json& all = json["test_tags"] = Json::array();
  for (std::size_t i = 0; i < tags.tags.size(); ++i) {
    const TagFigures::Tag& tag = tags.tags[i];
    all.push_back({{"tag", name_of(test, i)},
                   {"samples", tag.there},
                   {"f1", or_null(tag.f1())},
                   {"precision", share_of(tag.true_positives, tag.found)},
                   {"recall", share_of(tag.true_positives, tag.there)}});
  }
}

void add_tokens(const TokenFigures& tokens, const std::string& prefix, Json& json) {
  json[prefix + "perplexity"] = tokens.perplexity;
  if (tokens.bits_per_byte) json[prefix + "bits_per_byte"] = *tokens.bits_per_byte;
}

}  // namespace

Json test_json(const std::optional<TestResult>& test) {
  Json json = {{"test_accuracy", nullptr}, {"test_loss", nullptr}};
  if (!test) return json;
  json["test_loss"] = test->loss;
  if (test->numbers) {
    add_numbers(*test, json);
    return json;
  }
  if (test->tags) {
    add_tags(*test, json);
    return json;
  }
  json["test_accuracy"] = test->accuracy;
  if (test->masks) json["test_miou"] = or_null(test->masks->miou);
  if (test->tokens) add_tokens(*test->tokens, "test_", json);
  if (test->top5_accuracy) json["test_top5_accuracy"] = *test->top5_accuracy;
  if (test->confusion.empty()) return json;
  json["test_classes"] = classes_of(*test);
  if (test->confusion.size() <= kMaxClassesOfMatrix) json["test_confusion"] = test->confusion;
  return json;
}

Json evaluation_frame(const TestResult& test, std::int64_t epoch) {
  Json frame = {{"epoch", epoch}, {"loss", test.loss}, {"samples", test.samples}};
  if (test.numbers) {
    frame["mae"] = test.numbers->mae;
    frame["r2"] = or_null(test.numbers->r2);
  } else if (test.tags) {
    frame["f1"] = or_null(test.tags->all.f1());
  } else {
    frame["accuracy"] = test.accuracy;
    if (test.masks) frame["miou"] = or_null(test.masks->miou);
    if (test.tokens) add_tokens(*test.tokens, "", frame);
  }
  return frame;
}

}  // namespace autotuned::trainer
