// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/gradient_reducer.hpp"

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "trainer/ranks/rank_group_state.hpp"

namespace autotuned::trainer {
namespace {

// That of DistributedDataParallel for its states.
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20U;

std::unique_ptr<c10d::Reducer> make_reducer(RankGroup& group, std::vector<at::Tensor> parameters,
                                            const std::vector<std::string>& names) {
  const std::vector<bool> is_sparse(parameters.size(), false);
  // One bucket at first: after the first step they are made anew, in the order in which gradients come.
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<std::size_t>::max()}, is_sparse);
  std::ranges::reverse(buckets);
  std::ranges::reverse(limits);
  std::unordered_map<std::size_t, std::string> names_by_number;
  for (std::size_t i = 0; i < names.size(); ++i)
    names_by_number.emplace(i, names[i]);
  return std::make_unique<c10d::Reducer>(
      std::move(parameters), std::move(buckets), group.state().group, is_sparse,
      c10d::kDefaultBucketBytesCap, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/false, std::move(names_by_number), c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>());
}

}  // namespace

void take_tensors_from_leader(RankGroup& group, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  c10d::broadcast_coalesced(group.state().group, tensors, kBroadcastBytes, /*rank=*/0);
}

class GradientReducer::State {
 public:
  explicit State(std::unique_ptr<c10d::Reducer> made) : reducer(std::move(made)) {}

  std::unique_ptr<c10d::Reducer> reducer;
};

GradientReducer::GradientReducer(RankGroup& group, std::vector<at::Tensor> parameters,
                                 const std::vector<std::string>& names)
    : state_(std::make_unique<State>(make_reducer(group, std::move(parameters), names))) {}

GradientReducer::~GradientReducer() = default;

void GradientReducer::begin_step() {
  state_->reducer->prepare_for_forward();
  if (state_->reducer->should_rebuild_buckets()) (void)state_->reducer->rebuild_buckets();
}

void GradientReducer::begin_last_backward() {
  state_->reducer->prepare_for_backward({});
}

}  // namespace autotuned::trainer
