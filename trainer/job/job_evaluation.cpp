// SPDX-License-Identifier: Apache-2.0
// The evaluation of a job: its data and its figures.
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "profiler/spans.hpp"
#include "trainer/common/generator_kept.hpp"
#include "trainer/evaluation/test_counts.hpp"
#include "trainer/evaluation/test_masks.hpp"
#include "trainer/evaluation/test_tags.hpp"
#include "trainer/evaluation/test_values.hpp"
#include "trainer/feed/feed_size.hpp"
#include "trainer/feed/loading_scope.hpp"
#include "trainer/input/datasets/class_names.hpp"
#include "trainer/input/datasets/split_dataset.hpp"
#include "trainer/input/transforms/evaluation_transforms.hpp"
#include "trainer/job/job_state.hpp"
#include "trainer/job/step_clock.hpp"
#include "trainer/state/training_length.hpp"

namespace autotuned::trainer {
namespace {

constexpr int kWorkersForFewBatches = 4;

std::vector<input::Transform> transforms_of(const std::vector<recipes::Component>& list) {
  std::vector<input::Transform> transforms;
  for (const recipes::Component& one : list)
    transforms.push_back({one.type, one.parameters});
  return transforms;
}

void add_to(at::Tensor& sum, const at::Tensor& one) {
  if (one.defined()) sum = sum.defined() ? sum + one : one;
}

// What the batches of the test data come to. Nothing waits for the device before the end.
class TestSums {
 public:
  explicit TestSums(const input::TargetType& target) : target_(target) {}

  void add(const Learner::Score& score, const at::Tensor& labels) {
    add_to(loss_, score.loss_sum);
    add_to(counted_, score.counted);
    add_to(correct_, score.correct);
    if (target_.is_class()) {
      counts_.add(score.logits, labels);
    } else if (target_.kind == input::TargetKind::tags) {
      tags_.add(score.logits, labels);
    } else if (target_.is_mask()) {
      masks_.add(score.logits, labels);
    } else if (target_.kind == input::TargetKind::numbers) {
      values_.add(score.logits, labels);
    }
  }
  // How many of so many samples the loss is the sum of.
  [[nodiscard]] double counted_of(std::int64_t samples) const {
    return counted_.defined() ? counted_.item().toDouble() : static_cast<double>(samples);
  }
  // REQUIRES: there was a batch; `result` has its samples.
  void tell(TestResult& result) const {
    result.loss = loss_.item().toDouble() / counted_of(result.samples);
    if (target_.is_class() || target_.has_tokens()) {
      const std::int64_t targets =
          target_.is_class() ? result.samples : result.samples * target_.width;
      result.accuracy = correct_.item().toDouble() / static_cast<double>(targets);
    }
    if (target_.is_class()) counts_.tell(result);
    values_.tell(result);
    tags_.tell(result);
    masks_.tell(result);
  }

