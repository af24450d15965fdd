// SPDX-License-Identifier: Apache-2.0
// The request `predict`.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainer/asked_job.hpp"
#include "trainer/job/job_prediction.hpp"
#include "trainer/server.hpp"

namespace autotuned::trainer {
namespace {

Result<std::vector<std::string>> texts_in(const Json& request, const char* field) {
  std::vector<std::string> texts;
  const Json& list = member(request, field);
  if (list.is_null()) return texts;
  const auto refusal = fail(ErrorKind::invalid, "expected a list of texts", field);
  if (!list.is_array()) return refusal;
  for (const Json& one : list) {
    if (!one.is_string()) return refusal;
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Result<PredictRequest> predict_request_from(const Json& request) {
  PredictRequest predict;
  const auto weights = get_string(request, "weights");
  if (!weights) return tl::unexpected(weights.error());
  predict.weights = *weights;
  auto pictures = texts_in(request, "pictures");
  if (!pictures) return tl::unexpected(pictures.error());
  if (pictures->empty()) return fail(ErrorKind::invalid, "there are none", "pictures");
  predict.pictures = *std::move(pictures);
  auto masks = texts_in(request, "masks");
  if (!masks) return tl::unexpected(masks.error());
  if (!masks->empty() && masks->size() != predict.pictures.size()) {
    return fail(ErrorKind::invalid, "expected one for each picture", "masks");
  }
  predict.masks = *std::move(masks);
  if (!member(request, "most_outputs").is_null()) {
    const auto most = get_integer(request, "most_outputs");
    if (!most) return tl::unexpected(most.error());
    if (*most < 1) return fail(ErrorKind::invalid, "must be at least 1", "most_outputs");
    predict.most_outputs = static_cast<std::size_t>(*most);
  }
  for (const Json& size : member(request, "sample_shape")) {
    if (!size.is_number_integer()) {
      return fail(ErrorKind::invalid, "expected integers", "sample_shape");
    }
    predict.sample_shape.push_back(size.get<std::int64_t>());
  }
  predict.stored_as = get_string(request, "stored_as").value_or("");
  return predict;
}

}  // namespace

Result<Json> Server::predict(const Json& request) {
  auto asked = asked_of(request);
  if (!asked) return tl::unexpected(asked.error());
  const auto wanted = predict_request_from(request);
  if (!wanted) return tl::unexpected(wanted.error());
  leave_ranks();  // two jobs would not fit
  return trainer::predict(
      asked->recipe, asked->configuration, machine_, devices_, std::move(asked->libraries), *wanted,
      [this, id = member(request, "id")](const Json& prediction) {
        send({{"id", id}, {"progress", {{"prediction", prediction}}}});
      },
      [this] { return is_cancelled(); });
}

}  // namespace autotuned::trainer
