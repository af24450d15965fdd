// SPDX-License-Identifier: Apache-2.0
#include "trainer/ranks/gradient_reducer.hpp"

#include <ATen/TensorOperators.h>
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

// The bucket size that DistributedDataParallel uses to broadcast states.
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20U;

// Knows how long a backward pass has waited: LibTorch takes these times for its own log.
class TimedReducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  [[nodiscard]] std::int64_t waited_ns() const {
    if (timer_ == nullptr) return 0;
    return timer_
        ->measureDifference(c10d::Timer::Event::kBackwardComputeEnd,
                            c10d::Timer::Event::kBackwardCommEnd)
        .value_or(0);
  }
};

// Half of the bytes travel. LibTorch has the same for fp16 (c10d::FP16CompressCommHook).
class Bf16Hook final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor sent = bucket.getBufferRef().to(at::kBFloat16);
    sent /= state_->getSize();
    std::vector<at::Tensor> tensors = {sent};
    const auto sum = state_->allreduce(tensors)->getFuture();
    return sum->then(
        [buffer = bucket.getBufferRef()](c10::ivalue::Future& done) {
          buffer.copy_(done.value().toTensorVector()[0]);
          return c10::IValue(buffer);
        },
        sum->elementType());
  }
};

std::unique_ptr<TimedReducer> make_reducer(RankGroup& group, std::vector<at::Tensor> parameters,
                                           const std::vector<std::string>& names,
                                           const ReducerSettings& settings) {
  const std::vector<bool> is_sparse(parameters.size(), false);
  // A first assignment: after the first step, buckets are made again in the order in which gradients arrive.
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<std::size_t>::max()}, is_sparse);
  std::ranges::reverse(buckets);
  std::ranges::reverse(limits);
  std::unordered_map<std::size_t, std::string> names_by_number;
  for (std::size_t i = 0; i < names.size(); ++i)
    names_by_number.emplace(i, names[i]);
  // As DistributedDataParallel does where it is given a size.
  const bool is_usual = settings.bucket_bytes == ReducerSettings{}.bucket_bytes;
  auto reducer = std::make_unique<TimedReducer>(
      std::move(parameters), std::move(buckets), group.state().group, is_sparse,
      settings.bucket_bytes, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/settings.is_view, std::move(names_by_number),
      is_usual ? std::int64_t{c10d::kDefaultFirstBucketBytes} : settings.bucket_bytes,
      /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>());
  reducer->set_ddp_runtime_logging_sample_rate(1);
  if (settings.form == GradientForm::bf16) {
    reducer->register_comm_hook(std::make_unique<Bf16Hook>(group.state().group));
  } else if (settings.form == GradientForm::fp16) {
    reducer->register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
  }
  return reducer;
}

}  // namespace

void take_tensors_from_leader(RankGroup& group, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  c10d::broadcast_coalesced(group.state().group, tensors, kBroadcastBytes, /*rank=*/0);
}

class GradientReducer::State {
 public:
  explicit State(std::unique_ptr<TimedReducer> made) : reducer(std::move(made)) {}

  std::unique_ptr<TimedReducer> reducer;
};

GradientReducer::GradientReducer(RankGroup& group, std::vector<at::Tensor> parameters,
                                 const std::vector<std::string>& names,
                                 const ReducerSettings& settings)
    : state_(std::make_unique<State>(make_reducer(group, std::move(parameters), names, settings))) {
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::begin_step() {
  state_->reducer->prepare_for_forward();
  if (state_->reducer->should_rebuild_buckets()) (void)state_->reducer->rebuild_buckets();
}

void GradientReducer::begin_last_backward() {
  state_->reducer->prepare_for_backward({});
}

std::int64_t GradientReducer::waited_ns() const {
  return state_->reducer->waited_ns();
}

}  // namespace autotuned::trainer