 private:
  input::TargetType target_;
  at::Tensor loss_;
  at::Tensor counted_;  // samples in it; not defined: all
  at::Tensor correct_;
  TestCounts counts_;
  TestValues values_;
  TestTags tags_;
  TestMasks masks_;
};

std::vector<std::string> list_of(std::span<const std::string> names) {
  return {names.begin(), names.end()};
}

Error in_test_data(Error error) {
  error.where = "evaluate.data" + (error.where.empty() ? "" : ", " + error.where);
  return error;
}

// Why what is measured on this test would say little; empty if it has room for a sample of each class.
std::string doubt_of_test(const input::Dataset& test, int classes) {
  if (!test.target().is_class() || test.size() >= classes) return {};
  return "the test has " + format_counted(test.size(), "sample") + ", fewer than the " +
         format_count(classes) + " classes: its accuracy says little";
}

TokenFigures token_figures(double loss, bool has_bytes) {
  TokenFigures figures{.perplexity = std::exp(loss), .bits_per_byte = {}};
  if (has_bytes) figures.bits_per_byte = loss / std::numbers::ln2;
  return figures;
}

std::string text_of(const input::SampleShape& shape) {
  return input::type_of(input::Element::uint8, shape).text();
}

// The feed's, for other data under other transforms.
FeedSettings test_settings(FeedSettings settings, const input::Pipeline& train,
                           const input::Pipeline& test) {
  const bool sent_bytes = sends_bytes(settings, train);
  settings.drop_last = false;
  settings.pipeline = &test;
  settings.kept = {};
  settings.is_uint8 = settings.is_uint8 && test.table() != nullptr;
  // Floats take four times as much, and what may be page-locked was only asked for bytes.
  if (sent_bytes && !settings.is_uint8) settings.pin_memory = settings.non_blocking = false;
  return settings;
}

}  // namespace

Result<void> Job::State::open_test_data() {
  if (!recipe_.evaluation) return {};
  const auto tell = [this](const char* part, std::string doubt) {
    if (!doubt.empty()) {
      warnings_.push_back({ErrorKind::invalid, std::move(doubt), part, {}});
    }
  };
  if (recipe_.evaluation->split_ratio > 0) {
    auto split =
        input::split_dataset(std::move(train_data_), recipe_.evaluation->split_ratio, recipe_.seed);
    if (!split) return tl::unexpected(split.error());
    train_data_ = std::move(split->train);
    test_data_ = std::move(split->test);
    tell("evaluate.split", std::move(split->doubt));
    tell("evaluate.split", doubt_of_test(*test_data_, train_data_->classes()));
    return {};
  }
  auto opened = open(recipe_.evaluation->data, train_data_->class_names());
  if (!opened) return tl::unexpected(in_test_data(opened.error()));
  test_data_ = std::move(*opened);
  if (auto fits = check_test_targets(); !fits) return fits;
  if (!train_data_->target().is_class()) return {};
  const std::size_t told = warnings_.size();
  if (auto fits = check_classes(); !fits) return fits;
  // Else it has told which classes have no sample.
  if (warnings_.size() == told) {
    tell("evaluate.data", doubt_of_test(*test_data_, train_data_->classes()));
  }
  return {};
}

Result<void> Job::State::list_held_out(const std::filesystem::path& folder) const {
  const std::filesystem::path file = folder / "held_out.txt";
  if (!recipe_.evaluation || !(recipe_.evaluation->split_ratio > 0)) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) std::filesystem::remove(file, ignored);
    return {};
  }
  std::string names;
  for (std::int64_t i = 0; i < test_data_->size(); ++i)
    names += test_data_->name(i) + "\n";
  return write_file_atomically(file, names);
}

// A class that only one data set has, or that has another number in each, would make the accuracy wrong without an
// error.
Result<void> Job::State::check_classes() {
  const std::span<const std::string> names = train_data_->class_names();
  if (names.empty() && !test_data_->class_names().empty()) {
    return fail(ErrorKind::invalid,
                "the classes are names (" + input::named(list_of(test_data_->class_names())) +
                    "), and those of the training data are numbers",
                "evaluate.data", "name the classes of both, or write numbers with image_index");
  }
  if (test_data_->classes() > train_data_->classes()) {
    warnings_.push_back({ErrorKind::invalid,
                         "there are " + std::to_string(test_data_->classes()) +
                             " classes, and the training data have " +
                             std::to_string(train_data_->classes()) +
                             ": the others cannot be learned",
                         "evaluate.data",
                         {}});
  }
  if (test_data_->class_names().empty()) return {};
  std::vector<bool> is_there(names.size());
  const std::int64_t items = std::min(test_data_->stored().items, test_data_->size());
  for (std::int64_t i = 0; i < items; ++i)
    is_there[static_cast<std::size_t>(test_data_->label(i))] = true;
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!is_there[i]) absent.push_back(names[i]);
  if (!absent.empty()) {
    warnings_.push_back({ErrorKind::invalid,
                         "no sample is of these classes of the training data: " +
                             input::named(absent) + "; the accuracy says nothing about them",
                         "evaluate.data",
                         {}});
  }
  return {};
}

