// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/rank_group.hpp"

#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <exception>
#include <utility>
#include <vector>

#include "trainer/ranks/rank_group_state.hpp"

namespace autotuned::trainer {
namespace {

// No rank of this machine is reached from outside.
constexpr const char* kLoopback = "127.0.0.1";
// The session ends a leader that does nothing any more, and the kernel then the others.
constexpr std::chrono::milliseconds kAnyTime = std::chrono::hours(24 * 365);

c10::intrusive_ptr<c10d::ProcessGroup> connect(const OwnRank& place,
                                               std::chrono::milliseconds join_limit,
                                               std::chrono::milliseconds patience) {
  auto store = c10::make_intrusive<c10d::FileStore>(place.store.string(), place.ranks);
  store->setTimeout(join_limit);
  auto options = c10d::ProcessGroupGloo::Options::create(join_limit);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(kLoopback));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.ranks, options);
  // Its devices know how to wait that long; connecting took the limit above.
  gloo->setTimeout(patience);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.ranks);
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  // Then nobody reads the store any more.
  group->barrier()->wait();
  return group;
}

}  // namespace

RankGroup::RankGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
RankGroup::~RankGroup() = default;

Result<std::unique_ptr<RankGroup>> RankGroup::join(const OwnRank& place,
                                                   std::chrono::milliseconds join_limit,
                                                   std::chrono::milliseconds patience) {
  try {
    auto state = std::make_unique<State>(connect(place, join_limit, patience));
    return std::unique_ptr<RankGroup>(new RankGroup(std::move(state)));
  } catch (const std::exception& error) {
    return fail(ErrorKind::internal,
                "rank " + std::to_string(place.rank) + " of " + std::to_string(place.ranks) +
                    " cannot reach the others: " + error.what(),
                "train.ranks");
  }
}

int RankGroup::rank() const {
  return state_->group->getRank();
}

int RankGroup::ranks() const {
  return state_->group->getSize();
}

void RankGroup::take_from_leader(std::span<double> numbers) {
  // A trace shows what a training exchanges, and not what is agreed on beside it.
  const at::RecordFunctionGuard is_recorded(false);
  std::vector<at::Tensor> tensors = {
      at::from_blob(numbers.data(), {std::ssize(numbers)}, at::dtype(at::kDouble))};
  c10d::BroadcastOptions options;
  options.rootRank = 0;
  options.timeout = kAnyTime;
  state_->group->broadcast(tensors, options)->wait();
}

bool RankGroup::as_leader_says(bool mine) {
  double answer = mine ? 1.0 : 0.0;
  take_from_leader({&answer, 1});
  return answer != 0.0;
}

void RankGroup::take_largest(std::span<double> numbers) {
  const at::RecordFunctionGuard is_recorded(false);
  std::vector<at::Tensor> tensors = {
      at::from_blob(numbers.data(), {std::ssize(numbers)}, at::dtype(at::kDouble))};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  state_->group->allreduce(tensors, options)->wait();
}

bool is_of_connection(const Error& error) {
  // Gloo names its source file in each of its errors.
  return error.what.find("gloo/") != std::string::npos;
}

}  // namespace autotuned::trainer
