// SPDX-License-Identifier: Apache-2.0
// The input of a recipe alone, without model or transfer: what each named configuration loads, and where
// the time of a sample goes. Optionally side by side with the same input written by hand in PyTorch.
//
//   build/release/bin/input recipes/photo_masking_input.yaml
//     -c "start" -c "crop loader.workers=2 input.decode=crop"
//     --script bench/peers/photo_masking.py --python .deps/peers/bin/python
//
// With --plain also beside one loop over libjpeg in each thread (bench/plain_masking.hpp).
// Two that are compared run in blocks that alternate in an order decided by a coin. Beside samples/s stands what a
// second of CPU time gives, of all processes of an arm; the memory of an arm is the most that it held in a
// block of its own, in processes of its own, everything that they loaded included.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <sstream>
#include <vector>

#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "bench/peer.hpp"
#include "bench/plain_jpeg.hpp"
#include "bench/plain_masking.hpp"
#include "bench/process_use.hpp"
#include "bench/recipe_job.hpp"
#include "daemon/common/settings.hpp"
#include "recipes/knobs.hpp"
#include "recipes/recipe.hpp"
#include "trainer/input/common/sample_cache.hpp"
#include "trainer/input/datasets/dataset.hpp"
#include "trainer/input/jpeg_index/jpeg_index.hpp"
#include "trainer/input/loader/loader.hpp"
#include "trainer/input/loader/sample_writer.hpp"
#include "trainer/input/transforms/pipeline.hpp"
#include "trainer/input/transforms/transform_types.hpp"
#include "tuner/comparison.hpp"

namespace {

using namespace autotuned;
using bench::value_of;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTimedSamples = 400;  // of the table of parts
constexpr std::int64_t kMaxCacheBytes = std::int64_t{8} << 30;

struct Named {
  std::string text;  // as it was given
  std::string name;
  Configuration configuration;
  std::optional<input::Pipeline> pipeline;
  std::unique_ptr<input::SampleCache> cache;  // filled
};

[[noreturn]] void refuse(const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  std::exit(2);
}

// "NAME KNOB=VALUE KNOB=VALUE" over `start`.
Named named(const std::string& text, const Configuration& start,
            const std::vector<recipes::Knob>& knobs) {
  std::istringstream words(text);
  Named result{text, {}, start, {}, {}};
  words >> result.name;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const auto knob = recipes::find_knob(knobs, word.substr(0, equals));
    if (equals == std::string::npos || !knob) refuse("-c: expected KNOB=VALUE, found " + word);
    result.configuration.set(knob->name,
                             value_of(recipes::parse_value(*knob, word.substr(equals + 1))));
  }
  return result;
}

// One loader that takes on one configuration after the other, in the same memory.
class Input {
 public:
  Input(const recipes::Recipe& recipe, std::vector<Named>& configurations) : recipe_(recipe) {
    dataset_ = value_of(input::open_dataset(recipe.data.type, recipe.data.parameters));
    for (const recipes::Component& transform : recipe.input)
      transforms_.push_back({transform.type, transform.parameters});
    for (Named& one : configurations) {
      const auto form = input::pipeline_form_of(one.configuration);
      one.pipeline =
          value_of(input::Pipeline::compile(dataset_->type(), transforms_, recipe.seed, form));
      if (one.pipeline->is_cached()) one.cache = filled_cache(*one.pipeline);
      if (one.pipeline->is_indexed() && index_ == nullptr) {
        constexpr std::int64_t kMaxIndexBytes = std::int64_t{1} << 30U;
        index_ = value_of(input::JpegIndex::create(dataset_->stored().items, kMaxIndexBytes));
      }
    }
  }

  [[nodiscard]] const input::Dataset& dataset() const { return *dataset_; }

