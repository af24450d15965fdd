// SPDX-License-Identifier: Apache-2.0
// The part of the trainer that needs CUDA's headers, as a library of its own: LibTorch's CUDA half is only loaded if
// there is a GPU.
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <mutex>
#include <utility>

#include "trainer/step/graph_capture.hpp"
#include "trainer/step/graph_step.hpp"

namespace autotuned::trainer {
namespace {

// On the current stream, which is not the default one.
class CudaCapture final : public Capture {
 public:
  explicit CudaCapture(c10::Device device)
      : device_(device.index()),
        pool_(at::cuda::graph_pool_handle()),
        generator_(at::globalContext().defaultGenerator(device)),
        graph_(std::make_unique<at::cuda::CUDAGraph>()) {
    const std::scoped_lock lock(generator_.mutex());
    generator_before_ = generator_.clone();
  }

  // Other threads, those that load data, may go on calling CUDA.
  void begin() override { graph_->capture_begin(pool_, cudaStreamCaptureModeThreadLocal); }
  void end() override { graph_->capture_end(); }

  void end_device_pool() override {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device_, pool_);
  }
  void end_host_pool() override { host()->end_allocate_to_pool(pool_); }
  void destroy_graph() override { graph_.reset(); }
  bool holds_pools() override {
    return c10::cuda::CUDACachingAllocator::getPoolUseCount(device_, pool_) > 0;
  }
  void release_device_pool() override {
    c10::cuda::CUDACachingAllocator::releasePool(device_, pool_);
  }
  void release_host_pool() override { host()->release_pool(pool_); }
  void restore_generator() override {
    const std::scoped_lock lock(generator_.mutex());
    generator_.graphsafe_set_state(generator_before_);
  }

  std::unique_ptr<at::cuda::CUDAGraph> take_graph() { return std::move(graph_); }

 private:
  static at::HostAllocator* host() { return at::getHostAllocator(at::kCUDA); }

  c10::DeviceIndex device_;
  c10::MempoolId_t pool_;
  at::Generator generator_;
  at::Generator generator_before_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

class CudaRecorder final : public GraphRecorder {
 public:
  explicit CudaRecorder(c10::Device device)
      : streams_(device.type()),
        device_(device),
        stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)) {}

  void run_aside(const std::function<void()>& work) override {
    const c10::Stream present = streams_.getStream(device_);
    follow(stream_, present);
    {
      const c10::StreamGuard guard(stream_);
      work();
    }
    follow(present, stream_);
  }

  void record(const std::function<void()>& work) override {
    drop();
    // A recording allocates from a pool of its own.
    at::accelerator::synchronizeDevice(device_.index());
    at::accelerator::emptyCache();
    const c10::StreamGuard guard(stream_);
    CudaCapture capture(device_);
    capture_or_undo(capture, work);
    graph_ = capture.take_graph();
  }

  void replay() override { graph_->replay(); }

  void drop() override {
    if (graph_ == nullptr) return;
    at::accelerator::synchronizeDevice(device_.index());
    graph_.reset();
  }

 private:
  // `later` does what it is asked to from now on after all that `earlier` was asked to.
  void follow(const c10::Stream& later, const c10::Stream& earlier) const {
    c10::Event done(device_.type());
    done.record(earlier);
    done.block(later);
  }

  c10::impl::VirtualGuardImpl streams_;
  c10::Device device_;
  c10::Stream stream_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace
}  // namespace autotuned::trainer

extern "C" {
__attribute__((visibility("default"))) autotuned::trainer::GraphRecorder*
autotuned_make_cuda_recorder(int device_index);

autotuned::trainer::GraphRecorder* autotuned_make_cuda_recorder(int device_index) {
  return new autotuned::trainer::CudaRecorder(
      c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device_index)));
}
}
