// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/rank_group.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/ranks/rank_group_nccl.hpp"
#include "trainer/ranks/rank_group_state.hpp"

namespace autotuned::trainer {
namespace {

// No rank of this machine is reached from outside.
constexpr const char* kLoopback = "127.0.0.1";
// The session ends a leader that does nothing any more, and the kernel then the others.
constexpr std::chrono::milliseconds kAnyTime = std::chrono::hours(24 * 365);

// An abort frees what a launch of kernels uses. Soon after a rank is lost, a thread that launches them waits for the GPU.
constexpr std::chrono::milliseconds kUntilLaunchesEnd = std::chrono::seconds(1);
constexpr std::string_view kEndedExchange = "which ended the exchange by NCCL";

bool is_one_gpu_twice(std::string_view what) {
  return what.find("Duplicate GPU detected") != std::string_view::npos;
}

c10::intrusive_ptr<c10d::ProcessGroup> connect(const OwnRank& place,
                                               const c10::intrusive_ptr<c10d::Store>& store,
                                               std::chrono::milliseconds join_limit,
                                               std::chrono::milliseconds patience) {
  auto options = c10d::ProcessGroupGloo::Options::create(join_limit);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(kLoopback));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.ranks, options);
  // Its devices know how to wait that long; connecting took the limit above.
  gloo->setTimeout(patience);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.ranks);
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  // Then nobody reads the store any more, except the ranks on GPUs.
  group->barrier()->wait();
  return group;
}

}  // namespace

RankGroup::RankGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
RankGroup::~RankGroup() = default;

RankGroup::State::~State() {
  watch.reset();
  ties.clear();  // which tells the others
  if (nccl == nullptr) return;
  try {
    nccl->abort();  // it does not wait for others, as shutdown() does
  } catch (const std::exception&) {
    // The process is about to end, or to train another job with another group.
  }
}

Result<void> RankGroup::State::join_on_gpu(const c10::intrusive_ptr<c10d::Store>& store,
                                           GpuExchange gpu) {
  at::accelerator::setDeviceIndex(static_cast<c10::DeviceIndex>(gpu.device));
  auto opened = open_nccl(c10::make_intrusive<c10d::PrefixStore>("nccl", store), group->getRank(),
                          group->getSize());
  if (!opened) return tl::unexpected(opened.error());
  nccl = *std::move(opened);
  ties = std::move(gpu.ties);
  std::vector<LostRankWatch::Tie> watched;
  for (std::size_t i = 0; i < ties.size(); ++i) {
    // Those of the leader lead to the others, the one of another rank leads to the leader.
    const std::size_t rank = group->getRank() == 0 ? i + 1 : 0;
    watched.push_back({ties[i].get(),
                       "rank " + std::to_string(rank) + " of " + std::to_string(group->getSize())});
  }
  watch = std::make_unique<LostRankWatch>(std::move(watched), [this] {
    // All others hear of it through the leader.
    for (const Descriptor& tie : ties)
      ::shutdown(tie.get(), SHUT_RDWR);
    std::this_thread::sleep_for(kUntilLaunchesEnd);
    try {
      nccl->abort();
    } catch (const std::exception&) {
      // Then the kernels go on waiting, and the watch ends the process.
    }
  });
  group->setBackend(at::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
  // The first exchange connects the GPUs.
  const c10::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu.device));
  std::vector<at::Tensor> sums = {at::ones({1}, at::dtype(at::kFloat).device(device))};
  group->allreduce(sums)->wait();
  const auto sum = sums.front().item<float>();
  if (auto there = check(); !there) return there;
  if (sum != static_cast<float>(group->getSize())) {
    return fail(
        ErrorKind::internal,
        std::to_string(group->getSize()) + " ones add up to " + std::to_string(sum) + " by NCCL",
        "train.ranks", "see whether all GPUs work: nvidia-smi");
  }
  watch->joined();
  return {};
}

Result<void> RankGroup::State::check() const {
  const std::string lost = watch != nullptr ? watch->lost() : "";
  if (lost.empty()) return {};
  return fail(ErrorKind::internal, lost + " has left, " + std::string(kEndedExchange),
              "train.ranks");
}

Result<void> RankGroup::check_exchange() const {
  return state_->check();
}

Result<std::unique_ptr<RankGroup>> RankGroup::join(const OwnRank& place,
                                                   std::chrono::milliseconds join_limit,
                                                   std::chrono::milliseconds patience,
                                                   std::optional<GpuExchange> gpu) {
  try {
    auto store = c10::make_intrusive<c10d::FileStore>(place.store.string(), place.ranks);
    store->setTimeout(join_limit);
    auto state = std::make_unique<State>(connect(place, store, join_limit, patience));
    if (gpu) {
      if (auto joined = state->join_on_gpu(store, *std::move(gpu)); !joined) {
        return tl::unexpected(joined.error());
      }
    }
    return std::unique_ptr<RankGroup>(new RankGroup(std::move(state)));
  } catch (const std::exception& error) {
    if (is_one_gpu_twice(error.what())) {
      return fail(ErrorKind::unsupported,
                  "two ranks are on the same GPU, which NCCL does not permit", "train.ranks",
                  "use as many ranks as there are GPUs");
    }
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
  // Gloo names its source file in each of its errors. NCCL sees some ranks go; the group is aborted for all of them.
  constexpr std::array<std::string_view, 4> kSigns = {
      "gloo/", kEndedExchange, "NCCL communicator was aborted", "remote process exited"};
  return std::ranges::any_of(kSigns, [&error](std::string_view sign) {
    return error.what.find(sign) != std::string::npos;
  });
}

}  // namespace autotuned::trainer