  // As it is in later epochs.
  void fill_index(const Named& one) {
    const input::SampleWriter writer(*dataset_, *one.pipeline, {.index = index_.get()});
    auto scratch = writer.make_scratch();
    const std::int64_t items = dataset_->stored().items;
    const auto start = Clock::now();
    std::int64_t bytes = 0;
    for (std::int64_t i = 0; i < items; ++i) {
      value_of(writer.keep(i, scratch));
      bytes += static_cast<std::int64_t>(scratch.stored.size());
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    fmt::print("index: {} files of {:.0f} KB, {:.0f} us and {:.1f} KB of index each\n\n", items,
               static_cast<double>(bytes) / static_cast<double>(items) / 1000,
               took.count() / static_cast<double>(items),
               static_cast<double>(index_->bytes()) / static_cast<double>(items) / 1000);
  }

  bench::LoadRate rate(const Named& one, nanoseconds duration) {
    input::LoaderSettings settings = settings_of(one);
    if (!loader_) {
      loader_ = value_of(input::Loader::create(*dataset_, {.seed = recipe_.seed}, *one.pipeline,
                                               std::move(settings)));
    } else {
      value_of(loader_->reconfigure(std::move(settings)));
    }
    loader_->resume();
    take_batch();  // memory is touched, and every thread at work
    const nanoseconds cpu_before = bench::own_cpu_time();
    const auto start = Clock::now();
    std::int64_t samples = 0;
    while (Clock::now() - start < duration)
      samples += take_batch();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    const std::chrono::duration<double> cpu_seconds = bench::own_cpu_time() - cpu_before;
    loader_->pause();
    const auto count = static_cast<double>(samples);
    return {count / seconds.count(), count / cpu_seconds.count()};
  }

  // Prints what one thread spends on a sample, and beside it the least that its parts can take: libjpeg's own
  // decoding of the same part of the picture, and for all else moving what comes in and what goes out.
  void print_parts(const Named& one) {
    const input::Pipeline& pipeline = *one.pipeline;
    const auto type = pixel_type_of(one);
    auto scratch = pipeline.make_scratch();
    scratch.part_ns.resize(pipeline.parts().size());
    scratch.part_bytes.resize(pipeline.parts().size());
    const auto batch_size = one.configuration.integer("batch_size");
    const auto batch = static_cast<std::size_t>(batch_size);
    const auto elements = static_cast<std::size_t>(pipeline.shape().elements());
    std::vector<float> out(batch * elements);
    std::vector<float> assembled(pipeline.has_batch_stages(type) ? batch * elements : 0);
    auto* const to =
        reinterpret_cast<std::uint8_t*>(assembled.empty() ? out.data() : assembled.data());
    const CropOfDecoder crop = crop_of_decoder(pipeline);
    nanoseconds reading{0};
    nanoseconds decoding{0};  // by libjpeg alone
    std::int64_t read_bytes = 0;
    const std::int64_t count = (kTimedSamples + batch_size - 1) / batch_size * batch_size;
    for (std::int64_t i = -batch_size; i < count; ++i) {
      if (i == 0) {  // the first batch only touches memory
        reading = decoding = nanoseconds{0};
        read_bytes = 0;
        std::ranges::fill(scratch.part_ns, 0);
        std::ranges::fill(scratch.part_bytes, 0);
      }
      const std::int64_t at = (i + batch_size) % batch_size;
      const std::int64_t index = (i + batch_size) % dataset_->size();
      std::uint8_t* const place = to + static_cast<std::size_t>(at) * pipeline.written_bytes(type);
      const input::Position position{0, i + batch_size};
      const auto start = Clock::now();
      const input::Sample sample =
          one.cache ? *one.cache->find(dataset_->stored_index(index), scratch.cached)
                    : read(pipeline, index, scratch);
      reading += Clock::now() - start;
      read_bytes += static_cast<std::int64_t>(sample.bytes.size());
      const bool is_jpeg = sample.element == input::Element::encoded && sample.bytes[0] == 0xFF;
      if (is_jpeg) decoding += crop.time(sample.bytes, index);
      value_of(one.cache ? pipeline.run_rest(sample, position, type, place, scratch)
                         : pipeline.run(sample, position, type, place, scratch));
      if (at + 1 == batch_size && pipeline.has_batch_stages(type)) {
        pipeline.finish_batch(assembled.data(), batch_size, {0, i + 1}, type, out.data(), scratch);
      }
    }
    const auto per_sample = [count](double ns) { return ns / static_cast<double>(count); };
    const double ns_per_byte = ns_per_moved_byte();
    double sum_ns = 0;
    double sum_limit_ns = 0;
    const auto row = [&](const std::string& part, std::int64_t ns, double limit_ns) {
      fmt::print("| {} | {} | {:.0f} | {:.0f} |\n", one.name, part,
                 per_sample(static_cast<double>(ns)), per_sample(limit_ns));
      sum_ns += static_cast<double>(ns);
      sum_limit_ns += limit_ns;
    };
    row(one.cache ? "cache" : "read", reading.count(),
        2 * ns_per_byte * static_cast<double>(read_bytes));
    for (std::size_t i = one.cache ? pipeline.cached_parts() : 0; i < scratch.part_ns.size(); ++i) {
      const bool is_decoding = i == 0 && decoding.count() > 0;
      row(pipeline.parts()[i], scratch.part_ns[i],
          is_decoding ? static_cast<double>(decoding.count())
                      : ns_per_byte * static_cast<double>(scratch.part_bytes[i]));
    }
    fmt::print("| {} | all, {:.2f} x the limit | {:.0f} | {:.0f} |\n", one.name,
               sum_ns / sum_limit_ns, per_sample(sum_ns), per_sample(sum_limit_ns));
  }

 private:
  // Decodes the part of a picture that the decoder has to make, by libjpeg alone.
  struct CropOfDecoder {
    std::unique_ptr<input::Stage> cut;  // null: all of it
    input::SampleShape shape;

    [[nodiscard]] nanoseconds time(std::span<const std::uint8_t> file, std::int64_t index) const {
      static std::vector<std::uint8_t> row;
      input::Window part{.height = shape.height, .width = shape.width};
      if (cut != nullptr) {
        // Drawn from the same parts, if not the same ones.
        const input::RandomStream draws(1, static_cast<std::uint64_t>(index));
        part = value_of(static_cast<const input::CutStage&>(*cut).window(shape, draws));
      }
      const auto start = Clock::now();
      bench::decode_plainly(file, part, row);
      return Clock::now() - start;
    }
  };
  CropOfDecoder crop_of_decoder(const input::Pipeline& pipeline) const {
    input::SampleType type = dataset_->type();
    if (type.element != input::Element::encoded || !type.has_one_shape()) return {};
    CropOfDecoder crop{nullptr, type.shape()};
    type.element = input::Element::uint8;
    if (pipeline.parts()[0].find(" + ") == std::string::npos) return crop;
    for (const input::Transform& transform : transforms_) {
      const input::TransformKind& kind = *input::find_transform(transform.type);
      if (kind.geometry != input::Geometry::cuts) continue;
      crop.cut = value_of(kind.make(transform, type));
      break;
    }
    return crop;
  }

  // The time of a byte that is read or written while a large block is copied.
  static double ns_per_moved_byte() {
    constexpr std::size_t kBytes = std::size_t{64} << 20U;
    std::vector<std::uint8_t> from(kBytes, 1);
    std::vector<std::uint8_t> to(kBytes, 2);
    double least = std::numeric_limits<double>::max();
    for (int i = 0; i < 5; ++i) {
      const auto start = Clock::now();
      std::memcpy(to.data(), from.data(), kBytes);
      const std::chrono::duration<double, std::nano> ns = Clock::now() - start;
      from[0] = to[kBytes - 1];  // so that it is not left out
      least = std::min(least, ns.count());
    }
    return least / (2.0 * kBytes);
  }

  std::unique_ptr<input::SampleCache> filled_cache(const input::Pipeline& pipeline) const {
    const auto items = dataset_->stored().items;
    auto cache = value_of(pipeline.form().cache_place == input::CachePlace::file
                              ? input::SampleCache::create_in_file(items, kMaxCacheBytes,
                                                                   std::filesystem::current_path())
                              : input::SampleCache::create(items, kMaxCacheBytes));
    auto scratch = pipeline.make_scratch();
    for (std::int64_t i = 0; i < items; ++i)
      cache->keep(i, value_of(pipeline.run_cached_parts(read(pipeline, i, scratch), scratch)));
    if (cache->kept_items() < items) refuse("not all samples fit into the cache");
    return cache;
  }

  static input::PixelType pixel_type_of(const Named& one) {
    return one.configuration.text("transfer.dtype") == "uint8" ? input::PixelType::uint8
                                                               : input::PixelType::float32;
  }

  static input::Affinity affinity_of(const Named& one) {
    return one.configuration.text("loader.affinity") == "apart" ? input::Affinity::apart
                                                                : input::Affinity::any;
  }

  input::LoaderSettings settings_of(const Named& one) {
    const std::int64_t workers = one.configuration.integer("loader.workers");
    const std::int64_t ahead = one.configuration.integer("loader.prefetch_batches");
    const std::int64_t batch_size = one.configuration.integer("batch_size");
    const auto slots = static_cast<std::size_t>(workers * ahead + 1);
    const auto elements = static_cast<std::size_t>(batch_size * one.pipeline->shape().elements());
    images_.resize(std::max(images_.size(), slots));
    labels_.resize(images_.size());
    input::LoaderSettings settings{.workers = static_cast<int>(workers),
                                   .batch_size = batch_size,
                                   .drop_last = recipe_.train.drop_last,
                                   .pixel_type = pixel_type_of(one),
                                   .ring = {},
                                   .pipeline = &*one.pipeline,
                                   .affinity = affinity_of(one),
                                   .kept = {.cache = one.cache.get(), .index = index_.get()}};
    for (std::size_t i = 0; i < slots; ++i) {
      images_[i].resize(std::max(images_[i].size(), elements));
      labels_[i].resize(std::max(labels_[i].size(), static_cast<std::size_t>(batch_size)));
      settings.ring.push_back({images_[i].data(), labels_[i].data()});
    }
    return settings;
  }

  std::int64_t take_batch() {
    const input::Batch batch = value_of(loader_->next());
    loader_->release(batch.slot);
    return batch.samples;
  }

  input::Sample read(const input::Pipeline& pipeline, std::int64_t index,
                     input::Pipeline::Scratch& scratch) const {
    const input::SampleType type = dataset_->type();
    if (type.element == input::Element::encoded) {
      const input::FileStamp stamp = value_of(dataset_->read_encoded(index, scratch.stored));
      const bool is_indexed = pipeline.is_indexed();
      return {type.element,
              {},
              scratch.stored,
              {stamp, dataset_->stored_index(index), is_indexed ? index_.get() : nullptr}};
    }
    const auto bytes = static_cast<std::size_t>(type.shape().elements()) * bytes_of(type.element);
    scratch.stored.resize(bytes);
    value_of(dataset_->read(index, scratch.stored));
    return {type.element, type.shape(), scratch.stored, {}};
  }

  const recipes::Recipe& recipe_;
  std::unique_ptr<input::Dataset> dataset_;
  std::vector<input::Transform> transforms_;
  std::unique_ptr<input::JpegIndex> index_;  // null unless a configuration asks for it
  std::vector<std::vector<float>> images_;
  std::vector<std::vector<std::int64_t>> labels_;
  std::unique_ptr<input::Loader> loader_;  // after what it writes to
};

using Block = std::function<bench::LoadRate()>;

// One row: the first against the second.
void compare(const std::string& name, const Block& ours, const std::string& other_name,
             const Block& other, int pairs) {
  static std::mt19937_64 coin(std::random_device{}());
  tuner::Comparison comparison(tuner::ComparisonRules{0.025, 0.025, 0.0});
  struct Arm {
    std::vector<double> rates;
    std::vector<double> of_a_core;

    void add(const bench::LoadRate& rate) {
      rates.push_back(rate.samples_per_second);
      of_a_core.push_back(rate.samples_per_cpu_second);
    }
    [[nodiscard]] std::string text() const {
      return fmt::format("{:.0f} | {:.0f}", median(rates), median(of_a_core));
    }
  };
  Arm arm;
  Arm other_arm;
  (void)ours();
  (void)other();
  for (int pair = 0; pair < pairs; ++pair) {
    const bool is_first = (coin() & 1U) != 0;
    const bench::LoadRate before = is_first ? ours() : other();
    const bench::LoadRate after = is_first ? other() : ours();
    arm.add(is_first ? before : after);
    other_arm.add(is_first ? after : before);
    comparison.add(std::log(arm.rates.back() / other_arm.rates.back()),
                   std::log(arm.rates.back() * other_arm.rates.back()) / 2.0);
  }
  const Estimate& estimate = comparison.estimate();
  const std::string interval = estimate.high < tuner::kNoUpperEnd
                                   ? fmt::format("{:.2f} to {:.2f}", estimate.low, estimate.high)
                                   : fmt::format("over {:.2f}", estimate.low);
  fmt::print("| {} | {} | {} | {} | {:.2f} | {} | {} |\n", name, arm.text(), other_name,
             other_arm.text(), estimate.ratio, interval, estimate.pairs);
  std::fflush(stdout);
}

void print_memory(const std::string& name, std::int64_t bytes) {
  fmt::print("| {} | {:.0f} |\n", name, static_cast<double>(bytes) / 1e6);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The input of a recipe alone."};
  std::filesystem::path recipe_file;
  std::vector<std::string> texts;
  std::filesystem::path python = ".deps/peers/bin/python";
  std::filesystem::path script;
  int pairs = 8;
  double block_seconds = 1.0;
  bool is_plain = false;
  bool is_alone = false;
  app.add_option("RECIPE", recipe_file, "The job")->required();
  app.add_option(
         "-c,--configuration", texts,
         "\"NAME KNOB=VALUE ...\" over the recipe's start; each is compared with the first, "
         "peers with the last")
      ->required();
  app.add_option("--script", script, "A peer, such as bench/peers/photo_masking.py");
  app.add_option("--python", python, "Python with the peers")->capture_default_str();
  app.add_option("--pairs", pairs, "Pairs of blocks")->capture_default_str();
  app.add_option("--block", block_seconds, "Seconds of a block")->capture_default_str();
  app.add_flag("--plain", is_plain,
               "Also a plain loop over libjpeg; for the input of photo_masking");
  app.add_flag("--alone", is_alone,
               "One block of the first configuration, or of the plain loop, and no words");
  CLI11_PARSE(app, argc, argv);

  const Machine machine = detect_machine();
  const auto knobs = recipes::knobs_of(machine);
  const auto recipe = recipes::read_recipe(recipe_file, knobs);
  if (!recipe) {
    for (const auto& diagnostic : recipe.error())
      fmt::print(stderr, "{}\n", diagnostic.text());
    return 2;
  }
  std::vector<Named> all;
  for (const std::string& text : texts)
    all.push_back(named(text, recipe->starting_configuration(knobs), knobs));
  Input input(*recipe, all);

  const nanoseconds block(static_cast<std::int64_t>(block_seconds * 1e9));
  const auto block_of = [&](const Named& one) {
    return [&input, &one, block] { return input.rate(one, block); };
  };
  std::optional<bench::PlainMasking> plain;
  if (is_plain && !bench::PlainMasking::is_of(*recipe)) refuse("--plain: the input is another");
  if (is_plain) plain.emplace(input.dataset(), recipe->train.batch_size, machine.cpus_allowed);
  const auto plain_block = [&plain, block]() -> bench::LoadRate {
    using Steady = std::chrono::steady_clock;
    const nanoseconds cpu_before = bench::own_cpu_time();
    const auto start = Steady::now();
    const auto samples = static_cast<double>(plain->load(block));
    const std::chrono::duration<double> seconds = Steady::now() - start;
    const std::chrono::duration<double> cpu_seconds = bench::own_cpu_time() - cpu_before;
    return {samples / seconds.count(), samples / cpu_seconds.count()};
  };
  if (is_alone) {
    (void)(plain ? plain_block() : input.rate(all.front(), block));
    return 0;
  }
  fmt::print("Machine: {}, {} CPUs. Loading alone.\n\n", machine.cpu_model, machine.cpus_allowed);
  const auto indexed =
      std::ranges::find_if(all, [](const Named& one) { return one.pipeline->is_indexed(); });
  if (indexed != all.end()) input.fill_index(*indexed);
  fmt::print(
      "| configuration | samples/s | per CPU second | against | samples/s | per CPU second | ratio "
      "| "
      "interval | pairs |\n|---|---|---|---|---|---|---|---|---|\n");
  for (std::size_t i = 1; i < all.size(); ++i)
    compare(all[i].name, block_of(all[i]), all[0].name, block_of(all[0]), pairs);
  const std::string plain_name = fmt::format("plain loop, {} threads", machine.cpus_allowed);
  if (plain) compare(all.back().name, block_of(all.back()), plain_name, plain_block, pairs);
  const auto log = std::filesystem::temp_directory_path() /
                   fmt::format("autotuned-bench-input-{}.log", getpid());
  Json all_settings = Json::array();
  if (!script.empty()) {
    bench::Peer peer(python, script, log);
    for (const Json& settings : peer.settings()) {
      compare(
          all.back().name, block_of(all.back()), settings.dump(),
          [&] { return peer.rate(settings, block); }, pairs);
    }
    all_settings = peer.settings();
  }
  fmt::print("\n| alone | memory at most, MB |\n|---|---|\n");
  const auto memory_alone = [&](const std::string& text, bool is_plain_loop) {
    std::vector<std::string> arguments = {
        std::filesystem::absolute(recipe_file), "-c",     text, "--block",
        std::to_string(block_seconds),          "--alone"};
    if (is_plain_loop) arguments.emplace_back("--plain");
    return bench::memory_of_program(arguments);
  };
  for (const Named& one : all)
    print_memory(one.name, memory_alone(one.text, false));
  if (plain) print_memory(plain_name, memory_alone("plain", true));
  for (const Json& settings : all_settings) {
    bench::Peer peer(python, script, log);
    bench::PeakMemory peak(peer.pid());
    (void)peer.rate(settings, block);
    print_memory(settings.dump(), peak.stop());
  }
  std::error_code ignored;
  std::filesystem::remove(log, ignored);
  fmt::print(
      "\n| configuration | part, in one thread | ns per sample | limit |\n|---|---|---|---|\n");
  for (const Named& one : all)
    input.print_parts(one);
  return 0;
}
