// SPDX-License-Identifier: Apache-2.0
// The operator gather with an index that selects whole rows, forward and backward: LibTorch's own
// against the rewrite (rewrite.gather=indexing), one after the other again and again, in an order that
// a coin decides, so that whatever else the machine does hits both.
//
//   gather [--rounds 200] [--threads 2] [--deterministic] [--device cuda]
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "trainer/common/device.hpp"
#include "trainer/step/gather.hpp"

namespace {

using namespace autotuned;

struct Shape {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t kept;
};

// First the one that design and documents speak of: ViT-Base at batch 32, half of the patches kept.
constexpr Shape kShapes[] = {
    {32, 196, 768, 98}, {32, 196, 192, 98}, {8, 196, 768, 98},
    {1, 196, 768, 98},  {32, 197, 768, 20},
};

class Work {
 public:
  Work(const Shape& shape, at::Device device)
      : device_(device),
        source_(at::randn({shape.batch, shape.tokens, shape.width}, device).requires_grad_(true)),
        index_(at::randn({shape.batch, shape.tokens}, device)
                   .argsort(/*stable=*/false, 1)
                   .slice(1, 0, shape.kept)
                   .unsqueeze(-1)
                   .expand({-1, -1, shape.width})),
        gradient_(at::randn(index_.sizes(), device)) {}

  // Seconds of one forward and backward pass.
  double pass() {
    source_.mutable_grad().reset();
    finish();
    const auto start = std::chrono::steady_clock::now();
    at::gather(source_, 1, index_).backward(gradient_);
    finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void finish() const {
    if (!device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
  }

  at::Device device_;
  at::Tensor source_;
  at::Tensor index_;
  at::Tensor gradient_;
};

struct Interval {
  double low;
  double high;
};

// The confidence interval of the median, at 95 %, from order statistics: nothing is assumed about the noise.
Interval interval_of_median(std::vector<double> values) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(
      std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2.0 - 1.0)));
  return {values[rank], values[values.size() - 1 - rank]};
}

void measure(const Shape& shape, at::Device device, int rounds, std::mt19937& coin) {
  Work work(shape, device);
  std::vector<double> gather;
  std::vector<double> indexing;
  std::vector<double> ratios;
  const auto pass_with_rewrite = [&work] {
    const auto rewrite = trainer::rewrite_gather();
    return work.pass();
  };
  for (int round = -5; round < rounds; ++round) {
    double seconds = 0.0;
    double rewritten_seconds = 0.0;
    if (coin() % 2 == 0) {
      seconds = work.pass();
      rewritten_seconds = pass_with_rewrite();
    } else {
      rewritten_seconds = pass_with_rewrite();
      seconds = work.pass();
    }
    if (round < 0) continue;  // warm-up
    gather.push_back(seconds);
    indexing.push_back(rewritten_seconds);
    ratios.push_back(seconds / rewritten_seconds);
  }
  const Interval interval = interval_of_median(ratios);
  std::printf(
      "(%lld, %lld, %lld) keep %lld: gather %.2f ms, indexing %.2f ms, ratio %.2f (%.2f to %.2f)\n",
      static_cast<long long>(shape.batch), static_cast<long long>(shape.tokens),
      static_cast<long long>(shape.width), static_cast<long long>(shape.kept), median(gather) * 1e3,
      median(indexing) * 1e3, median(ratios), interval.low, interval.high);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("gather against row selection, forward and backward");
  int rounds = 200;
  int threads = at::get_num_threads();
  bool is_deterministic = false;
  std::string device = "cpu";
  app.add_option("--rounds", rounds, "pairs of passes per shape")->check(CLI::Range(10, 100'000));
  app.add_option("--threads", threads, "threads of an operator")->check(CLI::Range(1, 1024));
  app.add_flag("--deterministic", is_deterministic, "with deterministic algorithms");
  app.add_option("--device", device, "cpu, cuda or cuda:N");
  CLI11_PARSE(app, argc, argv);
  if (device != "cpu") {
    const auto chosen = trainer::choose_device(device, trainer::open_devices());
    if (!chosen) {
      std::fprintf(stderr, "gather: %s\n", chosen.error().message().c_str());
      return 2;
    }
    device = *chosen;
  }
  at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(is_deterministic, /*warn_only=*/false);
  at::manual_seed(1);
  std::mt19937 coin(1);
  for (const Shape& shape : kShapes)
    measure(shape, at::Device(device), rounds, coin);
  return 0;
}
