// SPDX-License-Identifier: Apache-2.0
// What of the trainer needs CUDA's headers, as a library of its own: LibTorch's CUDA half is there only where
// there is a GPU. Has never run on one.
#include <ATen/DeviceAccelerator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>

#include "trainer/step/graph_step.hpp"

namespace autotuned::trainer {
namespace {

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
    // What is recorded allocates from memory of its own.
    at::accelerator::synchronizeDevice(device_.index());
    at::accelerator::emptyCache();
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    {
      const c10::StreamGuard guard(stream_);
      // Other threads, those that load data, may go on calling CUDA.
      graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        end_failed(*graph);
        throw;
      }
      graph->capture_end();
    }
    graph_ = std::move(graph);
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

  // The stream must be able to work again; what went wrong was said already.
  static void end_failed(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
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
