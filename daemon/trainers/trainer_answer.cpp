// SPDX-License-Identifier: Apache-2.0
#include "daemon/trainers/trainer_answer.hpp"

#include <cmath>

namespace autotuned::daemon {
namespace {

// JSON has no NaN: a number that is missing or null is one that could not be computed.
double number_or_nan(const Json& object, const char* field) {
  return get_number(object, field).value_or(std::nan(""));
}

tuner::UpdateComparison::Parameter update_from(const Json& update) {
  tuner::UpdateComparison::Parameter parameter{
      .name = get_string(update, "name").value_or("?"),
      .reference_norm = number_or_nan(update, "reference_norm"),
      .norm_ratio = number_or_nan(update, "norm_ratio"),
      .cosine = number_or_nan(update, "cosine")};
  if (const auto norm = get_number(update, "candidate_norm")) parameter.candidate_norm = *norm;
  return parameter;
}

}  // namespace

Result<tuner::UpdateComparison> comparison_from(const Json& answer) {
  tuner::UpdateComparison comparison;
  const auto equal = get_bool(answer, "equal");
  const auto finite = get_bool(answer, "finite");
  if (!equal) return tl::unexpected(equal.error());
  if (!finite) return tl::unexpected(finite.error());
  comparison.equal = *equal;
  comparison.finite = *finite;
  for (const Json& parameter : member(answer, "parameters"))
    comparison.parameters.push_back(update_from(parameter));
  for (const Json& buffer : member(answer, "buffers")) {
    comparison.buffers.push_back({.update = update_from(buffer),
                                  .is_floating = get_bool(buffer, "floating").value_or(true),
                                  .is_equal = get_bool(buffer, "equal").value_or(false)});
  }
  if (const Json& outputs = member(answer, "outputs"); outputs.is_object()) {
    comparison.outputs = {.reference_change = number_or_nan(outputs, "reference_change"),
                          .difference = number_or_nan(outputs, "difference")};
  }
  for (const Json& one : member(answer, "idle")) {
    comparison.idle.push_back({.name = get_string(one, "name").value_or("?"),
                               .reference_norm = number_or_nan(one, "reference_norm"),
                               .difference = number_or_nan(one, "difference"),
                               .parameter_norm = number_or_nan(one, "parameter_norm")});
  }
  return comparison;
}

std::vector<double> losses_from(const Json& list) {
  std::vector<double> losses;
  for (const Json& loss : list) {
    losses.push_back(loss.is_number() ? loss.get<double>() : std::nan(""));
  }
  return losses;
}

std::optional<tuner::UpdateComparison::Test> test_from(const Json& block) {
  const Json& told = member(block, "test");
  if (!told.is_object()) return std::nullopt;
  tuner::UpdateComparison::Test test{.samples = get_integer(told, "samples").value_or(0),
                                     .loss = number_or_nan(told, "loss")};
  if (const auto accuracy = get_number(told, "accuracy")) test.accuracy = *accuracy;
  return test;
}

std::vector<tuner::UpdateComparison::StepInput> inputs_of(const Json& list) {
  std::vector<tuner::UpdateComparison::StepInput> inputs;
  for (const Json& one : list) {
    inputs.push_back({.labels = get_string(one, "labels").value_or(""),
                      .images = get_string(one, "images").value_or("")});
    for (const Json& projection : member(one, "projections")) {
      inputs.back().projections.push_back(projection.is_number() ? projection.get<double>()
                                                                 : std::nan(""));
    }
  }
  return inputs;
}

}  // namespace autotuned::daemon