Result<void> Job::State::compile_test_pipeline(const input::SampleShape& shape_in_training) {
  if (test_data_ == nullptr) return {};
  const auto& listed = recipe_.evaluation->input;
  test_transforms_ =
      listed ? transforms_of(*listed) : input::evaluation_transforms(transforms_of(recipe_.input));
  for (std::size_t i = 0; i < test_transforms_.size(); ++i) {
    if (!input::is_random(test_transforms_[i].type)) continue;
    return fail(ErrorKind::invalid, "is random, and every evaluation sees the same",
                "evaluate.input[" + std::to_string(i) + "]." + test_transforms_[i].type,
                "leave it out");
  }
  auto pipeline = input::Pipeline::compile(test_data_->type(), test_transforms_, recipe_.seed, {},
                                           test_data_->target().is_mask());
  if (!pipeline) {
    Error& error = pipeline.error();
    error.where = "evaluate." + error.where;
    if (!listed) {
      error.what += " (evaluate.input follows from input)";
      error.remedy += (error.remedy.empty() ? "" : ", or ") + std::string("list evaluate.input");
    }
    return tl::unexpected(error);
  }
  if (pipeline->shape() != shape_in_training) {
    return fail(ErrorKind::invalid,
                "its samples have another shape than the training data's: " +
                    text_of(pipeline->shape()) + ", not " + text_of(shape_in_training),
                listed ? "evaluate.input" : "evaluate.data",
                "list transforms in evaluate.input that end in the training's shape");
  }
  test_pipeline_ = std::move(*pipeline);
  return {};
}

Result<TestResult> Job::State::evaluate(const CancelCheck& is_cancelled) {
  if (ranks_ == nullptr) return evaluate_here(is_cancelled);
  auto result =
      ranks_->is_leader() ? evaluate_here(is_cancelled) : Result<TestResult>(TestResult());
  if (!result) return tl::unexpected(of_this_rank(std::move(result.error())));
  result->was_cancelled = as_leader_says(result->was_cancelled);
  return result;
}

Result<std::unique_ptr<Feed>> Job::State::make_test_feed(TestBatches batches) {
  const auto train = pipeline_for(configuration_);
  if (!train) return tl::unexpected(train.error());
  FeedSettings settings = test_settings(feed_->settings(), **train, test_pipeline_);
  if (batches == TestBatches::few) {
    settings.workers = std::min(settings.workers, kWorkersForFewBatches);
    settings.prefetch_batches = 1;
    settings.read_ahead_batches = 0;
    settings.pin_memory = settings.non_blocking = false;
  }
  return Feed::create(*test_data_, {.seed = recipe_.seed, .is_shuffled = false}, test_pipeline_,
                      device_, settings);
}

Result<TestResult> Job::State::evaluate_here(const CancelCheck& is_cancelled,
                                             std::int64_t most_samples) {
  if (test_data_ == nullptr) return fail(ErrorKind::invalid, "the recipe has no test data");
  // A model that draws although it is evaluated must not change what is trained afterwards.
  const GeneratorsKept generators(device_);
  auto feed =
      make_test_feed(most_samples < test_data_->size() ? TestBatches::few : TestBatches::all);
  if (!feed) return tl::unexpected(feed.error());
  const LoadingScope loading(**feed);
  const Learner::Evaluation evaluation(*learner_);
  const std::int64_t batch_size = (*feed)->settings().batch_size;
  const std::int64_t samples = std::min(test_data_->size(), most_samples);
  const Extensions::Evaluation compared(extensions_, batches_of(samples, batch_size));
  CancelPoll cancel(is_cancelled);
  TestResult result;
  const input::TargetType target = test_data_->target();
  TestSums sums(target);
  for (bool is_done = false; !is_done && !result.was_cancelled;) {
    auto batch = (*feed)->next();
    if (!batch) {
      return tl::unexpected(error_of_batch(batch.error(), *test_data_, is_cancelled));
    }
    sums.add(learner_->score(*batch), batch->labels);
    (*feed)->done();
    result.samples += batch->samples;
    is_done = batch->ends_epoch || result.samples >= most_samples;
    result.was_cancelled = cancel(profiler::now_ns());
  }
  const bool is_counted = !target.is_mask() || sums.counted_of(result.samples) != 0;
  const bool is_whole = result.samples >= test_data_->size();
  if (!is_counted && is_whole) {
    return fail(ErrorKind::invalid, "no pixel of its masks counts", "evaluate.data",
                "correct `values` or `ignore_index`");
  }
  sums.tell(result);
  // With another loss, that of a plugin, the figures would mean nothing.
  if (target.has_tokens() && recipe_.loss == "cross_entropy") {
    result.tokens = token_figures(result.loss, test_data_->has_bytes());
  }
  result.class_names = list_of(train_data_->class_names());
  return result;
}

}  // namespace autotuned::trainer
