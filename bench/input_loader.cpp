// SPDX-License-Identifier: Apache-2.0
// What the loader costs: the plain loop that gathers and converts, and the loader in several forms.
//
//   input_loader --benchmark_repetitions=10 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trainer/input/common/epoch_order.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/loader/loader.hpp"
#include "trainer/input/transforms/pipeline.hpp"

namespace {

using namespace autotuned;
using namespace autotuned::input;

constexpr std::int64_t kSamples = 60'000;
constexpr SampleShape kShape{1, 28, 28};

// Fashion-MNIST's size and layout, all in memory, made up so that no file is needed.
class StoredImages final : public Dataset {
 public:
  StoredImages() : bytes_(static_cast<std::size_t>(kSamples * kShape.elements())) {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<std::uint8_t>(i * 31);
  }
  std::int64_t size() const override { return kSamples; }
  SampleType type() const override { return type_of(Element::uint8, kShape); }
  int classes() const override { return 10; }
  std::int64_t label(std::int64_t index) const override { return index % 10; }
  Result<void> read(std::int64_t index, std::span<std::uint8_t> out) const override {
    const auto bytes = view(index);
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return {};
  }
  std::span<const std::uint8_t> view(std::int64_t index) const override {
    const auto count = static_cast<std::size_t>(kShape.elements());
    return std::span(bytes_).subspan(static_cast<std::size_t>(index) * count, count);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

const StoredImages& images() {
  static const StoredImages stored;
  return stored;
}

Pipeline pipeline() {
  const Transform scale{"scale", Json{{"by", 1.0 / 255}}};
  return std::move(*Pipeline::compile(images().type(), {&scale, 1}, 1));
}

void count(benchmark::State& state, std::int64_t batch_size, PixelType type) {
  const std::int64_t samples = state.iterations() * batch_size;
  state.SetItemsProcessed(samples);
  state.SetBytesProcessed(samples * kShape.elements() * static_cast<std::int64_t>(bytes_of(type)));
}

// The least that a batch can cost without tricks: shuffled samples, one table, one loop.
void plain_loop(benchmark::State& state) {
  const std::int64_t batch_size = state.range(0);
  const auto elements = static_cast<std::size_t>(kShape.elements());
  const Pipeline scaled = pipeline();
  const PixelTable& values = *scaled.table();
  EpochOrder order(kSamples, 1, true);
  const auto indices = order.of_epoch(0);
  std::vector<float> batch(static_cast<std::size_t>(batch_size) * elements);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch_size));
  std::size_t at = 0;
  for (auto _ : state) {
    if (at + labels.size() > indices.size()) at = 0;
    for (std::size_t i = 0; i < labels.size(); ++i, ++at) {
      labels[i] = images().label(indices[at]);
      const auto bytes = images().view(indices[at]);
      for (std::size_t k = 0; k < elements; ++k)
        batch[i * elements + k] = values.values[bytes[k]];
    }
    benchmark::ClobberMemory();
  }
  count(state, batch_size, PixelType::float32);
}
BENCHMARK(plain_loop)->ArgName("batch")->Arg(32)->Arg(512)->UseRealTime();

void loader(benchmark::State& state) {
  const std::int64_t batch_size = state.range(0);
  const int workers = static_cast<int>(state.range(1));
  const PixelType type = state.range(2) == 0 ? PixelType::float32 : PixelType::uint8;
  const std::size_t slots = 1 + 2 * static_cast<std::size_t>(workers);
  const auto samples = static_cast<std::size_t>(batch_size);
  std::vector<std::vector<float>> pixels(
      slots, std::vector<float>(samples * static_cast<std::size_t>(kShape.elements())));
  std::vector<std::vector<std::int64_t>> labels(slots, std::vector<std::int64_t>(samples));
  LoaderSettings settings{.workers = workers, .batch_size = batch_size, .pixel_type = type};
  for (std::size_t i = 0; i < slots; ++i) {
    settings.ring.push_back({pixels[i].data(), labels[i].data()});
  }
  const Pipeline scaled = pipeline();
  auto made = Loader::create(images(), {}, scaled, settings);
  if (!made) {
    state.SkipWithError(made.error().message().c_str());
    return;
  }
  Loader& loader = **made;
  loader.resume();
  for (auto _ : state) {
    const auto batch = loader.next();
    benchmark::DoNotOptimize(batch->samples);
    loader.release(batch->slot);
  }
  count(state, batch_size, type);
}
BENCHMARK(loader)
    ->ArgNames({"batch", "workers", "uint8"})
    ->ArgsProduct({{32, 512}, {0, 1, 2}, {0, 1}})
    ->UseRealTime();

void new_epoch(benchmark::State& state) {
  EpochOrder order(kSamples, 1, true);
  std::int64_t epoch = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(order.of_epoch(++epoch).data());
  state.SetItemsProcessed(state.iterations() * kSamples);
}
BENCHMARK(new_epoch);

}  // namespace

BENCHMARK_MAIN();
